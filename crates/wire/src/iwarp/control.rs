//! Control fields of DDP (RFC 5041 §4.1) and RDMAP (RFC 5040 §4.1), the first two bytes of every segment:
//!
//! ```text
//!   0                   1
//!   0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5
//!  |T|L| reserved|DV |RV |Rsv| opcode|
//! ```

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::RdmapOpcode;

/// Control fields of a segment.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Control {
    ddp: u8,
    rdmap: u8,
}

const _: () = assert!(size_of::<Control>() == 2);

const TAGGED: u8 = 0x80;
const LAST: u8 = 0x40;
const DDP_VERSION: u8 = 0x03;
const RDMAP_VERSION_SHIFT: u8 = 6;
const OPCODE: u8 = 0x0f;

impl Control {
    /// The version of DDP that this crate speaks.
    pub const DDP_VERSION: u8 = 1;
    /// The version of RDMAP that this crate speaks (RFC 5040 §4.1; 0 is that of the RDMA Consortium).
    pub const RDMAP_VERSION: u8 = 1;

    /// Composes the fields of a segment, of a tagged buffer or not as the opcode says.
    pub fn new(opcode: RdmapOpcode, last: bool) -> Control {
        let tagged = opcode.info().is_some_and(|info| info.queue.is_none());
        Control {
            ddp: if tagged { TAGGED } else { 0 } | if last { LAST } else { 0 } | Self::DDP_VERSION,
            rdmap: Self::RDMAP_VERSION << RDMAP_VERSION_SHIFT | opcode.0 & OPCODE,
        }
    }

    /// Whether the segment names a tagged buffer.
    pub fn is_tagged(&self) -> bool {
        self.ddp & TAGGED != 0
    }

    /// Whether it is the last of its message.
    pub fn is_last(&self) -> bool {
        self.ddp & LAST != 0
    }

    /// Version of DDP.
    pub fn ddp_version(&self) -> u8 {
        self.ddp & DDP_VERSION
    }

    /// Version of RDMAP.
    pub fn rdmap_version(&self) -> u8 {
        self.rdmap >> RDMAP_VERSION_SHIFT
    }

    /// Opcode of the message.
    pub fn opcode(&self) -> RdmapOpcode {
        RdmapOpcode(self.rdmap & OPCODE)
    }
}
