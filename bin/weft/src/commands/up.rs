//! `weft up` and `weft down`: bring an InfiniBand fabric up in this network namespace, and take it down.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use weft_fabric::topology::Topology;
use weft_ipc::ethernet::{EthernetSpec, EthernetStatus};
use weft_ipc::fabric::{FabricRequest, HostPrograms, SmPort, pack};
use weft_ipc::{Client, RequestError, Spawn};
use weft_tool::fabric::{finish, session, spell};
use weft_tool::topology_source::SourceArgs;

use super::ethernet::{self, EthernetArgs};
use super::fabric_manager::FabricManager;
use super::fabric_summary::summary;
use super::pingall::{self, Report};
use crate::{outln, output};

/// Options of `weft up`.
#[derive(Args, Debug)]
pub struct UpArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    ethernet: EthernetArgs,
    /// Replace the running fabric, if there is one
    #[arg(long)]
    replace: bool,
    /// Seed of packet loss on bad cables and of --loss; the same seed loses the same packets [default: random]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    seed: u64,
    /// Forward every packet hop by hop through the switches, where cable faults act on each packet
    #[arg(long)]
    packets: bool,
    /// Mode in which the hosts' IPoIB interfaces start
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    ipoib_mode: IpoibMode,
    /// Start no subnet manager; links stay in state Init until one starts
    #[arg(long)]
    no_sm: bool,
    /// Host that runs the subnet manager [default: the first]
    #[arg(long, value_name = "NODE", conflicts_with = "no_sm")]
    sm_host: Option<String>,
    /// The subnet manager's opensm.conf
    #[arg(long, value_name = "FILE", conflicts_with = "no_sm")]
    sm_config: Option<PathBuf>,
    /// Do not wait until the subnet is up; implied by --no-sm
    #[arg(long)]
    no_wait: bool,
    /// Test the fabric once it is up: pingall: every host pings every other, by LID, verbs and IP
    #[arg(long, value_enum, value_name = "TEST", conflicts_with_all = ["no_sm", "no_wait"])]
    test: Option<Test>,
    /// Print JSON
    #[arg(short, long)]
    json: bool,
}

/// Tests of a fabric that is up.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum Test {
    /// Every host pings every other, or a sample of 64 others, by LID, verbs and IP over InfiniBand
    Pingall,
}

/// Mode of an IPoIB interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum IpoibMode {
    /// Datagrams; an MTU of 2044 or 4092 bytes
    #[default]
    Datagram,
    /// Reliable connections between neighbours in this mode; an MTU of 65520 bytes
    Connected,
}

/// Brings a fabric up.
pub fn run(args: &UpArgs) -> ExitCode {
    finish("weft up", up(args))
}

/// Takes the fabric down.
pub fn down() -> ExitCode {
    let down = session(Spawn::Never).and_then(|mut client| take_down(&mut client).map_err(spell));
    finish("weft down", down.map(|bereft| bereft.iter().for_each(|line| outln!("{line}"))))
}

/// Takes the fabric down. Returns a line about programs that lost their adapters, without the subnet manager, which
/// ends with its subnet.
fn take_down(client: &mut Client) -> Result<Option<String>, RequestError> {
    let managers = client.fabric_status()?.map(|status| status.managers).unwrap_or_default();
    let hosts = without_managers(client.fabric_hosts()?, &managers);
    client.fabric(FabricRequest::Down)?;
    Ok((!hosts.is_empty()).then(|| bereft(&hosts)))
}

fn without_managers(mut hosts: Vec<HostPrograms>, managers: &[SmPort]) -> Vec<HostPrograms> {
    for host in &mut hosts {
        let manages = managers.iter().any(|manager| manager.node == host.host);
        host.programs = host.programs.saturating_sub(u32::from(manages));
    }
    hosts.retain(|host| host.programs > 0);
    hosts
}

/// Lists programs that lost their adapters: `2 programs have lost their adapters: node1 (2)`.
fn bereft(hosts: &[HostPrograms]) -> String {
    const NAMED: usize = 8;
    let all: u32 = hosts.iter().map(|host| host.programs).sum();
    let mut words: Vec<_> = hosts.iter().take(NAMED).map(|host| format!("{} ({})", host.host, host.programs)).collect();
    words.extend((hosts.len() > NAMED).then(|| format!("{} other hosts", hosts.len() - NAMED)));
    let verb = if all == 1 { "program has lost its adapters" } else { "programs have lost their adapters" };
    format!("{all} {verb}: {}", words.join(", "))
}

fn up(args: &UpArgs) -> Result<(), String> {
    match args.ethernet.spec(args.seed)? {
        Some(spec) => ethernet_up(args, spec),
        None => fabric_up(args),
    }
}

/// Brings up an Ethernet network.
fn ethernet_up(args: &UpArgs, spec: EthernetSpec) -> Result<(), String> {
    let mut client = session(Spawn::IfNeeded)?;
    make_room(args, &mut client)?;
    client.ethernet_up(spec).map_err(spell)?;
    if args.json {
        outln!("{}", ethernet::as_json(&EthernetStatus { spec, uptime_s: 0, failure: None }));
    } else {
        outln!("{}", ethernet::summary(&spec));
        outln!("Hosts are {}: weft run --host node1 -- ibv_devices", ethernet::hosts(&spec));
    }
    Ok(())
}

/// Takes down what is up, if the user wants it replaced.
fn make_room(args: &UpArgs, client: &mut Client) -> Result<(), String> {
    let is_up = |client: &mut Client| -> Result<bool, RequestError> {
        Ok(client.fabric_status()?.is_some() || client.ethernet_status()?.is_some())
    };
    if args.replace && is_up(client).map_err(spell)? {
        let bereft = take_down(client).map_err(spell)?;
        bereft.iter().filter(|_| !args.json).for_each(|line| outln!("{line}"));
    }
    Ok(())
}

fn fabric_up(args: &UpArgs) -> Result<(), String> {
    // Checks all arguments before the running fabric goes down.
    let topology = args.source.load()?;
    topology.check().map_err(|error| error.to_string())?;
    let bytes = pack(&topology).map_err(|error| error.to_string())?;
    let manager = if args.no_sm {
        None
    } else {
        FabricManager::choose(args.sm_host.as_deref(), args.sm_config.as_deref(), &topology)?
    };
    let mut client = session(Spawn::IfNeeded)?;
    make_room(args, &mut client)?;
    let connected = args.ipoib_mode == IpoibMode::Connected;
    client.fabric_up(&bytes, args.seed, args.packets, connected).map_err(spell)?;
    let managed = match &manager {
        Some(manager) => manager.start(args.no_wait),
        None => Ok(()),
    };
    let status = client.fabric_status().map_err(spell)?.unwrap_or_default();
    if args.json {
        let mut value = super::status::fabric_json(&super::status::Fabric { status, hosts: Vec::new(), picture: None });
        value["sm_host"] = manager.as_ref().map(FabricManager::host).into();
        let report = if managed.is_ok() { pinged(args, &topology)? } else { None };
        if let Some(report) = &report {
            value["pingall"] = report.json();
        }
        outln!("{value}");
        managed.map_err(|error| format!("the fabric is up, its subnet is not: {error}"))?;
        return report.as_ref().map_or(Ok(()), judge);
    }
    outln!("{}", summary(&status));
    managed.map_err(|error| format!("the fabric is up, its subnet is not: {error}"))?;
    match manager {
        Some(manager) => outln!("The subnet manager runs on {}: weft sm status", manager.host()),
        None => {
            if let Some(host) = first_host(&topology) {
                outln!("No subnet manager runs yet, so links stay in state Init. To start one on a host:");
                outln!("  weft run --host {host} -- weft sm     # or {}", opensm());
            }
        }
    }
    match pinged(args, &topology)? {
        Some(report) => {
            output::print(&report.text());
            judge(&report)
        }
        None => Ok(()),
    }
}

/// Runs the test that the user wants.
fn pinged(args: &UpArgs, topology: &Topology) -> Result<Option<Report>, String> {
    let error = |error| format!("the fabric is up, its test failed: {error}");
    args.test.map(|Test::Pingall| pingall::run(topology).map_err(error)).transpose()
}

/// Fails if any ping failed.
fn judge(report: &Report) -> Result<(), String> {
    match report.counts() {
        (_, 0) => Ok(()),
        (sent, lost) => Err(format!("the fabric is up, but {lost} of {sent} pings failed")),
    }
}

/// The opensm command for this user: by default opensm writes to files that only root may write.
fn opensm() -> &'static str {
    if weft_sys::process::euid() == 0 { "opensm" } else { "env OSM_CACHE_DIR=$(mktemp -d) opensm -f stdout" }
}

pub(super) fn first_host(topology: &Topology) -> Option<&str> {
    topology.nodes.iter().map(|node| node.host.as_str()).find(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lost_its_adapters_is_named() {
        let host = |number: u32| HostPrograms { host: format!("node{number}"), programs: number };
        let manager = SmPort { node: "node2".to_owned(), port: 1, lid: 1, followers: 1 };
        assert_eq!(
            without_managers(vec![host(1), host(2), HostPrograms { programs: 1, ..host(2) }], &[manager]).len(),
            2
        );
        assert_eq!(bereft(&[host(1)]), "1 program has lost its adapters: node1 (1)");
        let all: Vec<_> = (1..=10).map(host).collect();
        let told = bereft(&all);
        assert!(told.starts_with("55 programs have lost their adapters: node1 (1), node2 (2)"), "{told}");
        assert!(told.ends_with("node8 (8), 2 other hosts"), "{told}");
    }
}
