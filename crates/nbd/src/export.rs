//! Export: a disk that clients may use.

use crate::limits::PAYLOAD_BYTES_MAX;
use crate::wire::flag;

/// A disk that clients may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// Name that clients ask for.
    pub name: String,
    /// Description for people; empty: none.
    pub description: String,
    /// Size in bytes: a multiple of a block.
    pub bytes: u64,
    /// Size of a block in bytes, a power of two up to 64 KiB: requests begin and end at its multiples.
    pub block_bytes: u32,
    /// Changes are refused.
    pub read_only: bool,
    /// Whether space can be freed (TRIM).
    pub has_trim: bool,
    /// Whether zeros can be written without sending them.
    pub has_write_zeroes: bool,
}

impl Export {
    /// Returns the transmission flags. Several connections see each other's writes, and flush them for each other.
    pub(crate) fn flags(&self) -> u16 {
        use flag::{CAN_MULTI_CONN, HAS_FLAGS, READ_ONLY, SEND_FLUSH, SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES};
        let optional = [
            (self.read_only, READ_ONLY),
            (self.has_trim && !self.read_only, SEND_TRIM),
            (self.has_write_zeroes && !self.read_only, SEND_WRITE_ZEROES),
        ];
        let set = optional.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag);
        set.fold(HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN, |flags, flag| flags | flag)
    }

    /// Returns smallest, preferred and largest block for clients.
    pub(crate) fn block_sizes(&self) -> [u32; 3] {
        [self.block_bytes, self.block_bytes.max(4096), PAYLOAD_BYTES_MAX]
    }
}
