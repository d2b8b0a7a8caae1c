//! A whole fabric: nodes in the order of discovery, with lookups by GUID and LID.

use std::collections::{BTreeMap, HashMap};

use super::{Chassis, Kind, Node, Port, PortRef};

/// The result of discovery, or the contents of a cache file.
///
/// Iterators go from the last node found to the first, as libibnetdisc's lists do, so that users can compare the
/// outputs of both tools.
#[derive(Clone, Debug, Default)]
pub struct Fabric {
    nodes: Vec<Node>,
    by_guid: HashMap<u64, usize>,
    by_lid: BTreeMap<u16, PortRef>,
    by_port_guid: HashMap<u64, PortRef>,
    /// Ports in the order in which their PortInfo came, with their GUIDs at that time.
    announced: Vec<(PortRef, u64)>,
    conflicts: Vec<(PortRef, PortRef)>,
    /// The node and port where discovery started.
    pub from: Option<PortRef>,
    /// Number of hops to the farthest node.
    pub max_hops: u32,
    /// Number of MADs that discovery sent.
    pub mads: u32,
    /// Chassis found by [`group`](super::chassis::group).
    pub chassis: Vec<Chassis>,
}

/// The first multicast LID.
const FIRST_MULTICAST_LID: u32 = 0xc000;

impl Fabric {
    /// Adds a node and returns its number.
    pub fn add(&mut self, node: Node) -> usize {
        let index = self.nodes.len();
        self.by_guid.insert(node.guid, index);
        self.nodes.push(node);
        index
    }

    /// The node with this index.
    pub fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    /// The node with this index, mutable.
    pub fn node_mut(&mut self, index: usize) -> &mut Node {
        &mut self.nodes[index]
    }

    /// The number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// All nodes with their indices, last found first.
    pub fn nodes(&self) -> impl Iterator<Item = (usize, &Node)> {
        self.nodes.iter().enumerate().rev()
    }

    /// All nodes of one type, last found first.
    pub fn nodes_of(&self, kind: Kind) -> impl Iterator<Item = (usize, &Node)> {
        self.nodes().filter(move |(_, node)| node.kind == kind)
    }

    /// All nodes, mutable.
    pub fn nodes_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.nodes.iter_mut().rev()
    }

    /// The node with this NodeGUID.
    pub fn find_node(&self, guid: u64) -> Option<usize> {
        self.by_guid.get(&guid).copied()
    }

    /// The port with this PortGUID; for a switch, whose ports share one, the last announced port.
    pub fn find_port(&self, guid: u64) -> Option<PortRef> {
        self.by_port_guid.get(&guid).copied()
    }

    /// The port with this LID; if several ports have it, the first announced one.
    pub fn find_lid(&self, lid: u16) -> Option<PortRef> {
        self.by_lid.get(&lid).copied()
    }

    /// The port at `at`.
    pub fn port(&self, at: PortRef) -> Option<&Port> {
        self.nodes.get(at.node)?.port(at.port)
    }

    /// The port at `at`, mutable.
    pub fn port_mut(&mut self, at: PortRef) -> Option<&mut Port> {
        self.nodes.get_mut(at.node)?.port_mut(at.port)
    }

    /// The other end of `port`'s cable, with its node.
    pub fn remote(&self, port: &Port) -> Option<(&Node, &Port)> {
        let at = port.remote?;
        let node = self.nodes.get(at.node)?;
        Some((node, node.port(at.port)?))
    }

    /// The LID that reaches the port: all ports of a switch share one LID.
    pub fn lid_of(node: &Node, port: &Port) -> u16 {
        if node.is_switch() { node.sma_lid } else { port.lid }
    }

    /// Enters a port into the lookups by GUID and by LID.
    pub fn announce(&mut self, at: PortRef) {
        let Some(port) = self.port(at) else { return };
        let (guid, lid, lids) = (port.guid, u32::from(port.lid), 1u32 << port.lmc.min(7));
        self.announced.push((at, guid));
        self.by_port_guid.insert(guid, at);
        if lid == 0 || lid >= FIRST_MULTICAST_LID {
            return;
        }
        for lid in lid..lid + lids {
            if let Ok(lid) = u16::try_from(lid) {
                self.by_lid.entry(lid).or_insert(at);
            }
        }
    }

    /// Ports in the order in which they were [announced](Self::announce), with their GUIDs at that time.
    pub fn announced(&self) -> &[(PortRef, u64)] {
        &self.announced
    }

    /// Pairs of ports with the same port as their remote end.
    pub fn conflicts(&self) -> &[(PortRef, PortRef)] {
        &self.conflicts
    }

    /// Connects two ports by a cable, and removes the former cable of each.
    pub fn link(&mut self, a: PortRef, b: PortRef) {
        let old = self.port(a).and_then(|port| port.remote).filter(|&old| old != b);
        self.conflicts.extend(old.map(|old| (old, b)));
        for at in [a, b] {
            let old = self.port_mut(at).and_then(|p| p.remote.take());
            if let Some(port) = old.and_then(|old| self.port_mut(old)) {
                port.remote = None;
            }
        }
        for (at, other) in [(a, b), (b, a)] {
            if let Some(port) = self.port_mut(at) {
                port.remote = Some(other);
            }
        }
    }
}
