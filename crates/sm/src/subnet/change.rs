//! Changes to the subnet model: nodes come and go, cables are found and lost, routes are recomputed.

use std::collections::VecDeque;

use weft_wire::mad::subn::{HOPS_MAX, NodeDescription, NodeInfo, NodeType, PortState};

use super::{Node, NodeIx, Port, PortIx, Route, Subnet, SwitchState};

/// Nodes of a subnet: more than there are LIDs for.
pub const NODES_MAX: usize = 1 << 16;

impl Subnet {
    /// Inserts a new node, with its ports not read yet; `None` if the subnet has too many nodes.
    pub(crate) fn insert(&mut self, info: NodeInfo, route: Route) -> Option<NodeIx> {
        let holes = self.by_guid.len() < self.nodes.len();
        let hole = if holes { self.nodes.iter().position(Option::is_none) } else { None };
        let place = hole.unwrap_or(self.nodes.len());
        if place >= NODES_MAX {
            return None;
        }
        let node = NodeIx(place as u32);
        let switch = (info.node_type == NodeType::SWITCH).then(SwitchState::default);
        let ports = vec![Port::default(); usize::from(info.num_ports) + 1];
        let found = Some(Node { info, description: NodeDescription::default(), ports, switch, route });
        match self.nodes.get_mut(place) {
            Some(free) => *free = found,
            None => self.nodes.push(found),
        }
        self.by_guid.insert(info.node_guid, node);
        Some(node)
    }

    /// Records the GUID of an end port; `false` if another port has it.
    pub(crate) fn name_port(&mut self, at: PortIx, guid: u64) -> bool {
        match self.by_port_guid.get(&guid) {
            Some(other) if *other != at => return false,
            Some(_) => return true,
            None => {}
        }
        let Some(port) = self.port_mut(at) else { return false };
        let before = std::mem::replace(&mut port.guid, guid);
        if before != 0 {
            self.by_port_guid.remove(&before);
        }
        self.by_port_guid.insert(guid, at);
        true
    }

    /// Removes a node and every reference to it.
    pub(crate) fn remove(&mut self, at: NodeIx) -> Option<Node> {
        let ports = self.node(at)?.ports.len();
        for port in 0..ports {
            self.unlink(PortIx { node: at, port: port as u8 });
        }
        let node = self.nodes.get_mut(at.0 as usize)?.take()?;
        self.by_guid.remove(&node.info.node_guid);
        for port in node.ports.iter().filter(|port| port.guid != 0) {
            self.by_port_guid.remove(&port.guid);
            for lid in lids(port.lid, port.lmc) {
                self.by_lid.remove(&lid);
            }
        }
        Some(node)
    }

    /// Returns the node at an index.
    pub(crate) fn node_mut(&mut self, node: NodeIx) -> Option<&mut Node> {
        self.nodes.get_mut(node.0 as usize)?.as_mut()
    }

    /// Returns the port at an index.
    pub(crate) fn port_mut(&mut self, at: PortIx) -> Option<&mut Port> {
        self.node_mut(at.node)?.ports.get_mut(usize::from(at.port))
    }

    /// Joins two ports with a cable, and parts each from its former neighbor.
    pub(crate) fn link(&mut self, a: PortIx, b: PortIx) {
        if self.port(a).is_some_and(|port| port.neighbor == Some(b)) {
            return;
        }
        self.unlink(a);
        self.unlink(b);
        for (one, other) in [(a, b), (b, a)] {
            if let Some(port) = self.port_mut(one) {
                port.neighbor = Some(other);
            }
        }
    }

    /// Removes the cable at a port; returns the port that it led to.
    pub(crate) fn unlink(&mut self, at: PortIx) -> Option<PortIx> {
        let other = self.port_mut(at)?.neighbor.take()?;
        if let Some(port) = self.port_mut(other).filter(|port| port.neighbor == Some(at)) {
            port.neighbor = None;
        }
        Some(other)
    }

    /// Recomputes the shortest routes from the manager's port; returns the nodes that no route reaches.
    pub(crate) fn find_ways(&mut self) -> Vec<NodeIx> {
        let mut reached = vec![false; self.nodes.len()];
        let mut border = VecDeque::new();
        if let Some(own) = self.own {
            reached[own.node.0 as usize] = true;
            border.push_back(own.node);
            if let Some(node) = self.node_mut(own.node) {
                node.route = Route::new();
            }
        }
        while let Some(at) = border.pop_front() {
            for (port, next) in self.onward(at) {
                if std::mem::replace(&mut reached[next.0 as usize], true) {
                    continue;
                }
                let mut route = self.node(at).map(|node| node.route.clone()).unwrap_or_default();
                route.push(port);
                if let Some(node) = self.node_mut(next) {
                    node.route = route;
                }
                border.push_back(next);
            }
        }
        let lost = self.nodes().filter(|(place, _)| !reached[place.0 as usize]);
        lost.map(|(place, _)| place).collect()
    }

    /// Returns the neighbors to which a route may go on from a node, each with the port that leads there.
    fn onward(&self, at: NodeIx) -> Vec<(u8, NodeIx)> {
        let Some(node) = self.node(at) else { return Vec::new() };
        let own = self.own.filter(|own| own.node == at);
        if node.route.len() + 1 > usize::from(HOPS_MAX) || node.switch.is_none() && own.is_none() {
            return Vec::new();
        }
        let ports = (0..=u8::MAX).zip(&node.ports).skip(1);
        let mine = |port: u8| node.switch.is_some() || own.is_some_and(|own| own.port == port);
        ports.filter(|(port, _)| mine(*port)).filter_map(|(port, state)| Some((port, state.neighbor?.node))).collect()
    }

    /// Writes the directed route to a port's SMA into `path`, from entry 1 on, and returns the number of hops. Each
    /// port of an adapter has an SMA of its own: the other ports of the manager's adapter are reached over their
    /// cables, or not at all.
    pub(crate) fn write_route(&self, at: PortIx, path: &mut [u8; 64]) -> Option<u8> {
        let node = self.node(at.node)?;
        let own = self.own?;
        if node.switch.is_some() || own == at {
            return copy(&node.route, path);
        }
        let Some(neighbor) = node.ports.get(usize::from(at.port)).and_then(|port| port.neighbor) else {
            return if own.node == at.node { None } else { copy(&node.route, path) };
        };
        let hops = copy(&self.node(neighbor.node)?.route, path)? + 1;
        *path.get_mut(usize::from(hops))? = neighbor.port;
        Some(hops)
    }

    /// Whether a port's cable joins two switches.
    pub(crate) fn between_switches(&self, at: PortIx) -> bool {
        let is_switch = |node: NodeIx| self.node(node).is_some_and(|node| node.switch.is_some());
        is_switch(at.node)
            && self.port(at).and_then(|port| port.neighbor).is_some_and(|neighbor| is_switch(neighbor.node))
    }

    /// Whether the link at a port is up.
    pub(crate) fn is_up(&self, at: PortIx) -> bool {
        self.port(at).is_some_and(|port| port.info.port_state >= PortState::INIT)
    }

    /// Describes a port for people: the node's name and GUID, and the port number.
    pub(crate) fn call(&self, at: PortIx) -> String {
        match self.node(at.node) {
            Some(node) => match (self.name(node), node.info.node_guid) {
                (name, guid) if name.is_empty() => format!("GUID 0x{guid:016x} port {}", at.port),
                (name, guid) => format!("{name} (GUID 0x{guid:016x}) port {}", at.port),
            },
            None => format!("port {}", at.port),
        }
    }
}

fn copy(route: &Route, path: &mut [u8; 64]) -> Option<u8> {
    path.get_mut(1..=route.len())?.copy_from_slice(route);
    Some(route.len() as u8)
}

/// Returns the LIDs of a port.
pub(crate) fn lids(lid: u16, lmc: u8) -> std::ops::Range<u16> {
    if lid == 0 { 0..0 } else { lid..lid.saturating_add(1 << (lmc & 7)) }
}
