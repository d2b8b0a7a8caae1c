//! How a fabric stands at one moment, over its description: what files cannot say, and people ask for.

use serde::{Deserialize, Serialize};

use super::net::Lids;
use super::{End, NodeKind, Topology};

/// A fabric that is up, as it was when somebody asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// What it was made from, with cables as they are limited now.
    pub topology: Topology,
    /// For each cable in order, what its link does.
    pub links: Vec<LinkState>,
    /// For each node in order, what it does.
    pub nodes: Vec<NodeState>,
}

/// A link: the lower state of its two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LinkState {
    /// The cable is pulled.
    Cut,
    /// No link: a node without power, a port disabled, training.
    Down,
    /// Trained, and not managed.
    Init,
    /// Managed, and not yet for data.
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
    /// Every state, in the order in which a table of them reads.
    pub const ALL: [LinkState; 5] =
        [LinkState::Active, LinkState::Armed, LinkState::Init, LinkState::Down, LinkState::Cut];

    /// One word for it.
    pub const fn word(self) -> &'static str {
        match self {
            LinkState::Cut => "cut",
            LinkState::Down => "down",
            LinkState::Init => "init",
            LinkState::Armed => "armed",
            LinkState::Active => "active",
        }
    }

    /// Whether something passes.
    pub const fn is_up(self) -> bool {
        matches!(self, LinkState::Init | LinkState::Armed | LinkState::Active)
    }
}

impl Picture {
    /// A description that is not up: every link as it would train, no LIDs.
    pub fn of(topology: Topology) -> Picture {
        let links = vec![LinkState::Init; topology.cables.len()];
        let nodes = topology.nodes.iter().map(|_| NodeState { powered: true, lids: Vec::new() }).collect();
        Picture { topology, links, nodes }
    }

    /// What a cable's link does.
    pub fn link(&self, cable: u32) -> LinkState {
        self.links.get(cable as usize).copied().unwrap_or(LinkState::Down)
    }

    /// Whether a daemon may have told it.
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
