//! What routing engines see of a fabric: switches, the ports that hang on them, the links between. Places in vectors name
//! things, so that tables are vectors too. A graph does not change: a new one is made of every sweep.

use std::collections::BTreeMap;

use weft_wire::mad::Speed;
use weft_wire::mad::subn::{NodeType, PortInfo};

use crate::subnet::{PortIx, Subnet};

/// A fabric as routing engines see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Every switch, in the order of their GUIDs.
    pub switches: Vec<Switch>,
    /// Every port of an adapter or router that has a LID and hangs on a switch, in the order of their GUIDs.
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
    /// LMC of its port 0: it has `1 << lmc` LIDs.
    pub lmc: u8,
    /// By port number; entry 0 is port 0, which leads nowhere.
    pub ports: Vec<Port>,
}

/// A port of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// What is at the other end of the cable.
    pub peer: Peer,
    /// Data lanes that both ends of the link can use: 1, 2, 4, 8 or 15.
    pub vls: u8,
    /// How much the link carries, in 0.1 Gb/s.
    pub capacity: u32,
    /// What a hop through this port counts; 1 unless the administrator says otherwise.
    pub weight: u16,
}

/// What is at the other end of a cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    /// Nothing that can be used.
    #[default]
    None,
    /// A port of another switch.
    Switch {
        /// Place of the switch in [`Graph::switches`].
        switch: u32,
        /// Its port.
        port: u8,
    },
    /// A port of an adapter or a router, by its place in [`Graph::ends`].
    End(u32),
}

/// A port of an adapter or a router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// PortGUID.
    pub guid: u64,
    /// NodeGUID: ports of one adapter have the same.
    pub node_guid: u64,
    /// NodeDescription, for people.
    pub name: String,
    /// Whether it is a router's.
    pub router: bool,
    /// Base LID.
    pub lid: u16,
    /// It has `1 << lmc` LIDs.
    pub lmc: u8,
    /// The switch that it hangs on.
    pub switch: u32,
    /// The switch's port.
    pub port: u8,
}

impl Switch {
    /// The links to other switches: port, place of the other switch, its port.
    pub fn links(&self) -> impl Iterator<Item = (u8, u32, u8)> + '_ {
        (0..=u8::MAX).zip(&self.ports).filter_map(|(number, port)| match port.peer {
            Peer::Switch { switch, port } => Some((number, switch, port)),
            _ => None,
        })
    }

    /// The adapters' and routers' ports that hang on it: port, place in [`Graph::ends`].
    pub fn hung(&self) -> impl Iterator<Item = (u8, u32)> + '_ {
        (0..=u8::MAX).zip(&self.ports).filter_map(|(number, port)| match port.peer {
            Peer::End(end) => Some((number, end)),
            _ => None,
        })
    }

    /// Its LIDs.
    pub fn lids(&self) -> std::ops::Range<u16> {
        self.lid..self.lid.saturating_add(1 << self.lmc)
    }
}

impl End {
    /// Its LIDs.
    pub fn lids(&self) -> std::ops::Range<u16> {
        self.lid..self.lid.saturating_add(1 << self.lmc)
    }
}

impl Graph {
    /// The highest LID that is given to anybody; 0 if none is.
    pub fn lid_top(&self) -> u16 {
        let switches = self.switches.iter().map(Switch::lids);
        switches.chain(self.ends.iter().map(End::lids)).map(|lids| lids.end.saturating_sub(1)).max().unwrap_or(0)
    }

    /// Switches.
    pub fn switch_count(&self) -> usize {
        self.switches.len()
    }
}

/// Data lanes of a code as PortInfo has it.
fn lanes(code: u8) -> u8 {
    match code {
        5.. => 15,
        code => 1 << code.saturating_sub(1),
    }
}

impl Graph {
    /// The graph of a subnet: switches and ends that have LIDs, and the links between them that are up.
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

/// What a link carries, in 0.1 Gb/s.
fn capacity(info: &PortInfo) -> u32 {
    info.link_width_active.lanes() * Speed::active(info).map_or(0, Speed::tenths)
}
