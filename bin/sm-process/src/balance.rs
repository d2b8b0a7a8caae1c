//! Balance of a switch's forwarding table over its ports: `switchbalance` and `lidbalance` of OpenSM's console.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use weft_sm::Subnet;
use weft_sm::subnet::{Node, NodeIx, PortIx};
use weft_wire::mad::subn::NodeType;

/// Largest difference between the most and the least used port that counts as even.
const EVEN: u32 = 1;

/// The command's arguments: `verbose`, and a switch's GUID.
struct Wanted {
    verbose: bool,
    guid: Option<u64>,
}

fn wanted(words: &[&str]) -> Option<Wanted> {
    let (verbose, rest) = match words {
        ["verbose", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let guid = match rest.first() {
        Some(word) => Some(weft_sm::options::number(word).ok()?),
        None => None,
    };
    Some(Wanted { verbose, guid })
}

/// Calls `about` for each wanted switch and collects its output.
fn each(subnet: &Subnet, words: &[&str], mut about: impl FnMut(&mut String, NodeIx, &Node, bool)) -> String {
    let Some(Wanted { verbose, guid }) = wanted(words) else { return "say which switch by its GUID\n".to_owned() };
    let mut out = String::new();
    let mut found = 0;
    for (_, at) in subnet.by_guid.iter().filter(|(own, _)| guid.is_none_or(|guid| guid == **own)) {
        if let Some(node) = subnet.node(*at).filter(|node| node.switch.is_some()) {
            found += 1;
            about(&mut out, *at, node, verbose);
        }
    }
    match (found, guid) {
        (0, Some(guid)) => format!("no switch has the GUID 0x{guid:016x}\n"),
        _ if out.is_empty() => "every switch uses its ports evenly\n".to_owned(),
        _ => out,
    }
}

/// The output port of a LID in a switch's table.
fn out_port(node: &Node, lid: u16) -> Option<u8> {
    node.switch.as_ref()?.lft.get(usize::from(lid)).copied().filter(|port| *port != weft_sm::tables::NO_PATH)
}

/// LIDs of a port.
fn lids(base: u16, lmc: u8) -> impl Iterator<Item = u16> {
    (base..=base.saturating_add((1u16 << lmc.min(7)) - 1)).filter(move |_| base != 0)
}

/// Lists the number of paths to adapters and routers over each port that leads to another switch.
pub fn switches(subnet: &Subnet, words: &[&str]) -> String {
    each(subnet, words, |out, _, node, verbose| {
        let mut counts = vec![0u32; node.ports.len()];
        for (_, _, port) in subnet.end_ports().filter(|(_, node, _)| node.switch.is_none()) {
            for by in lids(port.lid, port.lmc).filter_map(|lid| out_port(node, lid)) {
                if let Some(count) = counts.get_mut(usize::from(by)) {
                    *count += 1;
                }
            }
        }
        let is_switch = |at: PortIx| subnet.node(at.node).is_some_and(|node| node.switch.is_some());
        let between: Vec<usize> = (1..node.ports.len())
            .filter(|port| node.ports.get(*port).and_then(|port| port.neighbor).is_some_and(is_switch))
            .collect();
        let used = between.iter().filter_map(|port| counts.get(*port).copied());
        let spread = used.clone().max().unwrap_or(0) - used.min().unwrap_or(0);
        if spread <= EVEN && !verbose {
            return;
        }
        let what = if spread > EVEN { "Unbalanced Switch" } else { "Switch" };
        let _ = writeln!(out, "{what}: 0x{:016x} ({})", node.info.node_guid, subnet.name(node));
        for port in between {
            let _ = writeln!(out, "Port {port}: {}", counts.get(port).copied().unwrap_or(0));
        }
    })
}

/// Lists adapters and routers with several LIDs on one path where other paths are free.
pub fn lids_of_ports(subnet: &Subnet, words: &[&str]) -> String {
    each(subnet, words, |out, _, node, _| {
        for (_, end, port) in subnet.end_ports().filter(|(_, end, port)| end.switch.is_none() && port.lmc > 0) {
            let (mut by_port, mut by_node) = (BTreeMap::<u8, u32>::new(), BTreeMap::<NodeIx, u32>::new());
            for by in lids(port.lid, port.lmc).filter_map(|lid| out_port(node, lid)) {
                *by_port.entry(by).or_insert(0) += 1;
                if let Some(next) = node.ports.get(usize::from(by)).and_then(|port| port.neighbor) {
                    *by_node.entry(next.node).or_insert(0) += 1;
                }
            }
            let kind = if end.info.node_type == NodeType::ROUTER { "Router" } else { "CA" };
            let switch = format!("Switch 0x{:016x} ({})", node.info.node_guid, subnet.name(node));
            let whom = format!("{kind} 0x{:016x} ({})", end.info.node_guid, subnet.name(end));
            if uneven(by_node.values()) {
                let ways: String = by_node
                    .iter()
                    .map(|(next, count)| {
                        let next = subnet.node(*next);
                        let guid = next.map_or(0, |next| next.info.node_guid);
                        let name = next.map(|next| subnet.name(next)).unwrap_or_default();
                        format!("Dest 0x{guid:016x}({name}) - {count} ")
                    })
                    .collect();
                let _ = writeln!(out, "Unbalanced Remote Forwarding: {switch}: {whom}: {ways}");
            }
            if uneven(by_port.values()) {
                let ways: String = by_port.iter().map(|(port, count)| format!("Port {port} - {count} ")).collect();
                let _ = writeln!(out, "Unbalanced Port Forwarding: {switch}: {whom}: {ways}");
            }
        }
    })
}

fn uneven<'a>(counts: impl Iterator<Item = &'a u32> + Clone) -> bool {
    counts.clone().max().unwrap_or(&0) - counts.min().unwrap_or(&0) > EVEN
}

/// PortGUIDs of nodes whose names contain one of these words.
pub fn port_guids(subnet: &Subnet, words: &[&str]) -> Vec<u64> {
    let named = |node: &Node| words.iter().any(|word| subnet.name(node).contains(word));
    subnet.end_ports().filter(|(_, node, _)| named(node)).map(|(_, _, port)| port.guid).collect()
}
