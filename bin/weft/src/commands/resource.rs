//! `weft resource`: ids of the RDMA connection manager, as iproute2's `rdma resource show cm_id`.

use std::fmt::Write;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use weft_cm::rdma_cm::{Command, IdSummary, PortSpace, Reply, SockAddr};
use weft_ipc::{Client, DeviceInfo};

use super::iproute::{self, Members, OutputArgs};
use super::link::merged;
use crate::output;

/// Options of `weft resource`.
#[derive(Args, Debug)]
pub struct ResourceArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    command: ResourceCommand,
}

#[derive(Subcommand, Debug)]
enum ResourceCommand {
    /// Show resources of a kind
    #[command(visible_aliases = ["list", "lst"])]
    Show {
        /// Their kind
        kind: Kind,
        /// Those of a device, or of a device and its port
        #[arg(value_name = "[link] DEV")]
        dev: Vec<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Ids of the connection manager
    #[value(name = "cm_id")]
    CmId,
}

/// Runs the command.
pub fn run(args: ResourceArgs) -> ExitCode {
    let ResourceCommand::Show { kind: Kind::CmId, dev, output } = args.command;
    match show(&dev, merged(args.output, output)) {
        Ok(text) => {
            output::print(&text);
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn show(words: &[String], output: OutputArgs) -> Result<String, String> {
    let mut client = super::connect().map_err(|e| format!("weft resource: {e}"))?;
    let mut devices = client.list_devices().map_err(|e| format!("weft resource: {e}"))?;
    let wanted = match words {
        [] => None,
        [dev] => Some(dev),
        [link, dev] if link == "link" || link == "dev" => Some(dev),
        _ => return Err("Usage: weft resource show cm_id [link DEV]".to_owned()),
    };
    if let Some(wanted) = wanted {
        let name = wanted.split('/').next().unwrap_or(wanted);
        devices.retain(|device| device.name == name);
        if devices.is_empty() {
            return Err("Wrong device name".to_owned());
        }
    }
    let rows = rows(&ids(&mut client)?, &devices);
    Ok(if output.json { iproute::json(&rows, output.pretty) } else { text(&rows) })
}

fn ids(client: &mut Client) -> Result<Vec<IdSummary>, String> {
    let mut all: Vec<IdSummary> = Vec::new();
    loop {
        let after = all.last().map_or(0, |summary| summary.id);
        let Reply::Ids { ids, more } = super::cm::ask(client, Command::ListIds { after })? else {
            return Err("weft resource: the daemon's answer is not to the question".to_owned());
        };
        // A page that does not go on would be asked for for ever.
        let more = more && ids.last().is_some_and(|summary| summary.id > after);
        all.extend(ids);
        if !more {
            return Ok(all);
        }
    }
}

/// Ids by device; one that listens at no address in particular is each device's.
fn rows(ids: &[IdSummary], devices: &[DeviceInfo]) -> Vec<Members> {
    let everywhere = |id: &&IdSummary| id.device.is_none() && state(id.state) == "LISTEN";
    let of = |device: &DeviceInfo| {
        let on = |id: &&IdSummary| id.device == Some(device.index) || everywhere(id);
        ids.iter().filter(on).map(|id| row(id, device)).collect::<Vec<_>>()
    };
    devices.iter().flat_map(of).collect()
}

fn row(id: &IdSummary, device: &DeviceInfo) -> Members {
    let mut members: Members = vec![
        ("ifindex", device.index.into()),
        ("ifname", device.name.as_str().into()),
        ("port", 1.into()),
        ("cm-idn", id.id.into()),
    ];
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

fn text(rows: &[Members]) -> String {
    let mut out = String::new();
    for row in rows {
        let word = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let of = |wanted: &str| row.iter().find(|(key, _)| *key == wanted).map(|(_, v)| word(v)).unwrap_or_default();
        let _ = write!(out, "link {}/{} ", of("ifname"), of("port"));
        for (key, value) in row.iter().skip_while(|(key, _)| *key != "cm-idn") {
            let _ = write!(out, "{key} {} ", word(value));
        }
        out.push('\n');
    }
    out
}

/// iproute2 puts no brackets around IPv6 addresses, and does not show those of InfiniBand.
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

/// Values of `enum ib_qp_type`.
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

    /// The ids of the golden files: a listener and both ends of a connection.
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
        let rows = rows(&golden(), &[rxe0()]);
        assert_eq!(text(&rows), include_str!("../../testdata/rdma-resource-cm_id.txt"));
        assert_eq!(iproute::json(&rows, true), include_str!("../../testdata/rdma-resource-cm_id-jp.txt"));
    }

    #[test]
    fn a_listener_everywhere_is_each_devices() {
        let mut listener = golden().remove(0);
        listener.device = None;
        let second = DeviceInfo { index: 1, name: "rxe1".to_owned(), ..rxe0() };
        assert_eq!(rows(std::slice::from_ref(&listener), &[rxe0(), second]).len(), 2);
        listener.state = 0;
        assert!(rows(&[listener], &[rxe0()]).is_empty());
    }
}
