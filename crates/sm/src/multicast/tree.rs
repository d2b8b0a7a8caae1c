//! Multicast trees: for each multicast LID the links that carry its packets. New members are grafted on and unneeded
//! branches pruned; a tree is grown anew only when it has lost a link.

use std::collections::BTreeMap;

use crate::graph::{Graph, Peer};

/// Port bit mask: port 0 is bit 0 of the first word.
pub type PortMask = [u64; 4];

/// A member's attachment point.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Seat {
    /// Index of the switch that the member is attached to, or that it is, in the graph.
    pub switch: u32,
    /// The switch's port; 0 is the switch itself.
    pub port: u8,
    /// Whether the member receives packets sent to the group; otherwise it only sends.
    pub receives: bool,
}

/// The members that a multicast LID must reach.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// The LID.
    pub mlid: u16,
    /// The members.
    pub seats: Vec<Seat>,
}

/// Input for [`trees`](super::forest::trees).
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The fabric.
    pub graph: &'a Graph,
    /// Members of every LID, in LID order; a LID that is not listed loses its tree.
    pub wanted: &'a [Wanted],
    /// Switches without multicast tables, by index in the graph, sorted.
    pub without_mft: &'a [u32],
    /// The current trees.
    pub previous: &'a Forest,
}

/// The tree of a LID.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tree {
    /// The switch it is rooted at.
    pub root: u32,
    /// Egress ports of each switch in the tree.
    pub masks: BTreeMap<u32, PortMask>,
    /// The members it reaches.
    pub seats: Vec<Seat>,
}

/// The trees of a whole fabric.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Forest {
    /// GUIDs of the switches, in the order of the graph that the trees were computed for.
    pub guids: Vec<u64>,
    /// Trees by LID.
    pub trees: BTreeMap<u16, Tree>,
}

/// Whether a port is in a mask.
pub(super) fn has(mask: &PortMask, port: u8) -> bool {
    mask[usize::from(port / 64)] >> (port % 64) & 1 != 0
}

/// Adds a port to a mask.
pub(super) fn set(mask: &mut PortMask, port: u8) {
    mask[usize::from(port / 64)] |= 1 << (port % 64);
}

/// Removes a port from a mask.
pub(super) fn clear(mask: &mut PortMask, port: u8) {
    mask[usize::from(port / 64)] &= !(1 << (port % 64));
}

/// The ports of a mask.
pub(super) fn ports(mask: &PortMask) -> impl Iterator<Item = u8> + '_ {
    (0..=u8::MAX).filter(|port| has(mask, *port))
}

impl Forest {
    /// The multicast table of a switch, by index: port masks by LID.
    pub fn rows(&self, switch: u32) -> BTreeMap<u16, PortMask> {
        let masks = self.trees.iter().filter_map(|(mlid, tree)| Some((*mlid, *tree.masks.get(&switch)?)));
        masks.filter(|(_, mask)| *mask != [0; 4]).collect()
    }

    /// The tables of all switches, in index order.
    pub fn tables(&self) -> Vec<BTreeMap<u16, PortMask>> {
        let mut tables = vec![BTreeMap::new(); self.guids.len()];
        for (mlid, tree) in &self.trees {
            for (switch, mask) in &tree.masks {
                if let Some(table) = tables.get_mut(*switch as usize).filter(|_| *mask != [0; 4]) {
                    table.insert(*mlid, *mask);
                }
            }
        }
        tables
    }
}

impl Tree {
    /// Whether all its links are still there and its switches have tables.
    pub(super) fn stands(&self, graph: &Graph, without_mft: &[u32]) -> bool {
        self.masks.iter().all(|(at, mask)| {
            let Some(switch) = graph.switches.get(*at as usize) else { return false };
            without_mft.binary_search(at).is_err()
                && ports(mask).all(|port| match switch.ports.get(usize::from(port)).map(|port| port.peer) {
                    Some(Peer::Switch { switch, port }) => {
                        self.masks.get(&switch).is_some_and(|there| has(there, port))
                    }
                    _ => self.seats.iter().any(|seat| (seat.switch, seat.port) == (*at, port)),
                })
        })
    }
}
