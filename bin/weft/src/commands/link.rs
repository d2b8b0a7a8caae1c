//! `weft link`: RDMA ports and the interfaces they stand on, as iproute2's `rdma link`.

use std::fmt::Write;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use weft_ipc::{DeviceInfo, PhysState, PortState};

use super::iproute::{self, Members, OutputArgs};
use crate::output;

/// Options of `weft link`.
#[derive(Args, Debug)]
pub struct LinkArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    command: Option<LinkCommand>,
}

#[derive(Subcommand, Debug)]
enum LinkCommand {
    /// Show links (DEV or DEV/PORT: that one only)
    #[command(visible_aliases = ["list", "lst"])]
    Show {
        /// Device, or device and port
        dev: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Make a device: weft link add NAME type rxe netdev IF
    Add {
        /// NAME type TYPE netdev IF
        #[arg(value_name = "NAME type TYPE netdev IF", num_args = 1.., required = true)]
        words: Vec<String>,
    },
    /// Remove a device
    #[command(visible_alias = "delete")]
    Del {
        /// Its name
        name: String,
    },
}

/// Runs the command.
pub fn run(args: LinkArgs) -> ExitCode {
    let result = match args.command {
        None => show(None, args.output),
        Some(LinkCommand::Show { dev, output }) => show(dev.as_deref(), merged(args.output, output)),
        Some(LinkCommand::Add { words }) => add(&words),
        Some(LinkCommand::Del { name }) => del(&name),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            crate::errln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Output options may stand before or after `show`.
pub(super) fn merged(a: OutputArgs, b: OutputArgs) -> OutputArgs {
    OutputArgs { json: a.json || b.json, pretty: a.pretty || b.pretty, details: a.details || b.details }
}

fn show(wanted: Option<&str>, output: OutputArgs) -> Result<(), String> {
    let mut client = super::connect().map_err(|e| format!("weft link: {e}"))?;
    let mut devices = client.list_devices().map_err(|e| format!("weft link: {e}"))?;
    if let Some(wanted) = wanted {
        let (name, port) = wanted.split_once('/').unwrap_or((wanted, "1"));
        devices.retain(|d| d.name == name);
        if devices.is_empty() || !matches!(port, "1" | "-") {
            return Err("Wrong device name".to_owned());
        }
    }
    output::print(&if output.json { json(&devices, output) } else { text(&devices, output.details) });
    Ok(())
}

fn state(state: PortState) -> &'static str {
    match state {
        PortState::Down => "DOWN",
        PortState::Active => "ACTIVE",
    }
}

fn physical_state(state: PhysState) -> &'static str {
    match state {
        PhysState::Polling => "POLLING",
        PhysState::Disabled => "DISABLED",
        PhysState::LinkUp => "LINK_UP",
    }
}

fn text(devices: &[DeviceInfo], details: bool) -> String {
    let mut out = String::new();
    for d in devices {
        let (state, physical) = (state(d.state), physical_state(d.phys_state));
        let _ = write!(out, "link {}/1 state {state} physical_state {physical} netdev {} ", d.name, d.netdev);
        if details {
            let _ = write!(out, "netdev_index {} ", d.ifindex);
        }
        out.push('\n');
    }
    out
}

fn json(devices: &[DeviceInfo], output: OutputArgs) -> String {
    let objects: Vec<Members> = devices
        .iter()
        .map(|d| {
            vec![
                ("ifindex", d.index.into()),
                ("ifname", d.name.as_str().into()),
                ("port", 1.into()),
                ("state", state(d.state).into()),
                ("physical_state", physical_state(d.phys_state).into()),
                ("netdev", d.netdev.as_str().into()),
                ("netdev_index", d.ifindex.into()),
            ]
        })
        .collect();
    iproute::json(&objects, output.pretty)
}

fn add(words: &[String]) -> Result<(), String> {
    let usage = || "Usage: weft link add NAME type rxe netdev IF".to_owned();
    let (name, rest) = words.split_first().ok_or_else(usage)?;
    let (mut kind, mut netdev) = (None, None);
    for pair in rest.chunks(2) {
        match pair {
            [key, value] if key == "type" => kind = Some(value),
            [key, value] if key == "netdev" => netdev = Some(value),
            _ => return Err(usage()),
        }
    }
    let (Some(kind), Some(netdev)) = (kind, netdev) else { return Err(usage()) };
    let mut client = super::connect().map_err(|e| format!("weft link: {e}"))?;
    client.link_add(name, kind, netdev).map_err(|e| failure(&e))
}

fn del(name: &str) -> Result<(), String> {
    let mut client = super::connect().map_err(|e| format!("weft link: {e}"))?;
    client.link_del(name).map_err(|e| failure(&e))
}

/// The first line is iproute2's, which scripts match; the second explains.
pub(super) fn failure(error: &weft_ipc::RequestError) -> String {
    match super::refusal_lines(error) {
        (errno, Some(text)) => format!("error: {errno}\n{text}"),
        (errno, None) => format!("error: {errno}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The device of the golden files.
    pub fn rxe0() -> DeviceInfo {
        DeviceInfo {
            index: 0,
            name: "rxe0".to_owned(),
            kind: "rxe".to_owned(),
            node_guid: 0x5054_00ff_fe77_0001,
            netdev: "eth0".to_owned(),
            ifindex: 2,
            mac: [0x52, 0x54, 0, 0x77, 0, 1],
            netdev_mtu: 1500,
            active_mtu: 1024,
            state: PortState::Active,
            phys_state: PhysState::LinkUp,
            gids: Vec::new(),
            pkeys: vec![0xffff],
            link_speed_mbps: None,
            auto: false,
            infiniband: None,
        }
    }

    #[test]
    fn text_is_what_rdma_link_prints() {
        let plain = "link rxe0/1 state ACTIVE physical_state LINK_UP netdev eth0 \n";
        assert_eq!(text(&[rxe0()], false), plain);
        let details = "link rxe0/1 state ACTIVE physical_state LINK_UP netdev eth0 netdev_index 2 \n";
        assert_eq!(text(&[rxe0()], true), details);
    }

    #[test]
    fn json_is_what_rdma_link_prints() {
        let output = OutputArgs { json: true, ..OutputArgs::default() };
        assert_eq!(json(&[rxe0()], output), include_str!("../../testdata/rdma-link-j.txt"));
        let output = OutputArgs { pretty: true, ..output };
        assert_eq!(json(&[rxe0()], output), include_str!("../../testdata/rdma-link-jp.txt"));
    }

    #[test]
    fn the_words_of_add_are_checked() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for wrong in ["x", "x type rxe", "x netdev eth0", "x type rxe netdev", "x kind rxe netdev eth0"] {
            assert!(add(&words(wrong)).unwrap_err().starts_with("Usage"), "{wrong}");
        }
    }
}
