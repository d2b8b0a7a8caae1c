//! Framing of MPA (RFC 5044 §4): lengths, padding, markers, and the largest ULPDU of a TCP segment.

use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the ULPDU length that begins an FPDU.
pub const LENGTH_LEN: usize = 2;
/// Bytes of the CRC that ends an FPDU.
pub const CRC_LEN: usize = 4;
/// Bytes of a marker.
pub const MARKER_LEN: usize = 4;
/// Bytes of the stream from one marker's first byte to the next one's (RFC 5044 §4.3).
pub const MARKER_INTERVAL: usize = 512;
/// Largest ULPDU: its FPDU still fits into an IP datagram (RFC 5044 §4.2).
pub const MULPDU_MAX: u32 = 64_768;
/// Smallest bound of a ULPDU, however small TCP's segments are (RFC 5044 §4.2).
pub const MULPDU_MIN: u32 = 128;

/// A marker (RFC 5044 §4.3): distance back to the ULPDU length of the FPDU that it interrupts, 0 before that.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Marker {
    reserved: U16,
    fpdu_ptr: U16,
}

const _: () = assert!(size_of::<Marker>() == MARKER_LEN);

impl Marker {
    /// Composes a marker.
    pub fn new(fpdu_ptr: u16) -> Marker {
        Marker { reserved: 0.into(), fpdu_ptr: fpdu_ptr.into() }
    }

    /// Bytes of the stream between the FPDU's first byte and the marker's.
    pub fn fpdu_ptr(&self) -> u16 {
        self.fpdu_ptr.get()
    }
}

/// Returns the pad bytes of an FPDU.
pub fn pad_len(ulpdu: usize) -> usize {
    (LENGTH_LEN + ulpdu).wrapping_neg() & 3
}

/// Returns the bytes of an FPDU before its CRC, markers aside.
pub fn body_len(ulpdu: usize) -> usize {
    LENGTH_LEN + ulpdu + pad_len(ulpdu)
}

/// Returns the bytes of an FPDU, markers aside.
pub fn fpdu_len(ulpdu: usize) -> usize {
    body_len(ulpdu) + CRC_LEN
}

/// Returns the largest ULPDU for TCP segments of this payload (RFC 5044 §4.2).
pub fn mulpdu(segment: u32, markers: bool) -> u32 {
    let overhead = (LENGTH_LEN + CRC_LEN) as u32 + segment % 4;
    let markers = if markers { MARKER_LEN as u32 * segment.div_ceil(MARKER_INTERVAL as u32) } else { 0 };
    segment.saturating_sub(overhead + markers).clamp(MULPDU_MIN, MULPDU_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_fpdu_fills_a_tcp_segment_as_that_of_siw_does() {
        // The captures: TCP timestamps leave 1448 bytes of an Ethernet frame, and siw's ULPDUs have 1442.
        assert_eq!(mulpdu(1448, false), 1442);
        assert_eq!(fpdu_len(1442), 1448);
        assert_eq!(fpdu_len(mulpdu(1461, false) as usize), 1460);
        assert!(fpdu_len(mulpdu(1460, true) as usize) + 3 * MARKER_LEN <= 1460);
        assert_eq!((mulpdu(1, true), mulpdu(u32::MAX, false)), (MULPDU_MIN, MULPDU_MAX));
        assert_eq!((0..4).map(pad_len).collect::<Vec<_>>(), [2, 1, 0, 3]);
    }
}
