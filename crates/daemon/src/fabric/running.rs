//! A running fabric, with the names of its nodes.

use std::collections::BTreeMap;

use weft_fabric::topology::{Cable, End, LinkState, NodeKind, NodeState, Picture, Topology};
use weft_fabric::{Addresses, CableView, Fabric, PortRef};
use weft_ipc::fabric::{FabricStatus, SmPort};
use weft_ipc::{FABRIC_MANAGERS_MAX, Refusal};
use weft_verbs::Instant;
use weft_wire::mad::subn::{CapabilityMask, PortState};

use crate::devices::check_name;
use crate::refusal::{EEXIST, ENODEV, refuse};

/// How a fabric runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Modes {
    /// Packet mode: every packet travels hop by hop.
    pub packets: bool,
    /// IPoIB interfaces start in connected mode.
    pub ipoib_connected: bool,
}

/// A running fabric.
#[derive(Debug)]
pub struct Running {
    pub(super) fabric: Fabric,
    pub(super) topology: Topology,
    addresses: Addresses,
    since: Instant,
    pub(super) nodes: BTreeMap<String, u32>,
    /// Adapters of each host, in the order of the description.
    hosts: BTreeMap<String, Vec<u32>>,
    modes: Modes,
    /// Faults and repairs so far.
    pub(super) repairs: u64,
}

impl Running {
    /// Brings one up.
    pub fn new(now: Instant, topology: Topology, seed: u64, modes: Modes) -> Running {
        let places = || (0u32..).zip(&topology.nodes);
        let nodes = places().map(|(place, node)| (node.name.clone(), place)).collect();
        let mut hosts: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (place, node) in places().filter(|(_, node)| node.kind == NodeKind::Ca) {
            hosts.entry(node.host.clone()).or_default().push(place);
        }
        let addresses = Addresses::new(&topology);
        Running {
            fabric: Fabric::new(&topology, seed),
            addresses,
            topology,
            since: now,
            nodes,
            hosts,
            modes,
            repairs: 0,
        }
    }

    /// Returns the fabric itself.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Returns the fabric itself.
    pub fn fabric_mut(&mut self) -> &mut Fabric {
        &mut self.fabric
    }

    /// Returns the fabric itself, and the addresses of its ports.
    pub fn addressed(&mut self) -> (&mut Fabric, &Addresses) {
        (&mut self.fabric, &self.addresses)
    }

    /// Returns whether it runs in packet mode: every packet travels hop by hop.
    pub fn packets(&self) -> bool {
        self.modes.packets
    }

    /// Returns whether IPoIB interfaces start in connected mode.
    pub fn ipoib_connected(&self) -> bool {
        self.modes.ipoib_connected
    }

    /// Returns the source of its topology.
    pub fn title(&self) -> &str {
        &self.topology.title
    }

    /// Returns its description, as it was brought up.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns when it came up.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Returns all hosts with the node indices of their adapters.
    pub fn hosts(&self) -> &BTreeMap<String, Vec<u32>> {
        &self.hosts
    }

    /// Resolves a host's name: its own, or `h0012` for the twelfth of the description.
    pub fn host_called<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        if self.hosts.contains_key(name) {
            return Some(name);
        }
        self.topology.host_called(name)
    }

    /// Returns the NodeGUID of the node that commands call `name`.
    pub fn node_guid(&self, name: &str) -> Option<u64> {
        Some(self.topology.nodes.get(*self.nodes.get(name)? as usize)?.guid)
    }

    /// Returns the node indices of a host's adapters, in the order of its devices.
    pub fn adapters(&self, host: &str) -> Option<&[u32]> {
        self.hosts.get(host).map(Vec::as_slice)
    }

    /// Renames an adapter of a host; returns its node index.
    pub fn rename_adapter(&mut self, host: &str, old: &str, new: &str) -> Result<u32, Refusal> {
        check_name(new)?;
        let places = self.hosts.get(host).map(Vec::as_slice).unwrap_or_default();
        let name_of = |place: &u32| self.topology.nodes.get(*place as usize).map(|node| node.adapter.as_str());
        let Some(place) = places.iter().copied().find(|place| name_of(place) == Some(old)) else {
            let names: Vec<&str> = places.iter().filter_map(name_of).collect();
            return Err(refuse(ENODEV, format!("host {host} has no device {old}; it has {}", names.join(", "))));
        };
        if places.iter().any(|other| *other != place && name_of(other) == Some(new)) {
            return Err(refuse(EEXIST, format!("device {new} exists already")));
        }
        if let Some(node) = self.topology.nodes.get_mut(place as usize) {
            new.clone_into(&mut node.adapter);
        }
        Ok(place)
    }

    /// Returns when [`Running::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.fabric.poll_timeout()
    }

    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.fabric.poll_timeout().is_some_and(|at| at <= now) {
            self.fabric.handle_timeout(now);
        }
    }

    /// Returns its status.
    pub fn status(&self) -> FabricStatus {
        let count = |kind| self.topology.count(kind) as u32;
        let mut links = [0; LinkState::ALL.len()];
        for cable in self.fabric.cables() {
            let state = self.link(&cable);
            if let Some(place) = LinkState::ALL.iter().position(|other| *other == state) {
                links[place] += 1;
            }
        }
        FabricStatus {
            title: self.topology.title.clone(),
            hosts: self.hosts.len() as u32,
            adapters: count(NodeKind::Ca),
            switches: count(NodeKind::Switch),
            routers: count(NodeKind::Router),
            powered_off: (0..self.fabric.node_count()).filter(|node| !self.fabric.powered(*node)).count() as u32,
            links,
            managers: self.managers(),
            packets: self.modes.packets,
            ..FabricStatus::default()
        }
    }

    /// Returns the ports that report a running subnet manager, and how many ports follow each.
    fn managers(&self) -> Vec<SmPort> {
        let mut followers: BTreeMap<u16, u32> = BTreeMap::new();
        let mut managers = Vec::new();
        for (place, node) in (0u32..).zip(&self.topology.nodes) {
            for port in end_ports(node.kind, node.port_count()) {
                let Some(info) = self.fabric.port_info(PortRef::new(place, port)) else { continue };
                *followers.entry(info.master_sm_lid).or_insert(0) += 1;
                if info.capability_mask.contains(CapabilityMask::SM) && managers.len() < FABRIC_MANAGERS_MAX {
                    managers.push(SmPort { node: node.name.clone(), port, lid: info.lid, followers: 0 });
                }
            }
        }
        for manager in managers.iter_mut().filter(|manager| manager.lid != 0) {
            manager.followers = followers.get(&manager.lid).copied().unwrap_or(0);
        }
        managers
    }

    /// Returns the state of a cable's link: the lower state of its ends.
    pub(super) fn link(&self, cable: &CableView) -> LinkState {
        if !cable.plugged {
            return LinkState::Cut;
        }
        let state = |port: PortRef| match self.fabric.port_info(port).map(|info| info.port_state) {
            Some(PortState::ACTIVE) => LinkState::Active,
            Some(PortState::ARMED) => LinkState::Armed,
            Some(PortState::INIT) => LinkState::Init,
            _ => LinkState::Down,
        };
        cable.ends.map(state).into_iter().min().unwrap_or(LinkState::Down)
    }

    /// Returns a snapshot of the current state.
    pub fn picture(&self) -> Picture {
        let mut picture = Picture::of(Topology {
            title: self.topology.title.clone(),
            nodes: self.topology.nodes.clone(),
            cables: Vec::new(),
        });
        let end = |port: PortRef| End { node: port.node, port: port.port };
        for cable in self.fabric.cables() {
            // If another cable has taken the port of a cut cable, show the new one.
            if !cable.plugged && cable.ends.iter().any(|port| self.fabric.cable(*port).is_some()) {
                continue;
            }
            let [a, b] = cable.ends.map(end);
            picture.topology.cables.push(Cable {
                width: cable.width,
                speed: cable.speed,
                latency_ns: cable.latency_ns,
                errors_ppm: cable.errors_ppm,
                ..Cable::new(a, b)
            });
            picture.links.push(self.link(&cable));
        }
        for (place, (node, state)) in (0u32..).zip(self.topology.nodes.iter().zip(&mut picture.nodes)) {
            let lid = |port| {
                let info = self.fabric.port_info(PortRef::new(place, port));
                info.map_or((0, 0), |info| (info.lid, info.lmc))
            };
            let lids = end_ports(node.kind, node.port_count()).map(lid).collect();
            *state = NodeState { powered: self.fabric.powered(place), lids };
        }
        picture
    }
}

/// Returns the ports of a node that have LIDs: a switch's port 0, all ports of any other node.
fn end_ports(kind: NodeKind, ports: u8) -> std::ops::RangeInclusive<u8> {
    if kind == NodeKind::Switch { 0..=0 } else { 1..=ports }
}
