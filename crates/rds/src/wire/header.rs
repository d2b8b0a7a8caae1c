//! Header of a frame (`struct rds_header`). Each frame begins with one; those of a message differ in acknowledgement, credit
//! and checksum alone.
//!
//! ```text
//!  0      sequence                    8      acknowledgement
//! 16      length of the message      20 source port   22 destination port
//! 24 flags  25 credit  26 padding    30 checksum
//! 32      extensions (16 bytes)
//! ```

use thiserror::Error;
use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::extension::Extensions;

/// Bytes of a header.
pub const HEADER_LEN: usize = 48;

/// Bytes of a header, as they are on the wire.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Bytes {
    sequence: U64,
    acknowledgement: U64,
    length: U32,
    source_port: U16,
    destination_port: U16,
    flags: u8,
    credit: u8,
    padding: [u8; 4],
    checksum: [u8; 2],
    extensions: [u8; Extensions::BYTES],
}

const _: () = assert!(size_of::<Bytes>() == HEADER_LEN);

/// Flags of a header (`RDS_FLAG_*`); unknown ones survive.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags(pub u8);

impl Flags {
    /// The message is a congestion map.
    pub const CONGESTION_MAP: Flags = Flags(0x01);
    /// The receiver acknowledges the message at once.
    pub const ACK_REQUIRED: Flags = Flags(0x02);
    /// The message may have been received already, on an earlier connection.
    pub const RETRANSMITTED: Flags = Flags(0x04);

    /// Whether these flags are set.
    pub fn contains(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns both.
    #[must_use]
    pub fn with(self, flags: Flags) -> Flags {
        Flags(self.0 | flags.0)
    }
}

/// Header of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Header {
    /// Sequence number of the message; 0 in congestion maps and acknowledgements.
    pub sequence: u64,
    /// Sequence number of the last message that the sender of this frame has received; 0: none yet.
    pub acknowledgement: u64,
    /// Bytes of the message, in all its frames.
    pub length: u32,
    /// Port of the sending socket.
    pub source_port: u16,
    /// Port of the receiving socket.
    pub destination_port: u16,
    /// Flags.
    pub flags: Flags,
    /// Receives that the sender of this frame has posted, where flow control is on.
    pub credit: u8,
    /// Extensions.
    pub extensions: Extensions,
}

/// Reason why bytes are no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum HeaderError {
    /// They are shorter than a header.
    #[error("a frame of {0} bytes has no header")]
    Short(usize),
    /// The checksum is wrong.
    #[error("the checksum of a header is wrong")]
    Checksum,
}

impl Header {
    /// Reads the header of a frame; returns it with the frame's data.
    ///
    /// # Errors
    /// The frame is too short, or its header is corrupted.
    pub fn parse(frame: &[u8]) -> Result<(Header, &[u8]), HeaderError> {
        let Ok((bytes, data)) = Bytes::ref_from_prefix(frame) else { return Err(HeaderError::Short(frame.len())) };
        // Linux takes 0 for a header without checksum.
        if bytes.checksum != [0; 2] && checksum(bytes) != bytes.checksum {
            return Err(HeaderError::Checksum);
        }
        let header = Header {
            sequence: bytes.sequence.get(),
            acknowledgement: bytes.acknowledgement.get(),
            length: bytes.length.get(),
            source_port: bytes.source_port.get(),
            destination_port: bytes.destination_port.get(),
            flags: Flags(bytes.flags),
            credit: bytes.credit,
            extensions: Extensions(bytes.extensions),
        };
        Ok((header, data))
    }

    /// Returns the bytes, with their checksum.
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut bytes = Bytes {
            sequence: self.sequence.into(),
            acknowledgement: self.acknowledgement.into(),
            length: self.length.into(),
            source_port: self.source_port.into(),
            destination_port: self.destination_port.into(),
            flags: self.flags.0,
            credit: self.credit,
            padding: [0; 4],
            checksum: [0; 2],
            extensions: self.extensions.0,
        };
        bytes.checksum = checksum(&bytes);
        let mut out = [0; HEADER_LEN];
        out.copy_from_slice(bytes.as_bytes());
        out
    }
}

/// Internet checksum (RFC 1071) of a header, whose checksum field counts as 0.
fn checksum(bytes: &Bytes) -> [u8; 2] {
    let zeroed = Bytes { checksum: [0; 2], ..*bytes };
    let (words, _) = zeroed.as_bytes().as_chunks::<2>();
    let mut sum: u32 = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            sequence: 0x0102_0304_0506_0708,
            acknowledgement: 7,
            length: 5000,
            source_port: 4000,
            destination_port: 53,
            flags: Flags::ACK_REQUIRED.with(Flags::RETRANSMITTED),
            credit: 3,
            extensions: Extensions::default(),
        }
    }

    #[test]
    fn fields_are_where_linux_has_them() {
        let bytes = header().to_bytes();
        assert_eq!(bytes[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(bytes[16..24], [0, 0, 0x13, 0x88, 0x0f, 0xa0, 0, 53]);
        assert_eq!(bytes[24..26], [6, 3]);
        // The sum over all words, the checksum included, is all ones.
        let sum: u32 = bytes.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }

    #[test]
    fn a_frame_is_its_header_and_its_data() {
        let frame = [&header().to_bytes()[..], b"data"].concat();
        assert_eq!(Header::parse(&frame), Ok((header(), &b"data"[..])));
        assert_eq!(Header::parse(&frame[..47]), Err(HeaderError::Short(47)));
    }

    #[test]
    fn one_wrong_bit_is_found() {
        for bit in 0..HEADER_LEN * 8 {
            let mut frame = header().to_bytes();
            frame[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::parse(&frame), Err(HeaderError::Checksum), "bit {bit}");
        }
    }
}
