//! Work on a packet that its sender's kernel left to the interface, read from the header before the packet. A kernel's
//! user may write both (a packet socket with `PACKET_VNET_HDR`), so every field is checked against the packet.

use std::num::NonZeroUsize;

use zerocopy::byteorder::native_endian::U16;

use crate::ip_payload::{TCP, UDP, ip_payload};
use crate::limits::SEGMENTS_MAX;
use crate::vnet_header::{GSO_ECN, GSO_NONE, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, NEEDS_CSUM, VnetHeader};

/// Bytes that the receiving kernel gets in one piece, for a packet without other work: its headers. The kernel puts the
/// rest into pages, which it finds more easily than one long piece.
const HEADERS_HINT: usize = 128;

const TCP_LEN: usize = 20;
const UDP_LEN: usize = 8;

/// Work that is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Offload {
    /// None.
    #[default]
    Nothing,
    /// A checksum.
    Checksum(ChecksumField),
    /// Segmentation, and the segments' checksums.
    Segmentation(Segmentation),
}

/// A checksum that is that of the pseudo header so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChecksumField {
    /// Offset from which on it counts.
    pub start: usize,
    /// Offset of its field.
    pub at: usize,
}

/// Protocol whose messages are cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    /// TCP.
    Tcp,
    /// UDP: each segment is a datagram.
    Udp,
}

/// How a packet is cut. Its transport header is whole, and it has a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segmentation {
    pub transport: Transport,
    /// `start` is the offset of the transport header.
    pub checksum: ChecksumField,
    /// Bytes of all headers.
    pub headers: usize,
    /// Payload of a segment; the last may have less.
    pub size: NonZeroUsize,
    /// The type of segmentation, as the kernel has it.
    gso_type: u8,
}

impl Transport {
    fn protocol(self) -> u8 {
        match self {
            Transport::Tcp => TCP,
            Transport::Udp => UDP,
        }
    }

    /// Returns the offset of the checksum in the header.
    fn checksum_offset(self) -> usize {
        match self {
            Transport::Tcp => 16,
            Transport::Udp => 6,
        }
    }

    /// Returns the length of the header of a message; `None` if the message is not whole.
    fn header_len(self, message: &[u8]) -> Option<usize> {
        match self {
            Transport::Tcp => {
                let header_len = usize::from(message.first_chunk::<TCP_LEN>()?[12] >> 4) * 4;
                (TCP_LEN..=message.len()).contains(&header_len).then_some(header_len)
            }
            Transport::Udp => {
                let [_, _, _, _, l0, l1, ..] = *message.first_chunk::<UDP_LEN>()?;
                (usize::from(u16::from_be_bytes([l0, l1])) == message.len()).then_some(UDP_LEN)
            }
        }
    }
}

impl Offload {
    /// Reads the work that is left on a packet; `None` if the header is invalid, or is not this packet's.
    pub fn parse(header: &VnetHeader, packet: &[u8]) -> Option<Offload> {
        let needs_checksum = header.flags & NEEDS_CSUM != 0;
        let checksum = ChecksumField::parse(header, packet);
        match header.gso_type {
            GSO_NONE if !needs_checksum => Some(Offload::Nothing),
            GSO_NONE => checksum.map(Offload::Checksum),
            // A segment's checksum always comes with it (virtio 1.2 §5.1.6.2).
            _ => Segmentation::parse(header, checksum.filter(|_| needs_checksum)?, packet).map(Offload::Segmentation),
        }
    }

    /// Composes the header before a packet, for the kernel that receives it.
    pub fn header(&self, packet: &[u8]) -> VnetHeader {
        let with = |field: &ChecksumField, headers: usize| VnetHeader {
            flags: NEEDS_CSUM,
            hdr_len: to_u16(headers),
            csum_start: to_u16(field.start),
            csum_offset: to_u16(field.at - field.start),
            ..VnetHeader::default()
        };
        let hint = packet.len().min(HEADERS_HINT);
        match self {
            Offload::Nothing => VnetHeader { hdr_len: to_u16(hint), ..VnetHeader::default() },
            Offload::Checksum(field) => with(field, hint.max(field.at + 2)),
            Offload::Segmentation(how) => VnetHeader {
                gso_type: how.gso_type,
                gso_size: to_u16(how.size.get()),
                ..with(&how.checksum, how.headers)
            },
        }
    }
}

/// Offsets come from fields of this length; the length of the headers is a hint.
fn to_u16(number: usize) -> U16 {
    u16::try_from(number).unwrap_or(u16::MAX).into()
}

impl ChecksumField {
    fn parse(header: &VnetHeader, packet: &[u8]) -> Option<ChecksumField> {
        let start = usize::from(header.csum_start.get());
        let at = start + usize::from(header.csum_offset.get());
        packet.get(at..at + 2).map(|_| ChecksumField { start, at })
    }
}

impl Segmentation {
    fn parse(header: &VnetHeader, checksum: ChecksumField, packet: &[u8]) -> Option<Segmentation> {
        let version = packet.first()? >> 4;
        let transport = match (header.gso_type & !GSO_ECN, version) {
            (GSO_TCPV4, 4) | (GSO_TCPV6, 6) => Transport::Tcp,
            (GSO_UDP_L4, 4 | 6) if header.gso_type & GSO_ECN == 0 => Transport::Udp,
            _ => return None,
        };
        let (protocol, start) = ip_payload(packet)?;
        let own = ChecksumField { start, at: start + transport.checksum_offset() };
        if protocol != transport.protocol() || checksum != own {
            return None;
        }
        let headers = start + transport.header_len(packet.get(start..)?)?;
        let size = NonZeroUsize::new(header.gso_size.get().into())?;
        let payload = packet.len().checked_sub(headers)?;
        let is_cut = (1..=SEGMENTS_MAX).contains(&payload.div_ceil(size.get()));
        is_cut.then_some(Segmentation { transport, checksum, headers, size, gso_type: header.gso_type })
    }
}
