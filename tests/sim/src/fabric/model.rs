//! An independent model of the fabric's rules: where ports and tables lead a packet, and which links are up, given the
//! plugged cables and the powered nodes.

use std::collections::{BTreeMap, BTreeSet};

use weft_fabric::topology::{NodeKind, Topology};
use weft_fabric::{Fabric, PathQuery, PortRef};
use weft_wire::mad::subn::{PhysState, PortState};

/// Returns the port where a packet arrives, by walking from port to port; `None` if a node on the way drops it.
pub fn walk(fabric: &Fabric, from: PortRef, query: &PathQuery) -> Option<PortRef> {
    let owns = |port: PortRef| fabric.port_info(port).is_some_and(|info| info.lid != 0 && info.lid == query.dlid);
    let admits = |port: PortRef| {
        let goes_with = |own: &u16| own << 1 == query.pkey << 1 && (own | query.pkey) >> 15 == 1;
        query.pkey << 1 != 0 && fabric.pkeys(port).iter().any(goes_with)
    };
    if !fabric.pkeys(from).contains(&query.pkey) {
        return None;
    }
    let mut out = from;
    if owns(from) {
        return admits(from).then_some(from);
    }
    for _ in 0..64 {
        if fabric.port_info(out)?.port_state != PortState::ACTIVE {
            return None;
        }
        let at = fabric.peer(out)?;
        if !matches!(fabric.port_info(at)?.port_state, PortState::ACTIVE | PortState::ARMED) {
            return None;
        }
        if fabric.kind(at.node)? != NodeKind::Switch {
            return (owns(at) && admits(at)).then_some(at);
        }
        let number = fabric.forwarding(at.node, query.dlid)?;
        let next = PortRef::new(at.node, number);
        if number == 0 {
            return (owns(next) && admits(next)).then_some(next);
        }
        if number == at.port || number > fabric.port_count(at.node) {
            return None;
        }
        out = next;
    }
    None
}

/// Cables and power as the schedule left them.
pub struct Plant {
    ports: Vec<PortRef>,
    pub plugged: BTreeMap<PortRef, PortRef>,
    pub off: BTreeSet<u32>,
}

impl Plant {
    /// Starts with the cables and power of the topology.
    pub fn new(topology: &Topology) -> Plant {
        let ends = topology.cables.iter().map(|cable| (PortRef::from(cable.a), PortRef::from(cable.b)));
        let mut plugged = BTreeMap::new();
        for (a, b) in ends {
            plugged.insert(a, b);
            plugged.insert(b, a);
        }
        let ports = (0..).zip(&topology.nodes);
        let ports = ports.flat_map(|(node, spec)| (1..=spec.port_count()).map(move |port| PortRef::new(node, port)));
        Plant { ports: ports.collect(), plugged, off: BTreeSet::new() }
    }

    /// Checks links after training: a link is up where a cable is plugged and both ends have power, and nowhere else.
    pub fn check(&self, fabric: &Fabric) {
        for port in &self.ports {
            let peer = self.plugged.get(port).copied();
            assert_eq!(fabric.peer(*port), peer, "the other end of {port}");
            let up = peer.is_some_and(|peer| !self.off.contains(&port.node) && !self.off.contains(&peer.node));
            let info = fabric.port_info(*port).expect("a port");
            let wanted = if up { PhysState::LINK_UP } else { PhysState::POLLING };
            assert_eq!(info.port_physical_state, wanted, "{port}");
            assert_eq!(info.port_state == PortState::DOWN, !up, "{port}");
        }
    }
}
