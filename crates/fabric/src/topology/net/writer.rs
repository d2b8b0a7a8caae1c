//! Writes a topology in the format that ibnetdiscover prints and ibsim reads.

use std::fmt::Write;

use super::super::{Cable, End, Node, NodeKind, Topology};

/// LIDs and link states of a running fabric.
pub trait Lids {
    /// Returns LID and LMC of a port; for any port of a switch, those of its port 0.
    fn lid(&self, end: End) -> (u16, u8);
    /// Returns whether a cable's link is up; otherwise the cable is left out, as discovery would not find it.
    fn is_up(&self, cable: u32) -> bool;
}

/// A fabric before any SM.
pub struct NoLids;

impl Lids for NoLids {
    fn lid(&self, _: End) -> (u16, u8) {
        (0, 0)
    }

    fn is_up(&self, _: u32) -> bool {
        true
    }
}

/// Writes a net file: switches, then adapters, then routers.
pub fn write(topology: &Topology, lids: &dyn Lids) -> String {
    let mut out = format!("#\n# Topology file: {}\n#\n", topology.title.replace(|c: char| c.is_control(), " "));
    let cables = by_port(topology, lids);
    for kind in [NodeKind::Switch, NodeKind::Ca, NodeKind::Router] {
        for (place, node) in (0u32..).zip(&topology.nodes).filter(|(_, node)| node.kind == kind) {
            block(&mut out, topology, lids, place, node, &cables[place as usize]);
        }
    }
    out
}

/// Returns each node's cabled ports in order, with the cable and its far end.
fn by_port<'a>(topology: &'a Topology, lids: &dyn Lids) -> Vec<Vec<(u8, End, &'a Cable)>> {
    let mut out = vec![Vec::new(); topology.nodes.len()];
    for (number, cable) in (0u32..).zip(&topology.cables) {
        for (near, far) in [(cable.a, cable.b), (cable.b, cable.a)] {
            if let Some(ports) = out.get_mut(near.node as usize).filter(|_| lids.is_up(number)) {
                ports.push((near.port, far, cable));
            }
        }
    }
    out.iter_mut().for_each(|ports| ports.sort_by_key(|(port, ..)| *port));
    out
}

/// `S-0002c90300100000`.
pub(super) fn id(node: &Node) -> String {
    let letter = match node.kind {
        NodeKind::Ca => 'H',
        NodeKind::Switch => 'S',
        NodeKind::Router => 'R',
    };
    format!("{letter}-{:016x}", node.guid)
}

fn block(out: &mut String, topology: &Topology, lids: &dyn Lids, place: u32, node: &Node, ports: &[(u8, End, &Cable)]) {
    let (word, guid) = match node.kind {
        NodeKind::Ca => ("Ca", "caguid"),
        NodeKind::Switch => ("Switch", "switchguid"),
        NodeKind::Router => ("Rt", "rtguid"),
    };
    let _ = writeln!(out, "\nvendid={:#x}\ndevid={:#x}", node.vendor_id, node.device_id);
    let _ = writeln!(out, "sysimgguid={:#x}", node.system_image_guid);
    let _ = write!(out, "{guid}={:#x}", node.guid);
    let is_switch = node.kind == NodeKind::Switch;
    let _ = if is_switch { writeln!(out, "({:x})", node.guid) } else { writeln!(out) };
    let _ = write!(out, "{word}\t{} \"{}\"\t\t# \"{}\"", node.ports.len(), id(node), node.description);
    if is_switch {
        let (lid, lmc) = lids.lid(End { node: place, port: 0 });
        let port0 = if node.enhanced_port0 { "enhanced" } else { "base" };
        let _ = write!(out, " {port0} port 0 lid {lid} lmc {lmc}");
    }
    out.push('\n');
    for (port, far, cable) in ports {
        let here = End { node: place, port: *port };
        port_line(out, topology, lids, node, here, *far, cable);
    }
}

fn port_line(out: &mut String, topology: &Topology, lids: &dyn Lids, node: &Node, here: End, far: End, cable: &Cable) {
    let (Some(remote), Some((width, speed))) = (topology.node(far), topology.trained(cable)) else { return };
    let far_guid = topology.port(far).map_or(0, |port| port.guid);
    let far_lid = lids.lid(far).0;
    let _ = write!(out, "[{}]", here.port);
    if node.kind == NodeKind::Switch {
        let _ = write!(out, "\t\"{}\"[{}]", id(remote), far.port);
        if remote.kind != NodeKind::Switch {
            let _ = write!(out, "({far_guid:x}) ");
        }
        let _ = write!(out, "\t\t# \"{}\"", remote.description);
    } else {
        let own = topology.port(here).map_or(0, |port| port.guid);
        let _ = write!(out, "({own:x}) \t\"{}\"[{}]", id(remote), far.port);
        if remote.kind != NodeKind::Switch {
            let _ = write!(out, " ({far_guid:x}) ");
        }
        let (lid, lmc) = lids.lid(here);
        let _ = write!(out, "\t\t# lid {lid} lmc {lmc} \"{}\"", remote.description);
    }
    let _ = writeln!(out, " lid {far_lid} {width}{speed}");
}
