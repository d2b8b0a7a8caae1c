//! A whole fabric: nodes in the order in which they were found, and the ways to find one again.

use std::collections::{BTreeMap, HashMap};

use super::{Chassis, Kind, Node, Port, PortRef};

/// What discovery or a cache file gives.
///
/// Lists go from what was found last to what was found first, as libibnetdisc's do: whoever compares outputs of two
/// tools wants the same order.
#[derive(Clone, Debug, Default)]
pub struct Fabric {
    nodes: Vec<Node>,
    by_guid: HashMap<u64, usize>,
    by_lid: BTreeMap<u16, PortRef>,
    by_port_guid: HashMap<u64, PortRef>,
    /// Ports in the order in which their PortInfo came, with the GUIDs that they had then.
    announced: Vec<(PortRef, u64)>,
    conflicts: Vec<(PortRef, PortRef)>,
    /// The node from which discovery started, and the port.
    pub from: Option<PortRef>,
    /// How many hops away the farthest node is.
    pub max_hops: u32,
    /// How many MADs discovery sent.
    pub mads: u32,
    /// Chassis found by [`group`](super::chassis::group).
    pub chassis: Vec<Chassis>,
}

/// LIDs from here on are multicast groups'.
const FIRST_MULTICAST_LID: u32 = 0xc000;

impl Fabric {
    /// Adds a node and returns its number.
    pub fn add(&mut self, node: Node) -> usize {
        let index = self.nodes.len();
        self.by_guid.insert(node.guid, index);
        self.nodes.push(node);
        index
    }

    /// The node of that number.
    pub fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    /// The node of that number, to change it.
    pub fn node_mut(&mut self, index: usize) -> &mut Node {
        &mut self.nodes[index]
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// All nodes with their numbers, those found last first.
    pub fn nodes(&self) -> impl Iterator<Item = (usize, &Node)> {
        self.nodes.iter().enumerate().rev()
    }

    /// All nodes of a kind, those found last first.
    pub fn nodes_of(&self, kind: Kind) -> impl Iterator<Item = (usize, &Node)> {
        self.nodes().filter(move |(_, node)| node.kind == kind)
    }

    /// All nodes, to change them.
    pub fn nodes_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.nodes.iter_mut().rev()
    }

    /// The node that has this NodeGUID.
    pub fn find_node(&self, guid: u64) -> Option<usize> {
        self.by_guid.get(&guid).copied()
    }

    /// The port that has this PortGUID; of a switch's, the one heard of last.
    pub fn find_port(&self, guid: u64) -> Option<PortRef> {
        self.by_port_guid.get(&guid).copied()
    }

    /// The port that has this LID; where several say so, the one heard of first.
    pub fn find_lid(&self, lid: u16) -> Option<PortRef> {
        self.by_lid.get(&lid).copied()
    }

    /// The port at `at`.
    pub fn port(&self, at: PortRef) -> Option<&Port> {
        self.nodes.get(at.node)?.port(at.port)
    }

    /// The port at `at`, to change it.
    pub fn port_mut(&mut self, at: PortRef) -> Option<&mut Port> {
        self.nodes.get_mut(at.node)?.port_mut(at.port)
    }

    /// The other end of `port`'s cable, with its node.
    pub fn remote(&self, port: &Port) -> Option<(&Node, &Port)> {
        let at = port.remote?;
        let node = self.nodes.get(at.node)?;
        Some((node, node.port(at.port)?))
    }

    /// The LID by which a port's node is reached: a switch has one for all its ports.
    pub fn lid_of(node: &Node, port: &Port) -> u16 {
        if node.is_switch() { node.sma_lid } else { port.lid }
    }

    /// Makes a port findable by its GUID and its LIDs.
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

    /// Ports in the order in which they were [announced](Self::announce).
    /// With the GUIDs that they had then.
    pub fn announced(&self) -> &[(PortRef, u64)] {
        &self.announced
    }

    /// Pairs of ports behind which one and the same port answered.
    pub fn conflicts(&self) -> &[(PortRef, PortRef)] {
        &self.conflicts
    }

    /// Joins two ports by a cable, and cuts the cables that either had.
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
