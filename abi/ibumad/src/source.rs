//! Sources of adapters: the kernel, or the daemon for programs of a virtual host. Each reports the adapters and the
//! current state of their ports.

use libc::c_int;

use crate::adapter::{Ca, Port};
use crate::{kernel, virtual_host};

/// Directory of the device nodes.
pub(crate) const NODES: &str = "/dev/infiniband";

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
