//! Positions in a fabric.

use crate::topology::End;
use std::fmt;

/// A port of a running fabric: the index of its node in [`crate::topology::Topology::nodes`], and a port number; 0 is
/// the switch's own port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRef {
    /// Index of the node.
    pub node: u32,
    /// Port number.
    pub port: u8,
}

impl PortRef {
    /// Returns port `port` of node `node`.
    pub const fn new(node: u32, port: u8) -> PortRef {
        PortRef { node, port }
    }
}

impl From<End> for PortRef {
    fn from(end: End) -> PortRef {
        PortRef { node: end.node, port: end.port }
    }
}

impl fmt::Display for PortRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} port {}", self.node, self.port)
    }
}
