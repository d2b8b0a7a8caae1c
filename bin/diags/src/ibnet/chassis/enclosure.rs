//! An enclosure and its boards.

use crate::ibnet::Port;

/// Voltaire's vendor ID.
pub(super) const VOLTAIRE: u32 = 0x8f1;

/// Maximum number of spine boards in a chassis.
pub const SPINES_MAX: usize = 18;
/// Maximum number of line boards in a chassis.
pub const LINES_MAX: usize = 36;

/// Several nodes in one enclosure.
#[derive(Clone, Debug)]
pub struct Chassis {
    /// Its GUID.
    pub guid: u64,
    /// Its number, from 1; 0 for a single node, which does not count as a chassis.
    pub num: u32,
    /// Nodes that are not boards, in the order of discovery.
    pub nodes: Vec<usize>,
    /// Spine boards by their number.
    pub spines: [Option<usize>; SPINES_MAX + 1],
    /// Line boards by their number.
    pub lines: [Option<usize>; LINES_MAX + 1],
    pub(super) count: usize,
}

impl Chassis {
    pub(super) fn new(guid: u64) -> Chassis {
        Chassis {
            guid,
            num: 0,
            nodes: Vec::new(),
            spines: [None; SPINES_MAX + 1],
            lines: [None; LINES_MAX + 1],
            count: 0,
        }
    }
}

/// Sets the port number printed on the chassis.
pub(super) fn set_external(port: Option<&mut Port>, num: u8) {
    if let Some(port) = port {
        port.external = num;
    }
}
