//! Header of a segment for an untagged buffer (RFC 5041 §4.3), after its control fields:
//!
//! ```text
//! |      reserved for RDMAP: STag to invalidate, or zero          |
//! |                         queue number                          |
//! |                    message sequence number                    |
//! |                        message offset                         |
//! ```

use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Queue;

/// Untagged buffer and offset of a segment.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Untagged {
    invalidates: U32,
    queue: U32,
    msn: U32,
    offset: U32,
}

const _: () = assert!(size_of::<Untagged>() == 16);

impl Untagged {
    /// Composes the header; `invalidates` is zero where RDMAP reserves the field.
    pub fn new(queue: Queue, msn: u32, offset: u32, invalidates: u32) -> Untagged {
        Untagged { invalidates: invalidates.into(), queue: queue.0.into(), msn: msn.into(), offset: offset.into() }
    }

    /// STag that a SEND with Invalidate names (RFC 5040 §4.4).
    pub fn invalidates(&self) -> u32 {
        self.invalidates.get()
    }

    /// Queue number.
    pub fn queue(&self) -> Queue {
        Queue(self.queue.get())
    }

    /// Message sequence number: 1 for the first message of a queue.
    pub fn msn(&self) -> u32 {
        self.msn.get()
    }

    /// Offset of the segment's payload in its message.
    pub fn offset(&self) -> u32 {
        self.offset.get()
    }
}
