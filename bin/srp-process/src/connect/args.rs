//! Options of `weft srp connect`.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use weft_srp::limits::QUEUE_SIZE_MAX;

use super::login::{self, Login};
use crate::hex;
use crate::place::{Service, TargetPlace};

/// Time in seconds, or `off`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit(pub Option<u32>);

impl Limit {
    /// Returns the time.
    pub fn time(self) -> Option<Duration> {
        self.0.map(|seconds| Duration::from_secs(seconds.into()))
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(seconds) => write!(f, "{seconds}"),
            None => f.write_str("off"),
        }
    }
}

fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "off" => Ok(Limit(None)),
        number => {
            number.parse().map(|seconds| Limit(Some(seconds))).map_err(|_| "not a number of seconds, or off".into())
        }
    }
}

/// Options of `weft srp connect`.
#[derive(Args, Clone, Debug)]
pub struct ConnectArgs {
    /// Login: id_ext=...,ioc_guid=...,dest=ADDRESS:PORT or dgid=...,pkey=...,service_id=..., and [,initiator_ext=...]
    /// [,queue_size=N], as a target prints it
    #[arg(value_name = "LOGIN", value_parser = login::parse, required_unless_present_any = ["dest", "dgid"])]
    pub login: Option<Login>,
    /// Extension of the target's identifier, 16 hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = hex::number)]
    pub id_ext: Option<u64>,
    /// GUID of the target's controller, 16 hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = hex::number)]
    pub ioc_guid: Option<u64>,
    /// Address or name of the target, and its port
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = login::dest)]
    pub dest: Option<(String, u16)>,
    /// GID of the target's port on InfiniBand, 32 hexadecimal digits; --service-id belongs to it
    #[arg(long, value_name = "HEX", value_parser = hex::gid, conflicts_with = "dest")]
    pub dgid: Option<[u8; 16]>,
    /// P_Key of the path to that port, 4 hexadecimal digits [default: the own port's first]
    #[arg(long, value_name = "HEX", value_parser = hex::pkey)]
    pub pkey: Option<u16>,
    /// Service identifier of the target, 16 hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = hex::number)]
    pub service_id: Option<u64>,
    /// Extension of this initiator's identifier, 16 hexadecimal digits: with several, a user has several logins to a target
    /// [default: 0]
    #[arg(long, value_name = "HEX", value_parser = hex::number)]
    pub initiator_ext: Option<u64>,
    /// Commands in progress [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(QUEUE_SIZE_MAX)))]
    pub queue_size: Option<u16>,
    /// Time between two attempts to log in again, in seconds; off: there is no attempt
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = limit)]
    pub reconnect_delay: Limit,
    /// Time without a connection after which requests fail, in seconds; off: they wait
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = limit)]
    pub fast_io_fail_tmo: Limit,
    /// Time without a connection after which the process ends, in seconds; off: it never does
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = limit)]
    pub dev_loss_tmo: Limit,
    /// Time for a command, in seconds; then it is aborted, and sent again
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub command_timeout: u32,
    /// Stay in the foreground, and print a line about each loss of the connection
    #[arg(long)]
    pub foreground: bool,
    /// Separate from the terminal once connected
    #[arg(long, hide = true)]
    pub detached: bool,
    /// Use the system's libraries and real adapters, not Weft's
    #[arg(long)]
    pub system: bool,
}

/// Target and initiator that the options name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// Extension of the target's identifier.
    pub id_ext: u64,
    /// GUID of the target's controller.
    pub ioc_guid: u64,
    /// Place of the target.
    pub place: TargetPlace,
    /// Extension of the initiator's identifier.
    pub initiator_ext: u64,
    /// Commands in progress.
    pub queue_size: u16,
}

impl ConnectArgs {
    /// Returns what the login string and the other options name; the latter come first.
    ///
    /// # Errors
    /// Something is missing.
    pub fn named(&self) -> Result<Named> {
        let login = self.login.clone().unwrap_or_default();
        let missing = |name: &str| format!("{name} is missing; the target prints the whole login");
        let dgid = self.dgid.or(login.dgid);
        let place = match (self.dest.clone().or(login.dest), dgid) {
            (Some(_), Some(_)) => bail!("dest and dgid: give one of them"),
            (Some((host, port)), None) => TargetPlace::Address { host, port },
            (None, Some(gid)) => TargetPlace::Service(Service {
                gid,
                pkey: self.pkey.or(login.pkey).unwrap_or(0),
                id: self.service_id.or(login.service_id).with_context(|| missing("service_id"))?,
            }),
            (None, None) => bail!(missing("dest or dgid")),
        };
        let queue_size = self.queue_size.or(login.queue_size).unwrap_or(QUEUE_SIZE_MAX);
        ensure!(queue_size <= QUEUE_SIZE_MAX, "queue_size: at most {QUEUE_SIZE_MAX}");
        Ok(Named {
            id_ext: self.id_ext.or(login.id_ext).with_context(|| missing("id_ext"))?,
            ioc_guid: self.ioc_guid.or(login.ioc_guid).with_context(|| missing("ioc_guid"))?,
            place,
            initiator_ext: self.initiator_ext.or(login.initiator_ext).unwrap_or(0),
            queue_size,
        })
    }

    /// Returns the words that start the process in the background with these options.
    pub fn words(&self, named: &Named) -> Vec<String> {
        let mut words =
            vec!["srp".to_owned(), "connect".to_owned(), "--foreground".to_owned(), "--detached".to_owned()];
        let mut add = |name: &str, value: String| words.push(format!("--{name}={value}"));
        add("id-ext", format!("{:016x}", named.id_ext));
        add("ioc-guid", format!("{:016x}", named.ioc_guid));
        match &named.place {
            TargetPlace::Address { host, port } => add("dest", format!("[{host}]:{port}")),
            TargetPlace::Service(service) => {
                add("dgid", format!("{:032x}", u128::from_be_bytes(service.gid)));
                add("pkey", format!("{:04x}", service.pkey));
                add("service-id", format!("{:016x}", service.id));
            }
        }
        add("initiator-ext", format!("{:016x}", named.initiator_ext));
        add("queue-size", named.queue_size.to_string());
        add("reconnect-delay", self.reconnect_delay.to_string());
        add("fast-io-fail-tmo", self.fast_io_fail_tmo.to_string());
        add("dev-loss-tmo", self.dev_loss_tmo.to_string());
        add("command-timeout", self.command_timeout.to_string());
        if self.system {
            words.push("--system".to_owned());
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ConnectArgs,
    }

    #[test]
    fn the_process_in_the_background_gets_the_same_options() {
        let words = "weft id_ext=1,ioc_guid=2,dest=host:5556,queue_size=9 --initiator-ext 3 --fast-io-fail-tmo off --dev-loss-tmo=20";
        let args = Line::parse_from(words.split(' ')).args;
        let named = args.named().expect("a target");
        assert_eq!((named.id_ext, named.ioc_guid, named.initiator_ext, named.queue_size), (1, 2, 3, 9));
        let again = std::iter::once("weft".to_owned()).chain(args.words(&named).into_iter().skip(2));
        let again = Line::parse_from(again).args;
        assert_eq!(again.named().ok(), Some(named));
        let times =
            |args: &ConnectArgs| (args.reconnect_delay, args.fast_io_fail_tmo, args.dev_loss_tmo, args.command_timeout);
        assert_eq!(times(&again), (Limit(Some(10)), Limit(None), Limit(Some(20)), 30));
        assert!(again.foreground && again.detached);
    }

    #[test]
    fn a_service_has_a_gid_in_place_of_an_address() {
        let login = "weft id_ext=1,ioc_guid=2,dgid=fe800000000000000257450100000601,pkey=7fff,service_id=13f15b3";
        let args = Line::parse_from(login.split(' ')).args;
        let named = args.named().expect("a target");
        assert!(
            matches!(named.place, TargetPlace::Service(Service { pkey: 0x7fff, id: 0x013f_15b3, .. })),
            "{named:?}"
        );
        let again = std::iter::once("weft".to_owned()).chain(args.words(&named).into_iter().skip(2));
        assert_eq!(Line::parse_from(again).args.named().ok(), Some(named));
    }

    #[test]
    fn a_login_needs_all_parts_of_the_target() {
        let error =
            |words: &str| Line::parse_from(words.split(' ')).args.named().map_err(|error| error.to_string()).err();
        assert!(error("weft id_ext=1,dest=host").is_some_and(|text| text.starts_with("ioc_guid is missing")));
        assert!(error("weft id_ext=1,ioc_guid=2").is_some_and(|text| text.starts_with("dest or dgid is missing")));
        let gid = "weft id_ext=1,ioc_guid=2,dgid=fe800000000000000257450100000601";
        assert!(error(gid).is_some_and(|text| text.starts_with("service_id is missing")));
        assert!(error(&format!("{gid},service_id=1,dest=a")).is_some_and(|text| text.starts_with("dest and dgid")));
        assert!(error("weft id_ext=1,ioc_guid=2,dest=a,queue_size=65").is_some());
        assert!(Line::try_parse_from(["weft"]).is_err());
    }
}
