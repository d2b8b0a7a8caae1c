//! Private data of RDMA CM's REQ and REP (RFC 8797). Both ends announce by it how long the messages are that they
//! send and receive inline, and whether they know Send With Invalidate:
//!
//! ```text
//! | format identifier f6ab0e18                    |
//! | version 1 | reserved, R | send size | receive size |      R: lowest bit; sizes in units of 1 KiB, less one
//! ```

use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::limits::{INLINE_DEFAULT_BYTES, INLINE_MAX_BYTES};

/// Bytes of the private data.
pub const PRIVATE_DATA_LEN: usize = 8;

const FORMAT: u32 = 0xf6ab_0e18;
const VERSION: u8 = 1;
const REMOTE_INVALIDATION: u8 = 1;
const UNIT_BYTES: usize = 1024;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct WirePrivateData {
    format: U32,
    version: u8,
    flags: u8,
    send_size: u8,
    receive_size: u8,
}

const _: () = assert!(size_of::<WirePrivateData>() == PRIVATE_DATA_LEN);

/// Properties of one end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrivateData {
    /// The end knows Send With Invalidate: a client takes SENDs that invalidate one of the keys that it offered. A responder
    /// uses it if both ends know it.
    pub remote_invalidation: bool,
    /// Longest message that it sends inline, in bytes.
    pub send_bytes: usize,
    /// Longest message that its receives take, in bytes.
    pub receive_bytes: usize,
}

impl Default for PrivateData {
    /// Returns the properties of an end that announces none.
    fn default() -> PrivateData {
        PrivateData {
            remote_invalidation: false,
            send_bytes: INLINE_DEFAULT_BYTES,
            receive_bytes: INLINE_DEFAULT_BYTES,
        }
    }
}

impl PrivateData {
    /// Reads the peer's private data. Data of another format or version announces nothing (RFC 8797); a connection
    /// manager may have appended zeros.
    pub fn parse(bytes: &[u8]) -> PrivateData {
        let Ok((wire, _)) = WirePrivateData::ref_from_prefix(bytes) else { return PrivateData::default() };
        if wire.format.get() != FORMAT || wire.version != VERSION {
            return PrivateData::default();
        }
        let bytes = |size: u8| (usize::from(size) + 1) * UNIT_BYTES;
        PrivateData {
            remote_invalidation: wire.flags & REMOTE_INVALIDATION != 0,
            send_bytes: bytes(wire.send_size),
            receive_bytes: bytes(wire.receive_size),
        }
    }

    /// Returns the bytes; sizes are rounded down to KiB, and are at least one.
    pub fn to_bytes(&self) -> [u8; PRIVATE_DATA_LEN] {
        let size = |bytes: usize| (bytes.clamp(UNIT_BYTES, INLINE_MAX_BYTES) / UNIT_BYTES - 1) as u8;
        let wire = WirePrivateData {
            format: FORMAT.into(),
            version: VERSION,
            flags: if self.remote_invalidation { REMOTE_INVALIDATION } else { 0 },
            send_size: size(self.send_bytes),
            receive_size: size(self.receive_bytes),
        };
        zerocopy::transmute!(wire)
    }

    /// Returns the inline threshold from this end to `peer`: what one sends and the other receives (RFC 8797).
    pub fn threshold_to(&self, peer: &PrivateData) -> usize {
        self.send_bytes.min(peer.receive_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux's client sends it with its defaults: flags 1, both sizes 4 KiB.
    const LINUX: [u8; 8] = [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3];

    #[test]
    fn linux_announces_four_kib_and_remote_invalidation() {
        let end = PrivateData { remote_invalidation: true, send_bytes: 4096, receive_bytes: 4096 };
        assert_eq!((PrivateData::parse(&LINUX), end.to_bytes()), (end, LINUX));
        let padded = [&LINUX[..], &[0; 48]].concat();
        assert_eq!(PrivateData::parse(&padded), end);
    }

    #[test]
    fn anything_else_announces_nothing() {
        let mut other_version = LINUX;
        other_version[4] = 2;
        for bytes in [&LINUX[..7], &[], &[0; 8], &other_version] {
            assert_eq!(PrivateData::parse(bytes), PrivateData::default());
        }
    }

    #[test]
    fn sizes_are_bounded_and_a_threshold_is_the_lower_one() {
        let end = |send_bytes, receive_bytes| PrivateData { remote_invalidation: false, send_bytes, receive_bytes };
        let round = |end: PrivateData| PrivateData::parse(&end.to_bytes());
        assert_eq!(round(end(0, usize::MAX)), end(1024, INLINE_MAX_BYTES));
        assert_eq!(round(end(5000, 2047)), end(4096, 1024));
        assert_eq!(end(8192, 1024).threshold_to(&end(1024, 4096)), 4096);
    }
}
