//! Traps that wait: to be sent, or to be repressed.

use weft_verbs::Instant;
use weft_wire::mad::notice::{Notice, TrapNumber};
use weft_wire::mad::subn::SmpData;

/// A trap to send as soon as the handling of its cause is finished.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raised {
    /// The port whose agent sends it.
    pub agent: u32,
    /// Number of the trap, and port of the node.
    pub key: (TrapNumber, u8),
    pub notice: Notice,
}

/// The traps of a node that the manager has not repressed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traps {
    pub pending: Vec<Pending>,
    pub timer: Option<Instant>,
}

/// A trap that the manager has not repressed.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub agent: u32,
    pub key: (TrapNumber, u8),
    pub tid: u64,
    pub data: SmpData,
    pub tries: u8,
    pub at: Instant,
}
