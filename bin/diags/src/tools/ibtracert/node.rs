//! Attributes of a node on the path, and of the port that reached it.

use super::Session;
use crate::ib::address::PortId;
use crate::ib::fields::subn::{node_info, port_info, switch_info};
use crate::ib::port::MadError;
use crate::ib::smp::{self, Data};

/// Names of node types.
const KINDS: &[&str] = &["???", "ca", "switch", "router"];
/// PortState of a link in use.
const ACTIVE: u64 = 4;
/// Number of entries in a block of a linear forwarding table.
const ENTRIES_IN_BLOCK: u16 = 64;

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

impl Session<'_> {
    /// The timeout for an answer; 0 means the default.
    pub fn timeout_ms(&self) -> u32 {
        self.line.common.timeout_ms.unwrap_or(0)
    }

    /// Queries the node at `to`.
    pub fn see(&mut self, to: &PortId) -> Result<Seen, MadError> {
        let timeout_ms = self.timeout_ms();
        let mut ask = |attribute| self.port.smp_get_within(to, attribute, 0, timeout_ms);
        let node = ask(smp::NODE_INFO)?;
        let desc = ask(smp::NODE_DESC)?;
        let info = ask(smp::PORT_INFO)?;
        Ok(Seen {
            guid: node_info::GUID.value(&node),
            node_type: node_info::NODE_TYPE.value(&node),
            ports: node_info::NUM_PORTS.value(&node) as u32,
            desc,
            port_guid: node_info::PORT_GUID.value(&node),
            number: node_info::LOCAL_PORT.value(&node) as u8,
            lid: port_info::LID.value(&info) as u16,
            lmc: port_info::LMC.value(&info) as u8,
            state: port_info::LINK_STATE.value(&info),
        })
    }

    /// Queries the forwarding entry for `lid` of the switch at `to`.
    pub fn look_up(&mut self, to: &PortId, lid: u16) -> Lookup {
        let timeout_ms = self.timeout_ms();
        let Ok(info) = self.port.smp_get_within(to, smp::SWITCH_INFO, 0, timeout_ms) else {
            return Lookup::default();
        };
        let top = switch_info::LINEAR_FDB_TOP.value(&info);
        let has_enhanced_port0 = switch_info::ENHANCED_PORT0.value(&info) != 0;
        let lookup = Lookup { out: None, top, has_enhanced_port0 };
        if u64::from(lid) >= switch_info::LINEAR_FDB_CAP.value(&info) && u64::from(lid) > top {
            return lookup;
        }
        let block = u32::from(lid / ENTRIES_IN_BLOCK);
        let table = self.port.smp_get_within(to, smp::LINEAR_FORWARDING, block, timeout_ms);
        Lookup { out: table.ok().map(|table| table[usize::from(lid % ENTRIES_IN_BLOCK)]), ..lookup }
    }
}
