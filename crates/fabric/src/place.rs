//! Where something is in a fabric.

use crate::topology::End;
use std::fmt;

/// A port of a running fabric: a node by its place in [`crate::topology::Topology::nodes`], and a port number; 0 is a
/// switch's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRef {
    /// Place of the node.
    pub node: u32,
    /// Port number.
    pub port: u8,
}

impl PortRef {
    /// Port `port` of node `node`.
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
