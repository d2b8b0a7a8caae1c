//! `weft stat port`: state and counters of the ports of the fabric, as a table or as JSON.

use std::fmt::Write;

use serde_json::json;
use weft_ipc::Spawn;
use weft_ipc::fabric::FabricPort;
use weft_tool::fabric::{session, spell};

use crate::commands::iproute::{self, Members, OutputArgs};
use crate::output;

/// Ports of one listing.
const PORTS_MAX: usize = 1 << 20;

/// Prints the ports that the words name: all, those of a node, or one.
pub fn show(words: &[&str], output: OutputArgs) -> Result<(), String> {
    let wanted = match words {
        [] => None,
        [wanted] => Some(*wanted),
        _ => return Err("Usage: weft stat port [NODE[:PORT]]".to_owned()),
    };
    let failed = |error: String| format!("weft stat: {error}");
    let mut client = session(Spawn::Never).map_err(failed)?;
    let (mut ports, _) = client.fabric_ports(PORTS_MAX).map_err(|error| failed(spell(error)))?;
    if let Some(wanted) = wanted {
        ports.retain(|port| is_wanted(port, wanted));
        if ports.is_empty() {
            return Err(failed(format!(
                "{wanted}: no such port with a cable or counters; `weft stat port` lists all, as NODE:PORT"
            )));
        }
    }
    match output.json {
        true => output::print(&iproute::json(&ports.iter().map(members).collect::<Vec<_>>(), output.pretty)),
        false if output.details => output::print(&details(&ports)),
        false => output::print(&table(&ports)),
    }
    Ok(())
}

fn is_wanted(port: &FabricPort, wanted: &str) -> bool {
    wanted == port.node || wanted == spelled(&port.node, port.port)
}

fn spelled(node: &str, port: u8) -> String {
    format!("{node}:{port}")
}

/// Names of a port's states.
pub(in crate::commands) fn state_name(state: u8) -> &'static str {
    match state {
        1 => "down",
        2 => "init",
        3 => "armed",
        4 => "active",
        _ => "unknown",
    }
}

/// Returns the sum of everything that went wrong at a port.
pub(in crate::commands) fn errors(port: &FabricPort) -> u64 {
    let c = &port.counters;
    [
        c.symbol_errors,
        c.link_error_recoveries,
        c.link_downed,
        c.rcv_errors,
        c.rcv_remote_physical_errors,
        c.rcv_switch_relay_errors,
        c.xmit_discards,
        c.xmit_constraint_errors,
        c.rcv_constraint_errors,
        c.local_link_integrity_errors,
        c.excessive_buffer_overrun_errors,
        c.vl15_dropped,
    ]
    .into_iter()
    .fold(0, u64::saturating_add)
}

fn table(ports: &[FabricPort]) -> String {
    let names: Vec<String> = ports.iter().map(|port| spelled(&port.node, port.port)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(4);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:<width$} {:<7} {:>8} {:>16} {:>16} {:>13} {:>13} {:>8}",
        "port", "state", "Gb/s", "bytes sent", "received", "packets sent", "received", "errors"
    );
    for (port, name) in ports.iter().zip(names) {
        let c = &port.counters;
        let _ = writeln!(
            out,
            "{name:<width$} {:<7} {:>8} {:>16} {:>16} {:>13} {:>13} {:>8}",
            state_name(port.state),
            gbps(port.rate_tenths),
            c.xmit_bytes,
            c.rcv_bytes,
            c.xmit_packets,
            c.rcv_packets,
            errors(port)
        );
    }
    out
}

fn gbps(tenths: u32) -> String {
    match tenths {
        0 => "-".to_owned(),
        tenths if tenths % 10 == 0 => (tenths / 10).to_string(),
        tenths => format!("{}.{}", tenths / 10, tenths % 10),
    }
}

/// Formats every counter that is not zero.
fn details(ports: &[FabricPort]) -> String {
    let mut out = String::new();
    for port in ports {
        let _ = writeln!(out, "{}  {}", spelled(&port.node, port.port), state_name(port.state));
        for (name, value) in port.counters.values().filter(|(_, value)| *value > 0) {
            let _ = writeln!(out, "  {name:<32} {value:>20}");
        }
    }
    out
}

fn members(port: &FabricPort) -> Members {
    let peer = port.peer.as_ref().map(|peer| spelled(&peer.node, peer.port));
    let mut members: Members = vec![
        ("node", port.node.as_str().into()),
        ("port", port.port.into()),
        ("peer", peer.into()),
        ("state", state_name(port.state).into()),
        ("lid", port.lid.into()),
        ("rate_gbps", json!(f64::from(port.rate_tenths) / 10.0)),
    ];
    members.extend(port.counters.values().map(|(name, value)| (name, value.into())));
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_ipc::fabric::PortName;
    use weft_ipc::stat::PortCounters;

    fn port() -> FabricPort {
        let counters = PortCounters { xmit_bytes: 1024, xmit_packets: 4, link_downed: 1, ..PortCounters::default() };
        let peer = Some(PortName { node: "leaf1".to_owned(), port: 3 });
        FabricPort { node: "node1".to_owned(), port: 1, peer, state: 4, lid: 2, rate_tenths: 1000, counters }
    }

    #[test]
    fn a_port_is_a_row() {
        let expected = "port    state       Gb/s       bytes sent         received  packets sent      received   errors\n\
                        node1:1 active       100             1024                0             4             0        1\n";
        assert_eq!(table(&[port()]), expected);
        assert_eq!(gbps(25), "2.5");
        assert_eq!(gbps(0), "-");
    }

    #[test]
    fn details_and_json_have_the_counters() {
        let text = details(&[port()]);
        assert!(text.starts_with("node1:1  active\n  xmit_bytes  ") && text.contains("  link_downed  "), "{text}");
        let json = iproute::json(&[members(&port())], false);
        assert!(json.contains("\"peer\":\"leaf1:3\",\"state\":\"active\",\"lid\":2,\"rate_gbps\":100.0"), "{json}");
    }

    #[test]
    fn ports_are_named_by_node_and_number() {
        assert!(is_wanted(&port(), "node1") && is_wanted(&port(), "node1:1"));
        assert!(!is_wanted(&port(), "node1:2") && !is_wanted(&port(), "leaf1"));
    }
}
