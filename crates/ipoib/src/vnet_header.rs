//! The header that Linux puts before each packet of a TUN with `IFF_VNET_HDR` (`struct virtio_net_hdr`, virtio 1.2
//! §5.1.6): checksums and segmentation that the kernel leaves to the interface. Numbers are in the machine's byte order.
//!
//! ```text
//! | flags (1) | gso_type (1) | hdr_len (2) | gso_size (2) | csum_start (2) | csum_offset (2) |
//! ```

use zerocopy::byteorder::native_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of the header.
pub const VNET_HEADER_LEN: usize = size_of::<VnetHeader>();

/// The header.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct VnetHeader {
    pub flags: u8,
    pub gso_type: u8,
    /// Bytes of all headers: a hint.
    pub hdr_len: U16,
    /// Payload of a segment; the last may have less.
    pub gso_size: U16,
    /// Offset from which on the checksum counts.
    pub csum_start: U16,
    /// Offset of the checksum's field from there.
    pub csum_offset: U16,
}

const _: () = assert!(VNET_HEADER_LEN == 10);

/// Flag: the checksum is that of the pseudo header alone.
pub(crate) const NEEDS_CSUM: u8 = 1;

/// Types of segmentation.
pub(crate) const GSO_NONE: u8 = 0;
pub(crate) const GSO_TCPV4: u8 = 1;
pub(crate) const GSO_TCPV6: u8 = 4;
pub(crate) const GSO_UDP_L4: u8 = 5;
/// Flag in the type: TCP's congestion window was reduced.
pub(crate) const GSO_ECN: u8 = 0x80;
