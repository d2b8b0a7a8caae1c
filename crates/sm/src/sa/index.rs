//! Lookup tables for hundreds of thousands of requests a second: ports by GUID and LID, and the MTU and rate of each
//! hop of a path. Built once per sweep.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use weft_wire::mad::Rate;
use weft_wire::mad::subn::{NodeType, PortInfo};

use super::facts::{Facts, base_lid, rate};
use super::pkeys::Classes;
use super::world::World;
use crate::graph::{Graph, Peer};
use crate::multicast::Seat;
use crate::subnet::{NodeIx, PortIx, Subnet};

/// No index.
pub(super) const NOWHERE: u32 = u32::MAX;
/// Upper bound of unicast LIDs (exclusive).
const LIDS: usize = 0xc000;

/// An end port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub guid: u64,
    pub prefix: u64,
    pub at: PortIx,
    pub lid: u16,
    pub lmc: u8,
    /// Index in the graph of the switch that it is attached to or that it is; [`NOWHERE`] if none.
    pub switch: u32,
    /// The switch's port; 0 if the entry is the switch itself.
    pub port: u8,
    pub is_switch: bool,
    /// MTU and rate of the port itself.
    pub own: Carries,
    /// MTU and rate of the switch port at the other end.
    pub far: Carries,
    /// Class of its P_Key table (see [`Classes`]).
    pub class: u32,
    /// Entry at the other end of the cable if that is not a switch.
    pub peer: u32,
}

/// MTU and rate of a port or a path: the largest MTU, and the rate as a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Carries {
    pub mtu: u8,
    pub rank: u8,
}

impl Carries {
    pub const ALL: Carries = Carries { mtu: u8::MAX, rank: u8::MAX };

    pub fn of(info: &PortInfo) -> Carries {
        Carries { mtu: info.mtu_cap, rank: rank(rate(info)) }
    }
    #[inline]
    pub fn and(self, other: Carries) -> Carries {
        Carries { mtu: self.mtu.min(other.mtu), rank: self.rank.min(other.rank) }
    }
}

/// Rates from the slowest to the fastest: a rate's rank is its index.
const RATES: [Rate; 24] = [
    Rate::GBPS_2_5,
    Rate::GBPS_5,
    Rate::GBPS_10,
    Rate::GBPS_14,
    Rate::GBPS_20,
    Rate::GBPS_25,
    Rate::GBPS_28,
    Rate::GBPS_30,
    Rate::GBPS_40,
    Rate::GBPS_50,
    Rate::GBPS_56,
    Rate::GBPS_60,
    Rate::GBPS_80,
    Rate::GBPS_100,
    Rate::GBPS_112,
    Rate::GBPS_120,
    Rate::GBPS_168,
    Rate::GBPS_200,
    Rate::GBPS_300,
    Rate::GBPS_400,
    Rate::GBPS_600,
    Rate::GBPS_800,
    Rate::GBPS_1200,
    Rate::GBPS_1600,
];

/// Whether this code is a known rate.
pub(super) fn is_rate(rate: Rate) -> bool {
    RATES.contains(&rate)
}

/// The rank of a rate; an unknown rate has the rank of the slowest.
pub(super) fn rank(rate: Rate) -> u8 {
    RATES.iter().position(|other| *other == rate).unwrap_or(0) as u8
}

/// The rate with a rank.
pub(super) fn ranked(rank: u8) -> Rate {
    RATES.get(usize::from(rank)).copied().unwrap_or(Rate::GBPS_2_5)
}

/// A hop from a switch port, for walking paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hop {
    /// The switch or end port at the other end: indices of end ports follow those of switches.
    pub next: u32,
    /// The port of the switch at the other end.
    pub port: u8,
    /// MTU and rate that both ends support.
    pub carries: Carries,
}

const NO_HOP: Hop = Hop { next: NOWHERE, port: 0, carries: Carries::ALL };

/// The lookup tables.
#[derive(Clone, Debug)]
pub(super) struct Index {
    pub generation: u64,
    /// The inputs it was built from.
    pub facts: Facts,
    /// End ports, sorted by [`crate::multicast::order`] of their GUIDs.
    pub entries: Vec<Entry>,
    /// Nodes, sorted by the same order of their GUIDs.
    pub nodes: Vec<NodeIx>,
    by_guid: FxHashMap<u64, u32>,
    by_lid: Vec<u32>,
    /// Entries of the graph's switches, by switch index.
    pub switches: Vec<u32>,
    hops: Vec<Hop>,
    stride: usize,
    pub classes: Classes,
    /// Capacity of the smallest multicast table.
    pub mft_cap: u16,
    /// Switches without a multicast table.
    pub without_mft: Vec<u32>,
    /// The largest MTU and rate that every adapter supports.
    pub least: Carries,
}

impl Default for Index {
    fn default() -> Index {
        Index {
            generation: 0,
            facts: Facts::default(),
            entries: Vec::new(),
            nodes: Vec::new(),
            by_guid: FxHashMap::default(),
            by_lid: Vec::new(),
            switches: Vec::new(),
            hops: Vec::new(),
            stride: 0,
            classes: Classes::default(),
            mft_cap: 0,
            without_mft: Vec::new(),
            least: Carries::ALL,
        }
    }
}

impl Index {
    /// Builds the index of a sweep. `aliases` are alias GUIDs by PortGUID.
    pub fn new(world: &World<'_>, aliases: &BTreeMap<u64, Vec<u64>>) -> Index {
        let mut index = Index { generation: world.generation, facts: Facts::of(world), ..Index::default() };
        index.list(world.subnet);
        index.place(world.subnet, world.graph);
        index.link(world.subnet, world.graph);
        index.read_switches(world.subnet, world.graph);
        for (guid, aliases) in aliases {
            aliases.iter().for_each(|alias| index.add_alias(*guid, *alias));
        }
        index
    }

    /// Lists every end port and node.
    fn list(&mut self, subnet: &Subnet) {
        self.by_lid = vec![NOWHERE; LIDS];
        self.nodes = subnet.nodes().map(|(place, _)| place).collect();
        let guid = |place: &NodeIx| subnet.node(*place).map_or(0, |node| node.info.node_guid);
        self.nodes.sort_by_cached_key(|place| crate::multicast::order(guid(place)));
        for (at, node, port) in subnet.end_ports() {
            let is_switch = node.info.node_type == NodeType::SWITCH;
            let entry = Entry {
                guid: port.guid,
                prefix: port.info.gid_prefix,
                at,
                lid: base_lid(port),
                lmc: if port.lid != 0 { port.lmc.min(7) } else { port.info.lmc.min(7) },
                switch: NOWHERE,
                port: 0,
                is_switch,
                own: Carries::of(&port.info),
                far: Carries::ALL,
                class: self.classes.class(&port.pkeys),
                peer: NOWHERE,
            };
            if !is_switch {
                self.least = self.least.and(entry.own);
            }
            self.entries.push(entry);
        }
        self.entries.sort_unstable_by_key(|entry| crate::multicast::order(entry.guid));
        for (place, entry) in (0u32..).zip(&self.entries) {
            self.by_guid.insert(entry.guid, place);
            for lid in entry.lids() {
                if let Some(slot) = self.by_lid.get_mut(usize::from(lid)).filter(|_| entry.lid != 0) {
                    *slot = place;
                }
            }
        }
    }

    /// Finds the attachment point of every end port in the graph.
    fn place(&mut self, subnet: &Subnet, graph: &Graph) {
        self.switches = vec![NOWHERE; graph.switch_count()];
        for (place, switch) in (0u32..).zip(&graph.switches) {
            let port = subnet.by_guid.get(&switch.guid).map(|node| PortIx { node: *node, port: 0 });
            let guid = port.and_then(|port| subnet.port(port)).map(|port| port.guid);
            if let Some(entry) = guid.and_then(|guid| self.by_guid.get(&guid).copied()) {
                self.switches[place as usize] = entry;
                if let Some(entry) = self.entries.get_mut(entry as usize) {
                    (entry.switch, entry.port) = (place, 0);
                }
            }
        }
        for end in &graph.ends {
            let there = graph.switches.get(end.switch as usize).and_then(|switch| subnet.by_guid.get(&switch.guid));
            let far = there.and_then(|node| subnet.port(PortIx { node: *node, port: end.port }));
            let entry = self.by_guid.get(&end.guid).copied();
            if let Some(entry) = entry.and_then(|entry| self.entries.get_mut(entry as usize)) {
                (entry.switch, entry.port) = (end.switch, end.port);
                entry.far = far.map_or(Carries::ALL, |port| Carries::of(&port.info));
            }
        }
        for place in 0..self.entries.len() {
            let neighbor = subnet.port(self.entries[place].at).and_then(|port| port.neighbor);
            let guid = neighbor.and_then(|at| subnet.port(at)).map(|port| port.guid).filter(|guid| *guid != 0);
            if self.entries[place].switch == NOWHERE
                && let Some(peer) = guid.and_then(|guid| self.by_guid.get(&guid).copied())
            {
                self.entries[place].peer = peer;
            }
        }
    }

    /// Fills in the hop of each switch port.
    fn link(&mut self, subnet: &Subnet, graph: &Graph) {
        self.stride = graph.switches.iter().map(|switch| switch.ports.len()).max().unwrap_or(0);
        self.hops = vec![NO_HOP; self.stride * graph.switch_count()];
        let count = graph.switch_count() as u32;
        let carries = |switch: u32, port: u8| {
            let node = graph.switches.get(switch as usize).and_then(|switch| subnet.by_guid.get(&switch.guid));
            let port = node.and_then(|node| subnet.port(PortIx { node: *node, port }));
            port.map_or(Carries::ALL, |port| Carries::of(&port.info))
        };
        for (place, switch) in (0u32..).zip(&graph.switches) {
            for (number, port) in (0..=u8::MAX).zip(&switch.ports) {
                let own = carries(place, number);
                let hop = match port.peer {
                    Peer::None => continue,
                    Peer::Switch { switch, port } => {
                        Hop { next: switch, port, carries: own.and(carries(switch, port)) }
                    }
                    Peer::End(end) => {
                        let guid = graph.ends.get(end as usize).map(|end| end.guid);
                        let Some(entry) = guid.and_then(|guid| self.by_guid.get(&guid).copied()) else { continue };
                        Hop { next: count + entry, port: 0, carries: own }
                    }
                };
                self.hops[place as usize * self.stride + usize::from(number)] = hop;
            }
        }
    }

    /// Reads the multicast table sizes of the switches.
    fn read_switches(&mut self, subnet: &Subnet, graph: &Graph) {
        self.mft_cap = u16::MAX;
        for (place, switch) in (0u32..).zip(&graph.switches) {
            let node = subnet.by_guid.get(&switch.guid).and_then(|node| subnet.node(*node));
            match node.and_then(|node| node.switch.as_ref()).map_or(0, |switch| switch.info.multicast_fdb_cap) {
                0 => self.without_mft.push(place),
                entries => self.mft_cap = self.mft_cap.min(entries),
            }
        }
    }

    /// Adds an alias GUID of a port.
    pub fn add_alias(&mut self, guid: u64, alias: u64) {
        if let Some(entry) = self.by_guid.get(&guid).copied().filter(|_| alias != 0) {
            self.by_guid.entry(alias).or_insert(entry);
        }
    }

    /// Removes an alias GUID; a port's own GUID stays.
    pub fn remove_alias(&mut self, alias: u64) {
        if self.at_guid(alias).is_some_and(|(_, entry)| entry.guid != alias) {
            self.by_guid.remove(&alias);
        }
    }

    /// The port with this GUID or alias GUID, and its index.
    pub fn at_guid(&self, guid: u64) -> Option<(u32, &Entry)> {
        let place = *self.by_guid.get(&guid)?;
        Some((place, self.entries.get(place as usize)?))
    }

    /// The port with this LID, and its index.
    pub fn at_lid(&self, lid: u16) -> Option<(u32, &Entry)> {
        let place = *self.by_lid.get(usize::from(lid))?;
        Some((place, self.entries.get(place as usize)?))
    }

    /// The port at an index.
    #[inline]
    pub fn entry(&self, place: u32) -> Option<&Entry> {
        self.entries.get(place as usize)
    }

    /// The highest LID of any port.
    pub fn lid_top(&self) -> u16 {
        self.entries.iter().map(|entry| *entry.lids().end()).max().unwrap_or(0)
    }

    /// The hop from a switch port.
    #[inline]
    pub fn hop(&self, switch: u32, port: u8) -> Option<&Hop> {
        if usize::from(port) >= self.stride {
            return None;
        }
        self.hops.get(switch as usize * self.stride + usize::from(port)).filter(|hop| hop.next != NOWHERE)
    }

    /// The entry that a hop leads to if it is not a switch.
    #[inline]
    pub fn end_of(&self, hop: &Hop) -> Option<u32> {
        hop.next.checked_sub(self.switches.len() as u32)
    }

    /// The P_Key table of a port.
    pub fn pkeys(&self, entry: &Entry) -> &[u16] {
        self.classes.table(entry.class)
    }

    /// Whether two ports share a partition and so may know of each other.
    pub fn share(&mut self, a: u32, b: u32) -> bool {
        let (Some(first), Some(second)) = (self.entry(a), self.entry(b)) else { return false };
        let (first, second) = (first.class, second.class);
        a == b || self.classes.common(first, second).is_some()
    }

    /// A port's attachment point, for multicast trees.
    pub fn seat(&self, guid: u64, receives: bool) -> Option<Seat> {
        let (_, entry) = self.at_guid(guid)?;
        (entry.switch != NOWHERE).then_some(Seat { switch: entry.switch, port: entry.port, receives })
    }
}

impl Entry {
    /// The port's LIDs.
    pub fn lids(&self) -> std::ops::RangeInclusive<u16> {
        self.lid..=self.lid.saturating_add((1 << self.lmc) - 1)
    }

    /// The port's GID.
    pub fn gid(&self) -> [u8; 16] {
        gid(self.prefix, self.guid)
    }
}

/// The GID with these halves.
pub(super) fn gid(prefix: u64, guid: u64) -> [u8; 16] {
    (u128::from(prefix) << 64 | u128::from(guid)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rate_has_its_rank() {
        assert!(RATES.is_sorted_by_key(|rate| rate.tenths()));
        assert!(Rate::ALL.iter().all(|rate| ranked(rank(*rate)) == *rate && is_rate(*rate)));
        assert!(!is_rate(Rate(1)));
    }
}
