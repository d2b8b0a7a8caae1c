//! Keys of ids.

use weft_abi_types::rdma_cm_id;

/// Identity of an id among all that are alive: the address of its structure, as in the tools' debug output.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct IdKey(usize);

impl std::fmt::LowerHex for IdKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::LowerHex::fmt(&self.0, f)
    }
}

impl IdKey {
    /// Returns the key of an id that is alive.
    pub(super) fn of(id: *mut rdma_cm_id) -> IdKey {
        IdKey(id as usize)
    }
}
