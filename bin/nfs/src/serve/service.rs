//! Service behind the connections.

use std::net::SocketAddr;

use crate::export::CallWorkers;

/// Service behind the connections.
#[derive(Debug)]
pub enum Service {
    /// An exported directory.
    Export(CallWorkers),
    /// An NFS server over TCP.
    Backend(SocketAddr),
}
