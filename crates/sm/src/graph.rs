//! The fabric as routing engines see it: switches, the end ports attached to them, and the links between switches.
//! Elements refer to each other by vector index, so that tables are vectors too. A graph is immutable: every sweep
//! builds a new one.

use std::collections::BTreeMap;

use weft_wire::mad::Speed;
use weft_wire::mad::subn::{NodeType, PortInfo};

use crate::subnet::{PortIx, Subnet};

/// A fabric as routing engines see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Every switch, in GUID order.
    pub switches: Vec<Switch>,
    /// Every port of an adapter or router that has a LID and is attached to a switch, in GUID order.
    pub ends: Vec<End>,
}

/// A switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// NodeGUID.
    pub guid: u64,
    /// NodeDescription, for people.
    pub name: String,
    /// LID of its port 0.
    pub lid: u16,
    /// LMC of its port 0: the switch has `1 << lmc` LIDs.
    pub lmc: u8,
    /// Indexed by port number; entry 0 is port 0, which leads nowhere.
    pub ports: Vec<Port>,
}

/// A port of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// The other end of the cable.
    pub peer: Peer,
    /// Data VLs that both ends of the link support: 1, 2, 4, 8 or 15.
    pub vls: u8,
    /// Link capacity in 0.1 Gb/s.
    pub capacity: u32,
    /// Weight of a hop through this port; 1 unless configured otherwise.
    pub weight: u16,
}

/// The other end of a cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    /// No usable peer.
    #[default]
    None,
    /// A port of another switch.
    Switch {
        /// Index of the switch in [`Graph::switches`].
        switch: u32,
        /// Its port.
        port: u8,
    },
    /// A port of an adapter or a router, as an index into [`Graph::ends`].
    End(u32),
}

/// A port of an adapter or a router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// PortGUID.
    pub guid: u64,
    /// NodeGUID, shared by the ports of one adapter.
    pub node_guid: u64,
    /// NodeDescription, for people.
    pub name: String,
    /// Whether the port belongs to a router.
    pub router: bool,
    /// Base LID.
    pub lid: u16,
    /// LMC: the port has `1 << lmc` LIDs.
    pub lmc: u8,
    /// Index of the switch that the port is attached to.
    pub switch: u32,
    /// Port number on that switch.
    pub port: u8,
}

impl Switch {
    /// Links to other switches: port, index of the other switch, its port.
    pub fn links(&self) -> impl Iterator<Item = (u8, u32, u8)> + '_ {
        (0..=u8::MAX).zip(&self.ports).filter_map(|(number, port)| match port.peer {
            Peer::Switch { switch, port } => Some((number, switch, port)),
            _ => None,
        })
    }

    /// Attached adapter and router ports: switch port, index in [`Graph::ends`].
    pub fn hung(&self) -> impl Iterator<Item = (u8, u32)> + '_ {
        (0..=u8::MAX).zip(&self.ports).filter_map(|(number, port)| match port.peer {
            Peer::End(end) => Some((number, end)),
            _ => None,
        })
    }

    /// The switch's LIDs.
    pub fn lids(&self) -> std::ops::Range<u16> {
        self.lid..self.lid.saturating_add(1 << self.lmc)
    }
}

impl End {
    /// The port's LIDs.
    pub fn lids(&self) -> std::ops::Range<u16> {
        self.lid..self.lid.saturating_add(1 << self.lmc)
    }
}

impl Graph {
    /// The highest LID in use; 0 if none is.
    pub fn lid_top(&self) -> u16 {
        let switches = self.switches.iter().map(Switch::lids);
        switches.chain(self.ends.iter().map(End::lids)).map(|lids| lids.end.saturating_sub(1)).max().unwrap_or(0)
    }

    /// The number of switches.
    pub fn switch_count(&self) -> usize {
        self.switches.len()
    }
}

/// Number of data VLs for a PortInfo VLCap code.
fn lanes(code: u8) -> u8 {
    match code {
        5.. => 15,
        code => 1 << code.saturating_sub(1),
    }
}

impl Graph {
    /// Builds the graph of a subnet: switches and ends that have LIDs, and the links between them that are up.
    pub(crate) fn of(subnet: &Subnet, max_op_vls: u8, weights: &BTreeMap<(u64, u8), u16>) -> Graph {
        let mut graph = Graph::default();
        let mut places = vec![u32::MAX; subnet.nodes.len()];
        for node in subnet.by_guid.values() {
            let Some(switch) = subnet.node(*node).filter(|node| node.switch.is_some()) else { continue };
            let Some(own) = switch.ports.first().filter(|port| port.lid != 0) else { continue };
            places[node.0 as usize] = graph.switches.len() as u32;
            graph.switches.push(Switch {
                guid: switch.info.node_guid,
                name: switch.description.text().into_owned(),
                lid: own.lid,
                lmc: own.lmc,
                ports: vec![Port { weight: 1, ..Port::default() }; switch.ports.len()],
            });
        }
        for node in subnet.by_guid.values() {
            let place = places[node.0 as usize];
            let Some(switch) = subnet.node(*node).filter(|_| place != u32::MAX) else { continue };
            for (number, port) in (0..=u8::MAX).zip(&switch.ports).skip(1) {
                let at = PortIx { node: *node, port: number };
                let Some(neighbor) = port.neighbor.filter(|other| subnet.is_up(at) && subnet.is_up(*other)) else {
                    continue;
                };
                let Some(far) = subnet.port(neighbor) else { continue };
                let other = places[neighbor.node.0 as usize];
                let peer = if other != u32::MAX {
                    Peer::Switch { switch: other, port: neighbor.port }
                } else if far.lid != 0 {
                    Peer::End(u32::MAX)
                } else {
                    continue;
                };
                let vls = port.info.vl_cap.min(far.info.vl_cap).min(max_op_vls);
                let weight = weights.get(&(switch.info.node_guid, number)).copied().unwrap_or(1);
                graph.switches[place as usize].ports[usize::from(number)] =
                    Port { peer, vls: lanes(vls), capacity: capacity(&port.info), weight };
            }
        }
        graph.hang_ends(subnet, &places);
        graph
    }

    fn hang_ends(&mut self, subnet: &Subnet, places: &[u32]) {
        for (at, node, port) in subnet.end_ports() {
            let Some(neighbor) = port.neighbor.filter(|_| node.switch.is_none() && port.lid != 0) else { continue };
            let Some(switch) = places.get(neighbor.node.0 as usize).filter(|switch| **switch != u32::MAX) else {
                continue;
            };
            let end = self.ends.len() as u32;
            let Some(hook) = self.switches[*switch as usize].ports.get_mut(usize::from(neighbor.port)) else {
                continue;
            };
            if hook.peer != Peer::End(u32::MAX) {
                continue;
            }
            hook.peer = Peer::End(end);
            self.ends.push(End {
                guid: port.guid,
                node_guid: node.info.node_guid,
                name: node.description.text().into_owned(),
                router: node.info.node_type == NodeType::ROUTER,
                lid: port.lid,
                lmc: port.lmc,
                switch: *switch,
                port: neighbor.port,
            });
            let _ = at;
        }
        let hooks = self.switches.iter_mut().flat_map(|switch| &mut switch.ports);
        hooks.filter(|port| port.peer == Peer::End(u32::MAX)).for_each(|port| port.peer = Peer::None);
    }
}

/// Link capacity in 0.1 Gb/s.
fn capacity(info: &PortInfo) -> u32 {
    info.link_width_active.lanes() * Speed::active(info).map_or(0, Speed::tenths)
}
