//! Checks that a fabric is as a manager must leave it, judged by its nodes' attributes rather than by the manager.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_fabric::topology::NodeKind;
use weft_fabric::{Fabric, PathQuery, PortRef};
use weft_sm::Sequential;
use weft_sm::graph;
use weft_sm::manager::Manager;
use weft_sm::routing::quality;
use weft_sm::tables::Lanes;
use weft_wire::mad::subn::PortState;

/// A deviation from the required state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A link does not carry data.
    NotActive(PortRef, PortState),
    /// A port has no LID.
    NoLid(PortRef),
    /// Two ports have one LID.
    SameLid(u16, PortRef, PortRef),
    /// A port names another manager than the master.
    Manager(PortRef, u16),
    /// Packets from one to the other do not arrive.
    NoPath(PortRef, PortRef, String),
    /// A switch does not have the table that the manager believes it has.
    Table(u64, u16),
    /// A switch does not have the SL-to-VL entry that the engine requires: its GUID, the ports in and out, the service
    /// level.
    Lane(u64, (u8, u8), u8),
    /// Lanes depend on each other in a cycle.
    CreditLoop,
}

/// Returns the deviations in the part of the fabric that a master at `master` reaches.
pub fn check(fabric: &Fabric, master: PortRef, manager: &Manager) -> Vec<Fault> {
    let reached = reach(fabric, master);
    let mut faults = Vec::new();
    let mut lids: BTreeMap<u16, PortRef> = BTreeMap::new();
    let mut ends = Vec::new();
    let sm_lid = fabric.port_info(master).map_or(0, |info| info.lid);
    for at in &reached {
        let Some(info) = fabric.port_info(*at) else { continue };
        let external = fabric.kind(at.node) == Some(NodeKind::Switch) && at.port != 0;
        if at.port != 0 && info.port_state != PortState::ACTIVE {
            faults.push(Fault::NotActive(*at, info.port_state));
        }
        if external {
            continue;
        }
        if info.lid == 0 {
            faults.push(Fault::NoLid(*at));
        } else if let Some(other) = lids.insert(info.lid, *at) {
            faults.push(Fault::SameLid(info.lid, other, *at));
        }
        if info.master_sm_lid != sm_lid {
            faults.push(Fault::Manager(*at, info.master_sm_lid));
        }
        ends.push((*at, info.lid));
    }
    if faults.is_empty() {
        paths(fabric, manager, &ends, &mut faults);
        tables(fabric, manager, &mut faults);
    }
    faults
}

fn paths(fabric: &Fabric, manager: &Manager, ends: &[(PortRef, u16)], faults: &mut Vec<Fault>) {
    let (graph, tables) = (manager.graph(), manager.tables());
    let switch = |lid: u16| {
        let at = manager.subnet().at_lid(lid)?;
        let node = manager.subnet().node(at.node)?;
        let near = match &node.switch {
            Some(_) => at.node,
            None => node.ports.get(usize::from(at.port))?.neighbor?.node,
        };
        let guid = manager.subnet().node(near)?.info.node_guid;
        graph.switches.binary_search_by_key(&guid, |switch| switch.guid).ok().map(|place| place as u32)
    };
    let places: BTreeMap<u16, Option<u32>> = ends.iter().map(|(_, lid)| (*lid, switch(*lid))).collect();
    for (from, source) in ends.iter().filter(|(from, _)| from.port != 0) {
        for (to, lid) in ends {
            let level = match (places.get(source).copied().flatten(), places.get(lid).copied().flatten()) {
                (Some(a), Some(b)) => tables.service_level(a, b, *lid).unwrap_or(0),
                _ => 0,
            };
            let query = PathQuery { dlid: *lid, sl: level, pkey: 0xffff, payload: 0 };
            if let Err(why) = fabric.verdict(*from, &query) {
                faults.push(Fault::NoPath(*from, *to, why.to_string()));
            }
        }
    }
}

/// Checks that switches have the tables that the manager computed, and that these form no cycle.
fn tables(fabric: &Fabric, manager: &Manager, faults: &mut Vec<Fault>) {
    let (graph, tables) = (manager.graph(), manager.tables());
    let guid = |node: u32| fabric.port_guid(PortRef::new(node, 0));
    let nodes: BTreeMap<u64, u32> = (0..fabric.node_count()).filter_map(|node| Some((guid(node)?, node))).collect();
    for (switch, table) in graph.switches.iter().zip(&tables.lfts) {
        let Some(node) = nodes.get(&switch.guid) else { continue };
        for (lid, port) in (0u16..).zip(table).skip(1) {
            if fabric.forwarding(*node, lid).unwrap_or(0xff) != *port {
                faults.push(Fault::Table(switch.guid, lid));
            }
        }
    }
    lanes(fabric, manager, &nodes, faults);
    let checks = quality::Checks { shifts: 0, ..quality::Checks::default() };
    if quality::check(graph, tables, &checks, &Sequential).credit_loop.is_some() {
        faults.push(Fault::CreditLoop);
    }
}

/// Checks that between links of switches, service levels use the lanes that the engine computed.
fn lanes(fabric: &Fabric, manager: &Manager, nodes: &BTreeMap<u64, u32>, faults: &mut Vec<Fault>) {
    let (graph, tables) = (manager.graph(), manager.tables());
    let levels = match &tables.lanes {
        Lanes::Any => return,
        Lanes::Identity { count } => *count,
        Lanes::ByPorts { .. } => 16,
    };
    for (place, switch) in (0u32..).zip(&graph.switches) {
        let Some(node) = nodes.get(&switch.guid) else { continue };
        let links = |at: &&(u8, &graph::Port)| matches!(at.1.peer, graph::Peer::Switch { .. });
        let numbered: Vec<(u8, &graph::Port)> = (0u8..).zip(&switch.ports).collect();
        let ports: Vec<u8> = numbered.iter().filter(links).map(|(port, _)| *port).collect();
        let ways = ports.iter().flat_map(|from| ports.iter().map(move |to| (*from, *to)));
        for (way, level) in ways.flat_map(|way| (0..levels).map(move |level| (way, level))) {
            let wanted = tables.lane(place, switch.ports.len(), way.0, way.1, level);
            if fabric.lane(*node, way, level) != Some(wanted) {
                faults.push(Fault::Lane(switch.guid, way, level));
            }
        }
    }
}

/// Returns every port on a link that leads to the master, and port 0 of the switches.
fn reach(fabric: &Fabric, master: PortRef) -> BTreeSet<PortRef> {
    let mut found = BTreeSet::from([master]);
    let mut border = VecDeque::from([master]);
    while let Some(at) = border.pop_front() {
        let peer = fabric.peer(at).filter(|_| fabric.speed(at).is_some());
        for next in peer.into_iter().chain(beside(fabric, at)) {
            let linked = next.port == 0 || fabric.speed(next).is_some();
            if linked && found.insert(next) {
                border.push_back(next);
            }
        }
    }
    found
}

/// Returns the other ports of a switch.
fn beside(fabric: &Fabric, at: PortRef) -> Vec<PortRef> {
    match fabric.kind(at.node) {
        Some(NodeKind::Switch) => (0..=fabric.port_count(at.node)).map(|port| PortRef::new(at.node, port)).collect(),
        _ => Vec::new(),
    }
}
