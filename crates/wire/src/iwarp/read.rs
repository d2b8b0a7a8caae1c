//! Header of a Read Request (RFC 5040 §4.4), after that of DDP:
//!
//! ```text
//! |                       data sink's STag                        |
//! |                data sink's tagged offset (8)                  |
//! |                         bytes to read                         |
//! |                      data source's STag                       |
//! |               data source's tagged offset (8)                 |
//! ```

use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Tagged;

/// Parameters of a Read Request.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ReadRequest {
    sink: Tagged,
    len: U32,
    source: Tagged,
}

const _: () = assert!(size_of::<ReadRequest>() == 28);

impl ReadRequest {
    /// Composes the header.
    pub fn new(sink: Tagged, source: Tagged, len: u32) -> ReadRequest {
        ReadRequest { sink, len: len.into(), source }
    }

    /// Where the response goes at the requester.
    pub fn sink(&self) -> Tagged {
        self.sink
    }

    /// Where the data is at the responder.
    pub fn source(&self) -> Tagged {
        self.source
    }

    /// Bytes to read.
    pub fn len(&self) -> u32 {
        self.len.get()
    }

    /// Whether nothing is read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
