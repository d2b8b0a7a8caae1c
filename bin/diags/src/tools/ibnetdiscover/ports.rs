//! Reports with one line per node (`-l`, `-H`, `-S`, `-R`) or port (`-p`).

use std::fmt::Write;

use crate::ib::names::NodeNames;
use crate::ibnet::link::{Rate, short_width};
use crate::ibnet::{Fabric, Kind, Node, Port};

/// A line for each node of these types.
pub fn nodes(fabric: &Fabric, names: &NodeNames, kinds: &[Kind]) -> String {
    let mut out = String::new();
    for &kind in kinds {
        let title = match kind {
            Kind::SWITCH => "Switch",
            Kind::CA => "Ca",
            _ => "Router",
        };
        for (_, node) in fabric.nodes_of(kind) {
            let (guid, ports, name) = (node.guid, node.num_ports, node.called(names));
            let (device, vendor) = (node.device_id(), node.vendor_id());
            let _ = write!(out, "{title}\t : 0x{guid:016x} ports {ports} devid {device:#x} ");
            let _ = writeln!(out, "vendid {vendor:#x} \"{name}\"");
        }
    }
    out
}

/// A line for each port.
pub fn ports(fabric: &Fabric, names: &NodeNames) -> String {
    let mut out = String::new();
    for (_, node) in fabric.nodes() {
        let ports: Vec<&Port> = node.external_ports().collect();
        for port in ports.into_iter().rev() {
            let rate = Rate::of(node, port);
            let _ = write!(out, "{} {} {}", end(node, port), short_width(rate.width), rate.short_speed());
            let name = node.called(names);
            let _ = match fabric.remote(port) {
                Some((remote_node, remote)) => {
                    let remote_name = remote_node.called(names);
                    writeln!(out, " - {} ( '{name}' - '{remote_name}' )", end(remote_node, remote))
                }
                None => writeln!(out, "{:36}'{name}'", ""),
            };
        }
    }
    out
}

fn end(node: &Node, port: &Port) -> String {
    let kind = match node.kind {
        Kind::SWITCH => "SW",
        Kind::CA => "CA",
        Kind::ROUTER => "RT",
        _ => "??",
    };
    format!("{kind:>2} {:5} {:2} 0x{:016x}", Fabric::lid_of(node, port), port.num, port.guid)
}
