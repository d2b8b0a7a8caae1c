//! Memory window.

use weft_verbs::{Access, MrId, PdId, Qpn};

/// The range that a window is bound to.
#[derive(Clone, Debug)]
pub(super) struct Binding {
    pub(super) mr: MrId,
    /// First host address.
    pub(super) host: u64,
    /// First address as peers name it.
    pub(super) base: u64,
    pub(super) len: u64,
    pub(super) access: Access,
    /// The queue pair that a type 2 window belongs to.
    pub(super) qpn: Option<Qpn>,
}

/// A memory window.
#[derive(Debug)]
pub(crate) struct Mw {
    pub(crate) pd: PdId,
    pub(crate) rkey: u32,
    pub(super) type2: bool,
    /// The last key issued for a bind that has not happened yet (type 1).
    pub(super) promised: u32,
    pub(super) binding: Option<Binding>,
}

impl Mw {
    /// Returns an unbound window.
    pub(crate) fn new(pd: PdId, rkey: u32, type2: bool) -> Mw {
        Mw { pd, rkey, type2, promised: rkey, binding: None }
    }

    /// Returns the region that it is bound to.
    pub(super) fn bound_to(&self) -> Option<MrId> {
        self.binding.as_ref().map(|binding| binding.mr)
    }
}
