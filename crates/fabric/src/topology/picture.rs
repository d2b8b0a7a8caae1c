//! Snapshot of a running fabric: the description together with the state of links and nodes.

use serde::{Deserialize, Serialize};

use super::net::Lids;
use super::{End, NodeKind, Topology};

/// Snapshot of a fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Its description, with the present limits of cables.
    pub topology: Topology,
    /// State of each cable's link, in order.
    pub links: Vec<LinkState>,
    /// State of each node, in order.
    pub nodes: Vec<NodeState>,
}

/// A link: the lower state of its two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LinkState {
    /// The cable is unplugged.
    Cut,
    /// No link: a node without power, a port disabled, or training.
    Down,
    /// Trained, not yet configured by a manager.
    Init,
    /// Configured, not yet open for data.
    Armed,
    /// Carries data.
    Active,
}

/// A node: power, and its LIDs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    /// Whether it has power.
    pub powered: bool,
    /// LID and LMC: of a switch those of its port 0, of others those of each port in order.
    pub lids: Vec<(u16, u8)>,
}

impl LinkState {
    /// Every state, in the order for tables.
    pub const ALL: [LinkState; 5] =
        [LinkState::Active, LinkState::Armed, LinkState::Init, LinkState::Down, LinkState::Cut];

    /// Returns one word for it.
    pub const fn word(self) -> &'static str {
        match self {
            LinkState::Cut => "cut",
            LinkState::Down => "down",
            LinkState::Init => "init",
            LinkState::Armed => "armed",
            LinkState::Active => "active",
        }
    }

    /// Returns whether packets can pass.
    pub const fn is_up(self) -> bool {
        matches!(self, LinkState::Init | LinkState::Armed | LinkState::Active)
    }
}

impl Picture {
    /// Makes a snapshot of a fabric that is not running: every link as it would train, no LIDs.
    pub fn of(topology: Topology) -> Picture {
        let links = vec![LinkState::Init; topology.cables.len()];
        let nodes = topology.nodes.iter().map(|_| NodeState { powered: true, lids: Vec::new() }).collect();
        Picture { topology, links, nodes }
    }

    /// Returns the state of a cable's link.
    pub fn link(&self, cable: u32) -> LinkState {
        self.links.get(cable as usize).copied().unwrap_or(LinkState::Down)
    }

    /// Returns whether the snapshot is consistent, as a daemon's must be.
    pub fn is_sane(&self) -> bool {
        self.links.len() == self.topology.cables.len()
            && self.nodes.len() == self.topology.nodes.len()
            && self.topology.check().is_ok()
    }
}

impl Lids for Picture {
    fn lid(&self, end: End) -> (u16, u8) {
        let is_switch = self.topology.node(end).is_some_and(|node| node.kind == NodeKind::Switch);
        let place = if is_switch { 0 } else { usize::from(end.port).wrapping_sub(1) };
        self.nodes.get(end.node as usize).and_then(|node| node.lids.get(place)).copied().unwrap_or((0, 0))
    }

    fn is_up(&self, cable: u32) -> bool {
        self.link(cable).is_up()
    }
}
