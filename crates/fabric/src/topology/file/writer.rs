//! Writes a topology as a complete TOML file.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::builder::{DEFAULT_ADAPTER, adapter_name};
use super::super::{Cable, LinkLayer, Node, NodeKind, Port, Topology};
use super::nodes::ETHERNET;

/// Writes the file.
pub fn write(topology: &Topology) -> String {
    let mut out = format!("title = {}\n", quoted(&topology.title));
    let (plain, special): (Vec<&Cable>, Vec<&Cable>) =
        topology.cables.iter().partition(|cable| is_plain(topology, cable));
    if !plain.is_empty() {
        out.push_str("cables = [\n");
        for cable in plain {
            let text = format!("{} - {}", topology.spell(cable.a), topology.spell(cable.b));
            let _ = writeln!(out, "  {},", quoted(&text));
        }
        out.push_str("]\n");
    }
    let mut adapters: BTreeMap<&str, usize> = BTreeMap::new();
    for (kind, table) in [(NodeKind::Switch, "switch"), (NodeKind::Ca, "host"), (NodeKind::Router, "router")] {
        for node in topology.nodes.iter().filter(|node| node.kind == kind) {
            let _ = writeln!(out, "\n[[{table}]]");
            let number = adapters.entry(&node.host).or_default();
            describe(&mut out, node, *number);
            *number += 1;
        }
    }
    for cable in special {
        let (a, b) = (quoted(&topology.spell(cable.a)), quoted(&topology.spell(cable.b)));
        let _ = writeln!(out, "\n[[cable]]\nends = [{a}, {b}]");
        cable.width.map(|width| writeln!(out, "width = \"{width}\""));
        cable.speed.map(|speed| writeln!(out, "speed = \"{speed}\""));
        let numbers = [("latency-ns", cable.latency_ns), ("errors-ppm", cable.errors_ppm)];
        for (name, number) in numbers.into_iter().filter(|(_, number)| *number > 0) {
            let _ = writeln!(out, "{name} = {number}");
        }
    }
    out
}

/// Returns whether a cable fits the short form: no properties, and names that do not look like ranges or dashes.
fn is_plain(topology: &Topology, cable: &Cable) -> bool {
    let simple = |name: &str| !name.contains('[') && !name.contains(" - ") && name.trim() == name;
    let ends = [cable.a, cable.b].into_iter().filter_map(|end| topology.node(end));
    *cable == Cable::new(cable.a, cable.b) && ends.into_iter().all(|node| simple(&node.name))
}

/// `number`: that of an adapter on its host.
fn describe(out: &mut String, node: &Node, number: usize) {
    let _ = writeln!(out, "name = {}", quoted(&node.name));
    if node.kind == NodeKind::Ca && node.host != node.name {
        let _ = writeln!(out, "host = {}", quoted(&node.host));
    }
    if node.kind == NodeKind::Ca && node.adapter != adapter_name(DEFAULT_ADAPTER, number) {
        let _ = writeln!(out, "adapters = [{}]", quoted(&node.adapter));
    }
    let _ = writeln!(out, "description = {}", quoted(&node.description));
    let _ = writeln!(out, "guid = \"{:#018x}\"", node.guid);
    if node.system_image_guid != node.guid {
        let _ = writeln!(out, "system-image-guid = \"{:#018x}\"", node.system_image_guid);
    }
    let _ = writeln!(out, "vendor = {:#x}\ndevice = {:#x}", node.vendor_id, node.device_id);
    if node.kind == NodeKind::Switch && !node.enhanced_port0 {
        out.push_str("enhanced-port0 = false\n");
    }
    if node.lmc_max != 7 {
        let _ = writeln!(out, "lmc-max = {}", node.lmc_max);
    }
    let _ = writeln!(out, "ports = {}", node.ports.len());
    links(out, &node.ports);
    let usual = |port: &Port, number: u64| {
        port.guid == if node.kind == NodeKind::Switch { node.guid } else { node.guid.wrapping_add(number) }
    };
    if !node.ports.iter().zip(1..).all(|(port, number)| usual(port, number)) {
        let guids: Vec<String> = node.ports.iter().map(|port| format!("\"{:#018x}\"", port.guid)).collect();
        let _ = writeln!(out, "port-guids = [{}]", guids.join(", "));
    }
}

/// Writes width and speed, once if all ports agree.
fn links(out: &mut String, ports: &[Port]) {
    let Some(first) = ports.first() else { return };
    let is_alike = |port: &Port| Port { guid: first.guid, ..*port } == *first;
    if first.link_layer == LinkLayer::InfiniBand && ports.iter().all(is_alike) {
        let _ = writeln!(out, "width = \"{}\"\nspeed = \"{}\"", first.width, first.speed);
    } else {
        let link = |port: &Port| match port.link_layer {
            LinkLayer::InfiniBand => format!("\"{}{}\"", port.width, port.speed),
            LinkLayer::Ethernet => format!("\"{}\"", port.ethernet_rate().unwrap_or(ETHERNET)),
        };
        let links: Vec<String> = ports.iter().map(link).collect();
        let _ = writeln!(out, "links = [{}]", links.join(", "));
    }
}

/// Quotes a TOML string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out + "\""
}
