//! `weft resource`: counts of each device's objects, its queue pairs, and ids of the RDMA connection manager, as
//! iproute2's `rdma resource`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use weft_cm::rdma_cm::{Command, IdSummary, PortSpace, Reply, SockAddr};
use weft_ipc::Client;
use weft_ipc::stat::StatReport;

use super::devices::{self, HostArg, Listed, Scope};
use super::iproute::{self, Members, OutputArgs};
use super::link::merged;
use super::qp::{self, text};
use crate::output;

/// Options of `weft resource`.
#[derive(Args, Debug)]
pub struct ResourceArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArg,
    #[command(subcommand)]
    command: Option<ResourceCommand>,
}

#[derive(Subcommand, Debug)]
enum ResourceCommand {
    /// Show counts, or list the objects of one kind
    #[command(visible_aliases = ["list", "lst"])]
    Show {
        /// Kind, `qp` or `cm_id`, and a device, or a device and port [default: counts on all devices]
        #[arg(value_name = "[qp|cm_id] [link] [DEV]")]
        words: Vec<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// Runs the command.
pub fn run(args: ResourceArgs) -> ExitCode {
    let (words, output) = match args.command {
        Some(ResourceCommand::Show { words, output }) => (words, merged(args.output, output)),
        None => (Vec::new(), args.output),
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let shown = match words.as_slice() {
        ["cm_id", rest @ ..] => show_ids(rest, &args.host, output),
        ["qp", rest @ ..] => qp::show(COMMAND, rest, &args.host, output, qp::Shown::Resource).map(|listing| {
            listing.untold.iter().for_each(|line| crate::errln!("{line}"));
            listing.text
        }),
        [kind @ ("pd" | "cq" | "mr" | "srq" | "ctx"), ..] => {
            Err(format!("{COMMAND}: of {kind} only the number is known: weft resource show [link DEV]"))
        }
        rest => show_counts(rest, &args.host, output),
    };
    match shown {
        Ok(text) => {
            output::print(&text);
            ExitCode::SUCCESS
        }
        Err(message) => {
            crate::errln!("{message}");
            ExitCode::FAILURE
        }
    }
}

const COMMAND: &str = "weft resource";

fn show_ids(words: &[&str], host: &HostArg, output: OutputArgs) -> Result<String, String> {
    let (mut client, mut devices) = devices::list(COMMAND, host, Scope::InUse)?;
    qp::select(&mut devices, COMMAND, words)?;
    let rows = rows(&ids(&mut client, &devices)?, &devices);
    Ok(if output.json { iproute::json(&rows, output.pretty) } else { text(&rows) })
}

/// Shows the number of objects of each kind.
fn show_counts(words: &[&str], host: &HostArg, output: OutputArgs) -> Result<String, String> {
    let failed = |e: weft_ipc::RequestError| format!("{COMMAND}: {e}");
    let (mut client, mut devices) = devices::list(COMMAND, host, Scope::InUse)?;
    qp::select(&mut devices, COMMAND, words)?;
    let report = client.stat().map_err(failed)?;
    let ids = ids(&mut client, &devices)?;
    let rows: Vec<Members> = devices.iter().map(|device| counts(device, &report, &ids)).collect();
    Ok(if output.json { iproute::json(&rows, output.pretty) } else { counts_text(&rows) })
}

/// The counts of one device, in the kernel's order.
fn counts(device: &Listed, report: &StatReport, ids: &[IdSummary]) -> Members {
    let stat = report.devices.iter().find(|stat| stat.device == device.index);
    let held = stat.map(|stat| stat.objects.clone()).unwrap_or_default();
    let cm_ids = ids.iter().filter(|id| id.device == Some(device.index)).count();
    let mut members: Members = vec![("ifindex", device.number.into()), ("ifname", device.name.as_str().into())];
    members.extend(device.host.iter().map(|host| ("host", host.as_str().into())));
    members.extend([
        ("pd", held.pd.into()),
        ("cq", held.cq.into()),
        ("qp", held.qp.into()),
        ("cm_id", cm_ids.into()),
        ("mr", held.mr.into()),
        ("ctx", held.ctx.into()),
        ("srq", held.srq.into()),
    ]);
    members
}

fn counts_text(rows: &[Members]) -> String {
    let mut out = String::new();
    for row in rows {
        let mut members = row.iter();
        let (index, name) = (members.next(), members.next());
        let name = name.and_then(|(_, name)| name.as_str()).unwrap_or_default();
        let _ = write!(out, "{}: {name}: ", index.map(|(_, index)| index.to_string()).unwrap_or_default());
        for (kind, count) in members {
            let count = count.as_str().map_or_else(|| count.to_string(), str::to_owned);
            let _ = write!(out, "{kind} {count} ");
        }
        out.push('\n');
    }
    out
}

/// Ids of the session's connection manager, and of those of the other hosts in `devices`.
fn ids(client: &mut Client, devices: &[Listed]) -> Result<Vec<IdSummary>, String> {
    let mut all = ids_of(client)?;
    let hosts: BTreeSet<&str> = devices.iter().filter_map(|device| device.host.as_deref()).collect();
    for host in hosts {
        let mut client = devices::connect(Some(host)).map_err(|e| format!("{COMMAND}: {host}: {e}"))?;
        let own = |id: &IdSummary| devices.iter().any(|device| id.device == Some(device.index));
        all.extend(ids_of(&mut client)?.into_iter().filter(own));
    }
    Ok(all)
}

fn ids_of(client: &mut Client) -> Result<Vec<IdSummary>, String> {
    let mut all: Vec<IdSummary> = Vec::new();
    loop {
        let after = all.last().map_or(0, |summary| summary.id);
        let Reply::Ids { ids, more } = super::cm::ask(client, Command::ListIds { after })? else {
            return Err("weft resource: unexpected answer from the daemon; is it of another version?".to_owned());
        };
        // A page that does not advance would repeat forever.
        let more = more && ids.last().is_some_and(|summary| summary.id > after);
        all.extend(ids);
        if !more {
            return Ok(all);
        }
    }
}

/// The processes that listen through the connection manager, with their ports.
pub fn listeners(client: &mut Client) -> Result<Vec<(u32, u16)>, String> {
    let listening = ids_of(client)?.into_iter().filter(|id| state(id.state) == "LISTEN");
    Ok(listening.map(|id| (id.pid, id.src.map_or(0, |src| src.port()))).collect())
}

/// Rows of ids by device; an id that listens on a wildcard address appears under every device.
fn rows(ids: &[IdSummary], devices: &[Listed]) -> Vec<Members> {
    let everywhere = |id: &&IdSummary| id.device.is_none() && state(id.state) == "LISTEN";
    let of = |device: &Listed| {
        let on = |id: &&IdSummary| id.device == Some(device.index) || device.host.is_none() && everywhere(id);
        ids.iter().filter(on).map(|id| row(id, device)).collect::<Vec<_>>()
    };
    devices.iter().flat_map(of).collect()
}

fn row(id: &IdSummary, device: &Listed) -> Members {
    let mut members = qp::link_members(device);
    members.push(("cm-idn", id.id.into()));
    if id.qp_num != 0 {
        members.push(("lqpn", id.qp_num.into()));
        members.push(("qp-type", qp_type(id.qp_type).into()));
    }
    members.push(("state", state(id.state).into()));
    members.push(("ps", port_space(id.port_space).into()));
    members.push(("pid", id.pid.into()));
    members.push(("comm", id.comm.as_str().into()));
    let nowhere = id.src.or(id.dst).map(|addr| SockAddr::any(addr.family()));
    for (key, addr) in [("src-addr", id.src), ("dst-addr", id.dst)] {
        if let Some(text) = addr.or(nowhere).and_then(address) {
            members.push((key, text.into()));
        }
    }
    members
}

/// Formats an address. iproute2 puts no brackets around IPv6 addresses, and does not show InfiniBand addresses.
fn address(addr: SockAddr) -> Option<String> {
    match addr {
        SockAddr::V4 { addr, port } => Some(format!("{addr}:{port}")),
        SockAddr::V6 { addr, port, .. } => Some(format!("{addr}:{port}")),
        SockAddr::Ib(_) => None,
    }
}

fn state(number: u8) -> &'static str {
    const STATES: [&str; 11] = [
        "IDLE",
        "ADDR_QUERY",
        "ADDR_RESOLVED",
        "ROUTE_QUERY",
        "ROUTE_RESOLVED",
        "CONNECT",
        "DISCONNECT",
        "ADDR_BOUND",
        "LISTEN",
        "DEVICE_REMOVAL",
        "DESTROYING",
    ];
    STATES.get(usize::from(number)).copied().unwrap_or("UNKNOWN")
}

fn port_space(space: PortSpace) -> &'static str {
    match space {
        PortSpace::Ipoib => "IPoIB",
        PortSpace::Ib => "IB",
        PortSpace::Tcp => "TCP",
        PortSpace::Udp => "UDP",
    }
}

/// Names of `enum ib_qp_type` values.
fn qp_type(number: u8) -> &'static str {
    const TYPES: [&str; 11] =
        ["SMI", "GSI", "RC", "UC", "UD", "RAW_IPV6", "RAW_ETHERTYPE", "UNKNOWN", "RAW_PACKET", "XRC_INI", "XRC_TGT"];
    TYPES.get(usize::from(number)).copied().unwrap_or("UNKNOWN")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::link::tests::rxe0;
    use std::net::Ipv4Addr;
    use weft_ipc::stat::{DeviceObjects, DeviceStat};

    /// The ids in the golden files: a listener and both ends of a connection.
    fn golden() -> Vec<IdSummary> {
        let addr = |port| Some(SockAddr::V4 { addr: Ipv4Addr::new(10, 77, 0, 1), port });
        let id = |id, qp_num, state, pid, src, dst| IdSummary {
            id,
            device: Some(0),
            qp_num,
            qp_type: 2,
            state,
            port_space: PortSpace::Tcp,
            pid,
            comm: "rping".to_owned(),
            src,
            dst,
        };
        vec![
            id(0, 0, 8, 444, addr(7174), None),
            id(1, 17, 5, 447, addr(60556), addr(7174)),
            id(2, 18, 5, 444, addr(7174), addr(60556)),
        ]
    }

    #[test]
    fn text_is_what_rdma_resource_prints() {
        let rows = rows(&golden(), &[rxe0().into()]);
        assert_eq!(text(&rows), include_str!("../../testdata/rdma-resource-cm_id.txt"));
        assert_eq!(iproute::json(&rows, true), include_str!("../../testdata/rdma-resource-cm_id-jp.txt"));
    }

    #[test]
    fn a_listener_everywhere_is_each_devices() {
        let mut listener = golden().remove(0);
        listener.device = None;
        let second = weft_ipc::DeviceInfo { index: 1, name: "rxe1".to_owned(), ..rxe0() };
        assert_eq!(rows(std::slice::from_ref(&listener), &[rxe0().into(), second.into()]).len(), 2);
        listener.state = 0;
        assert!(rows(&[listener], &[rxe0().into()]).is_empty());
    }

    #[test]
    fn counts_are_as_rdma_resource_prints_them() {
        let objects = DeviceObjects { pd: 3, cq: 4, qp: 3, mr: 2, ctx: 1, ..DeviceObjects::default() };
        let stat = DeviceStat { device: 0, objects, ..DeviceStat::default() };
        let report = StatReport { devices: vec![stat], ..StatReport::default() };
        let rows = [counts(&rxe0().into(), &report, &golden())];
        assert_eq!(counts_text(&rows), "0: rxe0: pd 3 cq 4 qp 3 cm_id 3 mr 2 ctx 1 srq 0 \n");
        let on_host = [counts(&devices::tests::both()[1], &report, &[])];
        assert_eq!(counts_text(&on_host), "0: weft0: host node2 pd 0 cq 0 qp 0 cm_id 0 mr 0 ctx 0 srq 0 \n");
    }
}
