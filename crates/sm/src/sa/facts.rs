//! Snapshot of the inputs of the index. If a sweep finds them unchanged, the index stays: on a large subnet a rebuild
//! takes as long as thousands of responses.

use std::ops::ControlFlow;

use weft_wire::mad::subn::PortInfo;
use weft_wire::mad::{Rate, Speed};

use super::world::World;
use crate::graph::Peer;
use crate::subnet::{Node, Port, PortIx};

/// Everything that [`super::index::Index::new`] reads, as numbers in node and switch order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Facts(Vec<u64>);

impl Facts {
    /// Reads the facts of a world.
    pub fn of(world: &World<'_>) -> Facts {
        let mut facts = Vec::new();
        let _ = tell(world, &mut |fact| {
            facts.push(fact);
            ControlFlow::Continue(())
        });
        Facts(facts)
    }

    /// Whether a world still has these facts.
    pub fn are(&self, world: &World<'_>) -> bool {
        let mut known = self.0.iter();
        let same = tell(world, &mut |fact| match known.next() {
            Some(known) if *known == fact => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        });
        same.is_continue() && known.next().is_none()
    }
}

/// The active rate of a port.
pub(super) fn rate(info: &PortInfo) -> Rate {
    let speed = Speed::active(info).unwrap_or(Speed::Sdr);
    Rate::of_link(info.link_width_active, speed).unwrap_or(Rate::GBPS_2_5)
}

/// The base LID of an end port: the assigned one, otherwise the one read from the port.
pub(super) fn base_lid(port: &Port) -> u16 {
    if port.lid != 0 { port.lid } else { port.info.lid }
}

/// Visitor for facts; breaks to stop early.
type Take<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

fn tell(world: &World<'_>, take: Take<'_>) -> ControlFlow<()> {
    for (place, node) in world.subnet.nodes() {
        take(place.0.into())?;
        tell_node(node, take)?;
    }
    for (at, _, port) in world.subnet.end_ports() {
        take(port.guid)?;
        take(u64::from(at.node.0) << 8 | u64::from(at.port))?;
    }
    for switch in &world.graph.switches {
        take(switch.guid)?;
        // The index finds switches by GUID.
        take(world.subnet.by_guid.get(&switch.guid).map_or(u64::MAX, |node| node.0.into()))?;
        take(switch.ports.len() as u64)?;
        for port in &switch.ports {
            take(match port.peer {
                Peer::None => 0,
                Peer::Switch { switch, port } => 1 << 62 | u64::from(switch) << 8 | u64::from(port),
                Peer::End(end) => 2 << 62 | u64::from(end),
            })?;
        }
    }
    for end in &world.graph.ends {
        take(end.guid)?;
        take(u64::from(end.switch) << 8 | u64::from(end.port))?;
    }
    ControlFlow::Continue(())
}

fn tell_node(node: &Node, take: Take<'_>) -> ControlFlow<()> {
    let multicast = node.switch.as_ref().map_or(0, |switch| 1 << 16 | u64::from(switch.info.multicast_fdb_cap));
    take(node.info.node_guid)?;
    take(u64::from(node.info.node_type.0) << 32 | multicast)?;
    take(node.ports.len() as u64)?;
    for port in &node.ports {
        tell_port(port, take)?;
    }
    ControlFlow::Continue(())
}

fn tell_port(port: &Port, take: Take<'_>) -> ControlFlow<()> {
    let info = &port.info;
    let lmc = u64::from(if port.lid != 0 { port.lmc } else { info.lmc });
    let at = |PortIx { node, port }: PortIx| 1 << 63 | u64::from(node.0) << 8 | u64::from(port);
    take(port.guid)?;
    take(info.gid_prefix)?;
    take(u64::from(base_lid(port)) << 32 | lmc << 24 | u64::from(info.mtu_cap) << 16 | u64::from(rate(info).0))?;
    take(port.neighbor.map_or(0, at))?;
    take(port.pkeys.len() as u64)?;
    for four in port.pkeys.chunks(4) {
        take(four.iter().fold(0, |all, pkey| all << 16 | u64::from(*pkey)))?;
    }
    ControlFlow::Continue(())
}
