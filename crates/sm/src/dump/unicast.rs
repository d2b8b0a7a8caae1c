//! Dumps of forwarding tables and hops.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::listing::{owners, switches};
use crate::subnet::{NodeIx, Subnet};
use crate::tables::NO_PATH;

/// Hop count of an unreachable destination.
const FAR: u8 = 0xff;

/// Writes forwarding tables with names: `opensm-lfts.dump`, which the engine `file` reads too.
pub fn forwarding(subnet: &Subnet) -> String {
    let owners = owners(subnet);
    let mut out = String::new();
    for (node, switch) in switches(subnet) {
        let (guid, name) = (node.info.node_guid, subnet.name(node));
        let lid = node.ports.first().map_or(0, |port| port.info.lid);
        let top = switch.info.linear_fdb_top;
        let _ = writeln!(out, "Unicast lids [0-{top}] of switch Lid {lid} guid 0x{guid:016x} ('{name}'):");
        let mut count = 0;
        for (lid, (owner, port)) in owners.range(..=top) {
            let Some(out_port) = switch.lft.get(usize::from(*lid)).filter(|port| **port != NO_PATH) else { continue };
            let (kind, name) = (owner.info.node_type.text().unwrap_or("?"), subnet.name(owner));
            let _ = writeln!(out, "0x{lid:04x} {out_port:03} # {kind} portguid 0x{:016x}: '{name}'", port.guid);
            count += 1;
        }
        let _ = writeln!(out, "{count} lids dumped");
    }
    out
}

/// Returns the fewest hops from one switch to all others, by node index.
fn distances(subnet: &Subnet, from: NodeIx) -> Vec<u8> {
    let mut hops = vec![FAR; subnet.nodes.len()];
    let mut next = VecDeque::from([from]);
    if let Some(own) = hops.get_mut(from.0 as usize) {
        *own = 0;
    }
    while let Some(at) = next.pop_front() {
        let Some(node) = subnet.node(at) else { continue };
        let further = hops[at.0 as usize].saturating_add(1);
        for neighbor in node.ports.iter().filter_map(|port| port.neighbor) {
            let is_switch = subnet.node(neighbor.node).is_some_and(|node| node.switch.is_some());
            if is_switch && hops[neighbor.node.0 as usize] == FAR {
                hops[neighbor.node.0 as usize] = further;
                next.push_back(neighbor.node);
            }
        }
    }
    hops
}

/// Writes the hops to every LID, and whether they are the fewest: `opensm.fdbs`.
pub fn hops(subnet: &Subnet) -> String {
    let mut out = String::new();
    for (node, switch) in switches(subnet) {
        let Some(&from) = subnet.by_guid.get(&node.info.node_guid) else { continue };
        let nearest = distances(subnet, from);
        let _ = writeln!(out, "dump_ucast_routes: Switch 0x{:016x}", node.info.node_guid);
        out.push_str("LID    : Port : Hops : Optimal\n");
        for lid in 1..=switch.info.linear_fdb_top {
            let port = switch.lft.get(usize::from(lid)).copied().unwrap_or(NO_PATH);
            let taken = along(subnet, from, lid);
            let Some(taken) = taken.filter(|_| port != NO_PATH) else {
                let _ = writeln!(out, "0x{lid:04X} : UNREACHABLE");
                continue;
            };
            let best = least(subnet, &nearest, lid);
            let _ = write!(out, "0x{lid:04X} : {port:03}  : {taken:02}   : ");
            let _ = match best {
                Some((best, _)) if best < taken => writeln!(out, "No {best} hop path possible"),
                _ => writeln!(out, "yes"),
            };
        }
    }
    out
}

/// Returns the switch that has a LID, or that the port with the LID is attached to, and the hops beyond that switch.
fn place_of(subnet: &Subnet, lid: u16) -> Option<(NodeIx, u8)> {
    let at = subnet.at_lid(lid)?;
    match subnet.node(at.node)?.switch {
        Some(_) => Some((at.node, 0)),
        None => Some((subnet.port(at)?.neighbor?.node, 1)),
    }
}

fn least(subnet: &Subnet, nearest: &[u8], lid: u16) -> Option<(u8, NodeIx)> {
    let (place, beyond) = place_of(subnet, lid)?;
    let hops = *nearest.get(place.0 as usize)?;
    (hops != FAR).then(|| (hops.saturating_add(beyond), place))
}

/// Returns the hops along the forwarding tables.
fn along(subnet: &Subnet, from: NodeIx, lid: u16) -> Option<u8> {
    let target = subnet.at_lid(lid)?;
    let mut at = from;
    for hops in 0..FAR {
        if at == target.node {
            return Some(hops);
        }
        let node = subnet.node(at)?;
        let port = *node.switch.as_ref()?.lft.get(usize::from(lid))?;
        at = node.ports.get(usize::from(port))?.neighbor?.node;
    }
    None
}

/// Writes the hops to every switch through each port: `opensm-lid-matrix.dump`.
pub fn matrix(subnet: &Subnet) -> String {
    let mut rows: Vec<(u16, u64, NodeIx)> = Vec::new();
    for (node, _) in switches(subnet) {
        let lid = node.ports.first().map_or(0, |port| port.info.lid);
        rows.extend(subnet.by_guid.get(&node.info.node_guid).map(|at| (lid, node.info.node_guid, *at)));
    }
    rows.sort_unstable_by_key(|(lid, ..)| *lid);
    // The distance is the same in both directions.
    let from: Vec<Vec<u8>> = rows.iter().map(|(.., at)| distances(subnet, *at)).collect();
    let mut out = String::new();
    for (node, _) in switches(subnet) {
        let Some(own) = subnet.by_guid.get(&node.info.node_guid) else { continue };
        let _ = writeln!(out, "Switch: guid 0x{:016x}", node.info.node_guid);
        for ((lid, guid, _), hops) in rows.iter().zip(&from) {
            let _ = write!(out, "0x{lid:04x}: {:02x}", hops[own.0 as usize]);
            for port in node.ports.iter().skip(1) {
                let through = port.neighbor.map_or(FAR, |to| hops[to.node.0 as usize].saturating_add(1));
                let _ = write!(out, " {through:02x}");
            }
            let _ = writeln!(out, " # portguid 0x{guid:016x}");
        }
    }
    out
}
