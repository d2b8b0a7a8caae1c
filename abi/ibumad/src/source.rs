//! Sources of adapters: the kernel, or the daemon for programs of a virtual host. Each reports the adapters and the
//! current state of their ports.

use libc::c_int;

use crate::{kernel, virtual_host};

/// Directory of the device nodes.
pub(crate) const NODES: &str = "/dev/infiniband";

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

/// Returns the names of the adapters, in the system's order.
pub(crate) fn ca_names() -> Result<Vec<Vec<u8>>, c_int> {
    if virtual_host::is_ours() { virtual_host::ca_names() } else { kernel::ca_names() }
}

/// Returns the adapter with this name.
pub(crate) fn ca(name: &[u8]) -> Result<Ca, c_int> {
    if virtual_host::is_ours() { virtual_host::ca(name) } else { kernel::ca(name) }
}

/// Returns a port; EIO if it cannot be read in full.
pub(crate) fn port(ca: &[u8], number: u8) -> Result<Port, c_int> {
    if virtual_host::is_ours() { virtual_host::port(ca, number) } else { kernel::port(ca, number) }
}

/// Returns the number N of `/dev/infiniband/umadN` for a port.
pub(crate) fn node_number(ca: &[u8], port: c_int) -> Option<usize> {
    if virtual_host::is_ours() { virtual_host::node_number(ca, port) } else { kernel::node_number(ca, port) }
}
