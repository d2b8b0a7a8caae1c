//! Adapters and their ports, as a source reports them.

use libc::c_int;

/// Node type of a switch.
pub(crate) const NODE_TYPE_SWITCH: u32 = 2;

/// In a capability mask: no subnet management through this port (IBA 14.2.5.6, IsSMdisabled).
const CAPABILITY_SM_DISABLED: u32 = 0x400;

/// An adapter.
pub(crate) struct Ca {
    pub(crate) name: Vec<u8>,
    pub(crate) node_type: u32,
    pub(crate) fw_ver: Vec<u8>,
    pub(crate) hw_ver: Vec<u8>,
    pub(crate) ca_type: Vec<u8>,
    pub(crate) node_guid: u64,
    pub(crate) system_guid: u64,
    /// Ports by number, ascending.
    pub(crate) ports: Vec<Port>,
}

/// A port of an adapter.
pub(crate) struct Port {
    pub(crate) number: u8,
    pub(crate) lid: u32,
    pub(crate) lmc: u32,
    pub(crate) sm_lid: u32,
    pub(crate) sm_sl: u32,
    pub(crate) state: u32,
    pub(crate) phys_state: u32,
    /// Gb/s, rounded down.
    pub(crate) rate: u32,
    pub(crate) capabilities: u32,
    pub(crate) gid_prefix: u64,
    pub(crate) guid: u64,
    pub(crate) pkeys: Vec<u16>,
    pub(crate) link_layer: Vec<u8>,
}

impl Ca {
    /// Returns the port with this number.
    pub(crate) fn port(&self, number: c_int) -> Option<&Port> {
        self.ports.iter().find(|port| c_int::from(port.number) == number)
    }

    /// Returns the highest port number.
    pub(crate) fn port_count(&self) -> u8 {
        self.ports.last().map_or(0, |port| port.number)
    }
}

impl Port {
    /// Whether this port carries subnet management.
    pub(crate) fn has_smi(&self) -> bool {
        self.capabilities & CAPABILITY_SM_DISABLED == 0
    }

    /// Whether the link is InfiniBand; old kernels do not report the link type, and support no other.
    pub(crate) fn is_infiniband(&self) -> bool {
        matches!(self.link_layer.as_slice(), b"InfiniBand" | b"IB")
    }
}
