//! Attributes of a node on the path, and of the port that reached it.

use crate::ib::smp::{self, Data};

/// Names of node types.
const KINDS: &[&str] = &["???", "ca", "switch", "router"];
/// PortState of a link in use.
const ACTIVE: u64 = 4;
/// A node, and the port that reached it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Node GUID.
    pub guid: u64,
    /// NodeType.
    pub node_type: u64,
    /// Number of ports.
    pub ports: u32,
    /// NodeDescription.
    pub desc: Data,
    /// The port's GUID.
    pub port_guid: u64,
    /// The port's number.
    pub number: u8,
    /// The port's LID.
    pub lid: u16,
    /// The port's LMC.
    pub lmc: u8,
    /// The port's PortState.
    pub state: u64,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen {
            guid: 0,
            node_type: 0,
            ports: 0,
            desc: [0; smp::DATA_LEN],
            port_guid: 0,
            number: 0,
            lid: 0,
            lmc: 0,
            state: 0,
        }
    }
}

/// A switch's forwarding entry for a LID.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lookup {
    /// The egress port; `None` if the switch does not answer.
    pub out: Option<u8>,
    /// The last LID of the table (LinearFDBTop).
    pub top: u64,
    /// Whether port 0 is an enhanced one, which has a port state.
    pub has_enhanced_port0: bool,
}

impl Seen {
    /// Whether it is a switch.
    pub fn is_switch(&self) -> bool {
        self.node_type == smp::TYPE_SWITCH
    }

    /// The name of its type.
    pub fn kind(&self) -> &'static str {
        KINDS.get(self.node_type as usize).copied().unwrap_or(KINDS[0])
    }

    /// The port's first and last LID.
    pub fn lids(&self) -> (u32, u32) {
        let first = u32::from(self.lid);
        (first, first + (1 << self.lmc) - 1)
    }

    /// Whether the port carries no traffic. Base port 0 of a switch has no state.
    pub fn is_inactive(&self, lookup: &Lookup) -> bool {
        self.state != ACTIVE && (!self.is_switch() || lookup.has_enhanced_port0)
    }
}
