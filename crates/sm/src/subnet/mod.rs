//! The subnet as the manager knows it: what discovery found, and what was set.

pub(crate) mod change;
pub mod lids;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use weft_wire::mad::subn::{NodeDescription, NodeInfo, PortInfo, SwitchInfo};

/// A node by its place in [`Subnet::nodes`]. Places of nodes that are gone are used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeIx(pub u32);

/// A port of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PortIx {
    /// The node.
    pub node: NodeIx,
    /// Port number; 0 is a switch's own.
    pub port: u8,
}

/// A directed route: the ports of the way out, first this manager's own.
pub type Route = SmallVec<[u8; 16]>;

/// What is known of a fabric.
#[derive(Clone, Debug, Default)]
pub struct Subnet {
    /// Every node that answered.
    pub nodes: Vec<Option<Node>>,
    /// Nodes by their GUIDs.
    pub by_guid: BTreeMap<u64, NodeIx>,
    /// End ports (of adapters and routers, and switches' port 0) by their GUIDs.
    pub by_port_guid: BTreeMap<u64, PortIx>,
    /// Who has a LID: every LID of a port with an LMC.
    pub by_lid: FxHashMap<u16, PortIx>,
    /// The manager's own port.
    pub own: Option<PortIx>,
    /// Names of nodes by GUID, in place of those that they have themselves.
    pub names: Arc<BTreeMap<u64, String>>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it says of itself.
    pub info: NodeInfo,
    /// Its name.
    pub description: NodeDescription,
    /// By port number; entry 0 is a switch's port 0, and unused otherwise.
    pub ports: Vec<Port>,
    /// Of a switch.
    pub switch: Option<SwitchState>,
    /// A way to it.
    pub route: Route,
}

/// What a switch has beyond other nodes.
#[derive(Clone, Debug, Default)]
pub struct SwitchState {
    /// What it can and does.
    pub info: SwitchInfo,
    /// The forwarding table that it is known to have, by LID.
    pub lft: Vec<u8>,
    /// The multicast table that it is known to have: ports as bits, by MLID from 0xC000.
    pub mft: BTreeMap<u16, [u64; 4]>,
}

/// A port.
#[derive(Clone, Debug, Default)]
pub struct Port {
    /// What it is and does.
    pub info: PortInfo,
    /// PortGUID, of end ports.
    pub guid: u64,
    /// Base LID that it is given, of end ports; 0: none yet.
    pub lid: u16,
    /// It is given `1 << lmc` LIDs.
    pub lmc: u8,
    /// The port at the other end of the cable.
    pub neighbor: Option<PortIx>,
    /// Its P_Keys as they are known to be set.
    pub pkeys: Vec<u16>,
    /// Its further GUIDs (GUIDInfo), entry 0 being the port's own.
    pub guids: Vec<u64>,
}

impl Subnet {
    /// The node at a place.
    pub fn node(&self, node: NodeIx) -> Option<&Node> {
        self.nodes.get(node.0 as usize)?.as_ref()
    }

    /// What people call a node.
    pub fn name<'a>(&'a self, node: &'a Node) -> Cow<'a, str> {
        let given = self.names.get(&node.info.node_guid);
        given.map_or_else(|| node.description.text(), |name| Cow::Borrowed(name))
    }

    /// The port at a place.
    pub fn port(&self, port: PortIx) -> Option<&Port> {
        self.node(port.node)?.ports.get(usize::from(port.port))
    }

    /// Every node with its place, in the order of places.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeIx, &Node)> {
        (0u32..).zip(&self.nodes).filter_map(|(place, node)| Some((NodeIx(place), node.as_ref()?)))
    }

    /// Every end port, in the order of PortGUIDs.
    pub fn end_ports(&self) -> impl Iterator<Item = (PortIx, &Node, &Port)> {
        self.by_port_guid.values().filter_map(|at| {
            let node = self.node(at.node)?;
            Some((*at, node, node.ports.get(usize::from(at.port))?))
        })
    }

    /// Who has a LID.
    pub fn at_lid(&self, lid: u16) -> Option<PortIx> {
        self.by_lid.get(&lid).copied()
    }
}
