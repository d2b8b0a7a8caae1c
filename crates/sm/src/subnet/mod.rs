//! The subnet as the manager knows it: what discovery found, and what the manager set.

pub(crate) mod change;
pub mod lids;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use weft_wire::mad::subn::{NodeDescription, NodeInfo, PortInfo, SwitchInfo};

/// Index of a node in [`Subnet::nodes`]. Indexes of nodes that left are used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeIx(pub u32);

/// A port of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PortIx {
    /// The node.
    pub node: NodeIx,
    /// Port number; 0 is the management port of a switch.
    pub port: u8,
}

/// A directed route: the egress ports, beginning with the manager's own.
pub type Route = SmallVec<[u8; 16]>;

/// Model of a subnet.
#[derive(Clone, Debug, Default)]
pub struct Subnet {
    /// Every node that answered.
    pub nodes: Vec<Option<Node>>,
    /// Nodes by their GUIDs.
    pub by_guid: BTreeMap<u64, NodeIx>,
    /// End ports (of adapters and routers, and switches' port 0) by their GUIDs.
    pub by_port_guid: BTreeMap<u64, PortIx>,
    /// Port of each LID; a port with an LMC has several.
    pub by_lid: FxHashMap<u16, PortIx>,
    /// The manager's own port.
    pub own: Option<PortIx>,
    /// Administrator-given names by node GUID, which replace the nodes' own.
    pub names: Arc<BTreeMap<u64, String>>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its NodeInfo.
    pub info: NodeInfo,
    /// Its NodeDescription.
    pub description: NodeDescription,
    /// By port number; entry 0 is a switch's port 0, and unused otherwise.
    pub ports: Vec<Port>,
    /// State of a switch.
    pub switch: Option<SwitchState>,
    /// A directed route to it.
    pub route: Route,
}

/// State that only switches have.
#[derive(Clone, Debug, Default)]
pub struct SwitchState {
    /// Its SwitchInfo.
    pub info: SwitchInfo,
    /// The forwarding table that the switch is known to have, by LID.
    pub lft: Vec<u8>,
    /// The multicast table that the switch is known to have: ports as bits, by MLID from 0xC000.
    pub mft: BTreeMap<u16, [u64; 4]>,
}

/// A port.
#[derive(Clone, Debug, Default)]
pub struct Port {
    /// Its PortInfo.
    pub info: PortInfo,
    /// PortGUID, of end ports.
    pub guid: u64,
    /// Base LID assigned to it, for end ports; 0: none yet.
    pub lid: u16,
    /// The port gets `1 << lmc` LIDs.
    pub lmc: u8,
    /// The port at the other end of the cable.
    pub neighbor: Option<PortIx>,
    /// P_Keys that it is known to have.
    pub pkeys: Vec<u16>,
    /// Its GUID table (GUIDInfo); entry 0 is the port's own GUID.
    pub guids: Vec<u64>,
}

impl Subnet {
    /// Returns the node at an index.
    pub fn node(&self, node: NodeIx) -> Option<&Node> {
        self.nodes.get(node.0 as usize)?.as_ref()
    }

    /// Returns the display name of a node.
    pub fn name<'a>(&'a self, node: &'a Node) -> Cow<'a, str> {
        let given = self.names.get(&node.info.node_guid);
        given.map_or_else(|| node.description.text(), |name| Cow::Borrowed(name))
    }

    /// Returns the port at an index.
    pub fn port(&self, port: PortIx) -> Option<&Port> {
        self.node(port.node)?.ports.get(usize::from(port.port))
    }

    /// Yields every node with its index, in order.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeIx, &Node)> {
        (0u32..).zip(&self.nodes).filter_map(|(place, node)| Some((NodeIx(place), node.as_ref()?)))
    }

    /// Yields every end port, in order of PortGUID.
    pub fn end_ports(&self) -> impl Iterator<Item = (PortIx, &Node, &Port)> {
        self.by_port_guid.values().filter_map(|at| {
            let node = self.node(at.node)?;
            Some((*at, node, node.ports.get(usize::from(at.port))?))
        })
    }

    /// Returns the port with a LID.
    pub fn at_lid(&self, lid: u16) -> Option<PortIx> {
        self.by_lid.get(&lid).copied()
    }
}
