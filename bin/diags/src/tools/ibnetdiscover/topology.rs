//! The topology file, which ibsim, OpenSM's tools and administrators' scripts read.

use std::fmt::Write;

use super::local_time;
use crate::ib::names::NodeNames;
use crate::ibnet::chassis::{is_xsigo, is_xsigo_hca, is_xsigo_tca};
use crate::ibnet::link::{Rate, short_width};
use crate::ibnet::{Fabric, Kind, Node, Port};

/// The contents and format of the output.
pub struct Writer<'a> {
    /// The fabric.
    pub fabric: &'a Fabric,
    /// Names of switches and of neighbours.
    pub names: &'a NodeNames,
    /// Whether to group nodes by chassis.
    pub group: bool,
    /// Whether to add numeric speed, width and VLs to links.
    pub full: bool,
}

/// A node's identifier in the file, such as `"S-GUID"`.
fn label(node: &Node) -> String {
    let letter = match node.kind {
        Kind::SWITCH => 'S',
        Kind::CA => 'H',
        Kind::ROUTER => 'R',
        _ => '?',
    };
    format!("\"{letter}-{:016x}\"", node.guid)
}

/// The whole file; `seconds` since 1970 is its creation time.
pub fn text(writer: &Writer<'_>, seconds: i64, hops: bool) -> String {
    let fabric = writer.fabric;
    let mut out = format!("#\n# Topology file: generated on {}\n#\n", local_time::ctime(seconds));
    if hops {
        let _ = writeln!(out, "# Reported max hops discovered: {}", fabric.max_hops);
        let _ = writeln!(out, "# Total MADs used: {}", fabric.mads);
    }
    if let Some(from) = fabric.from {
        let from = fabric.node(from.node);
        let _ = writeln!(out, "# Initiated from node {:016x} port {:016x}", from.guid, from.info_port_guid());
    }
    if writer.group {
        writer.chassis(&mut out);
        out += "\nNon-Chassis Nodes\n";
    }
    for kind in [Kind::SWITCH, Kind::CA, Kind::ROUTER] {
        for (_, node) in fabric.nodes_of(kind) {
            if !writer.group || node.chassis_num(fabric).is_none() {
                writer.node_with_ports(&mut out, node, None);
            }
        }
    }
    out
}

impl Writer<'_> {
    fn chassis(&self, out: &mut String) {
        for chassis in self.fabric.chassis.iter().filter(|c| c.num != 0) {
            let _ = write!(out, "\nChassis {}", chassis.num);
            if chassis.guid != 0 {
                let _ = write!(out, " (guid {:#x})", chassis.guid);
            }
            out.push('\n');
            let nodes = || chassis.nodes.iter().map(|&index| self.fabric.node(index));
            let mut name = None;
            if is_xsigo(chassis.guid) {
                for host in nodes().filter(|node| is_xsigo_hca(node.guid)) {
                    let _ = writeln!(out, "Hostname: {}", host.name());
                    name = Some(host.name());
                }
            }
            for (title, boards) in [("Spine", &chassis.spines[..]), ("Line", &chassis.lines[..])] {
                let _ = write!(out, "\n# {title} Nodes");
                for &index in boards.iter().flatten() {
                    self.node_with_ports(out, self.fabric.node(index), name.as_deref());
                }
            }
            for (title, kind) in [("Switches", Kind::SWITCH), ("CAs", Kind::CA)] {
                let _ = write!(out, "\n# Chassis {title}");
                for node in nodes().filter(|node| node.kind == kind) {
                    self.node_with_ports(out, node, name.as_deref());
                }
            }
        }
    }

    fn node_with_ports(&self, out: &mut String, node: &Node, chassis_name: Option<&str>) {
        self.node(out, node, chassis_name, "", "");
        for port in node.external_ports().filter(|port| port.remote.is_some()) {
            self.port(out, node, port, "");
        }
    }

    /// Writes a node's lines: those with its IDs begin with `ids`, the one with its name with `head`.
    pub fn node(&self, out: &mut String, node: &Node, chassis_name: Option<&str>, ids: &str, head: &str) {
        self.ids(out, node, chassis_name, ids);
        if node.is_switch() {
            let _ = write!(out, "{ids}switchguid={:#x}({:x})", node.guid, node.info_port_guid());
            if self.group {
                out.push_str("\t# ");
                if let Some(model) = node.chassis_model() {
                    let _ = write!(out, "{model} ");
                }
                out.push_str(&node.chassis_slot().unwrap_or_default());
            }
        } else {
            let kind = match node.kind {
                Kind::CA => "ca",
                Kind::ROUTER => "rt",
                _ => "???",
            };
            let _ = write!(out, "{ids}{kind}guid={:#x}", node.guid);
        }
        out.push('\n');
        self.head(out, node, head);
        if self.group && !node.is_switch() && is_xsigo_hca(node.guid) {
            out.push_str(" (scp)");
        }
        out.push('\n');
    }

    fn ids(&self, out: &mut String, node: &Node, chassis_name: Option<&str>, ids: &str) {
        let _ = writeln!(out, "\n{ids}vendid={:#x}", node.vendor_id());
        let _ = writeln!(out, "{ids}devid={:#x}", node.device_id());
        let system = node.system_guid();
        if system != 0 {
            let _ = write!(out, "{ids}sysimgguid={system:#x}");
        }
        let chassis = if self.group { node.chassis_num(self.fabric) } else { None };
        if let Some(num) = chassis {
            let _ = write!(out, "\t\t# Chassis {num}");
            if let Some(name) = chassis_name {
                let _ = write!(out, " ({name})");
            }
            let remote = node.port(1).and_then(|port| self.fabric.remote(port));
            if let Some((_, remote)) = remote.filter(|_| is_xsigo_tca(node.guid)) {
                let _ = write!(out, " slot {}", remote.num);
            }
        }
        if system != 0 || chassis.is_some() {
            out.push('\n');
        }
    }

    /// Writes a node's line with its name, without a newline.
    pub fn head(&self, out: &mut String, node: &Node, prefix: &str) {
        let (ports, label) = (node.num_ports, label(node));
        if node.is_switch() {
            let (name, lid, lmc) = (node.called(self.names), node.sma_lid, node.sma_lmc);
            let port0 = if node.enhanced_port0 { "enhanced" } else { "base" };
            let _ = write!(out, "{prefix}Switch\t{ports} {label}\t\t# \"{name}\" {port0} port 0 lid {lid} lmc {lmc}");
        } else {
            let kind = match node.kind {
                Kind::CA => "Ca",
                Kind::ROUTER => "Rt",
                _ => "???",
            };
            let _ = write!(out, "{prefix}{kind}\t{ports} {label}\t\t# \"{}\"", node.name());
        }
    }

    /// Writes a port's line, beginning with `prefix`; writes nothing if the port has no cable.
    pub fn port(&self, out: &mut String, node: &Node, port: &Port, prefix: &str) {
        let Some((remote_node, remote)) = self.fabric.remote(port) else { return };
        let (name, label) = (remote_node.called(self.names), label(remote_node));
        let lid = Fabric::lid_of(remote_node, remote);
        let (external, remote_external) = (self.external(port), self.external(remote));
        let to_switch = remote_node.is_switch();
        if node.is_switch() {
            let guid = if to_switch { String::new() } else { format!("({:x}) ", remote.guid) };
            let _ = write!(out, "{prefix}[{}]{external}\t{label}[{}]{remote_external}{guid}", port.num, remote.num);
            let _ = write!(out, "\t\t# \"{name}\" lid {lid} {}", self.rate(node, port));
            if is_xsigo_tca(remote.guid) {
                let _ = write!(out, " slot {}", port.num);
            } else if is_xsigo_hca(remote.guid) {
                out.push_str(" (scp)");
            }
        } else {
            let guid = if to_switch { String::new() } else { format!(" ({:x}) ", remote.guid) };
            let _ = write!(out, "{prefix}[{}]({:x}) \t{label}[{}]", port.num, port.guid, remote.num);
            let _ = write!(out, "{remote_external}{guid}\t\t# lid {} lmc {}", port.lid, port.lmc);
            let _ = write!(out, " \"{name}\" lid {lid} {}", self.rate(node, port));
        }
        out.push('\n');
    }

    fn external(&self, port: &Port) -> String {
        if self.group && port.external != 0 { format!("[ext {}]", port.external) } else { String::new() }
    }

    fn rate(&self, node: &Node, port: &Port) -> String {
        let rate = Rate::of(node, port);
        // If a switch's port 0 is unknown, the speed of its ports is unknown too, but their width is known.
        let width = port.width_active();
        let mut text = format!("{}{}", short_width(width), rate.short_speed());
        if self.full {
            let _ = write!(text, " s={} w={width} v={}", rate.speed, port.vl_cap());
        }
        text
    }
}
