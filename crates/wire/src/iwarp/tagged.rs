//! Header of a segment for a tagged buffer (RFC 5041 §4.2), after its control fields:
//!
//! ```text
//! |                             STag                              |
//! |                   tagged offset (8 bytes)                     |
//! ```

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Tagged buffer and offset of a segment.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Tagged {
    stag: U32,
    offset: U64,
}

const _: () = assert!(size_of::<Tagged>() == 12);

impl Tagged {
    /// Composes the header.
    pub fn new(stag: u32, offset: u64) -> Tagged {
        Tagged { stag: stag.into(), offset: offset.into() }
    }

    /// STag of the buffer.
    pub fn stag(&self) -> u32 {
        self.stag.get()
    }

    /// Tagged offset: where the segment's payload goes in the buffer.
    pub fn offset(&self) -> u64 {
        self.offset.get()
    }
}
