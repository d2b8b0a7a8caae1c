//! Options of `weft srp connect`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use weft_srp::limits::QUEUE_SIZE_MAX;

use super::login::{self, Login};
use crate::hex;

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
    /// Login: id_ext=...,ioc_guid=...,dest=ADDRESS:PORT[,initiator_ext=...][,queue_size=N], as a target prints it
    #[arg(value_name = "LOGIN", value_parser = login::parse, required_unless_present = "dest")]
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
    /// Address or name of the target.
    pub address: String,
    /// Port of the target.
    pub port: u16,
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
        let (address, port) = self.dest.clone().or(login.dest).with_context(|| missing("dest"))?;
        let queue_size = self.queue_size.or(login.queue_size).unwrap_or(QUEUE_SIZE_MAX);
        ensure!(queue_size <= QUEUE_SIZE_MAX, "queue_size: at most {QUEUE_SIZE_MAX}");
        Ok(Named {
            id_ext: self.id_ext.or(login.id_ext).with_context(|| missing("id_ext"))?,
            ioc_guid: self.ioc_guid.or(login.ioc_guid).with_context(|| missing("ioc_guid"))?,
            address,
            port,
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
        add("dest", format!("[{}]:{}", named.address, named.port));
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
    fn a_login_needs_all_parts_of_the_target() {
        let error =
            |words: &str| Line::parse_from(words.split(' ')).args.named().map_err(|error| error.to_string()).err();
        assert!(error("weft id_ext=1,dest=host").is_some_and(|text| text.starts_with("ioc_guid is missing")));
        assert!(error("weft id_ext=1,ioc_guid=2").is_some_and(|text| text.starts_with("dest is missing")));
        assert!(error("weft id_ext=1,ioc_guid=2,dest=a,queue_size=65").is_some());
        assert!(Line::try_parse_from(["weft"]).is_err());
    }
}
