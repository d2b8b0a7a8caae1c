//! Service behind the connections.

use std::net::SocketAddr;

use crate::export::Workers;

/// Service behind the connections.
#[derive(Debug)]
pub enum Service {
    /// An exported directory.
    Export(Workers),
    /// An NFS server over TCP.
    Backend(SocketAddr),
}
