//! Global Route Header (IBA 8.3), which has the shape of an IPv6 header:
//!
//! ```text
//! |ipver|traffic class |              flow label                  |
//! |        payload length       |  next header  |   hop limit     |
//! |                    source GID (16 bytes)                      |
//! |                  destination GID (16 bytes)                   |
//! ```

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Global Route Header.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Grh {
    version_class_flow: U32,
    payload_len: U16,
    next_header: u8,
    hop_limit: u8,
    sgid: [u8; 16],
    dgid: [u8; 16],
}

const _: () = assert!(size_of::<Grh>() == Grh::LEN);

impl Grh {
    /// Length in bytes.
    pub const LEN: usize = 40;
    /// Next header value of InfiniBand transport.
    pub const NEXT_HEADER_IBA: u8 = 0x1b;

    /// Composes the header.
    pub fn new(
        class: u8,
        flow_label: u32,
        payload_len: u16,
        next_header: u8,
        hop_limit: u8,
        gids: [[u8; 16]; 2],
    ) -> Grh {
        Grh {
            version_class_flow: (6 << 28 | u32::from(class) << 20 | flow_label & 0xf_ffff).into(),
            payload_len: payload_len.into(),
            next_header,
            hop_limit,
            sgid: gids[0],
            dgid: gids[1],
        }
    }
    /// IP version, always 6.
    pub fn version(&self) -> u8 {
        (self.version_class_flow.get() >> 28) as u8
    }
    /// Traffic class.
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_flow.get() >> 20) as u8
    }
    /// Flow label.
    pub fn flow_label(&self) -> u32 {
        self.version_class_flow.get() & 0xf_ffff
    }
    /// Bytes after this header.
    pub fn payload_len(&self) -> u16 {
        self.payload_len.get()
    }
    /// Type of the next header.
    pub fn next_header(&self) -> u8 {
        self.next_header
    }
    /// Hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.hop_limit
    }
    /// Source GID.
    pub fn sgid(&self) -> [u8; 16] {
        self.sgid
    }
    /// Destination GID.
    pub fn dgid(&self) -> [u8; 16] {
        self.dgid
    }
}
