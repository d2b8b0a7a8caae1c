//! Acknowledge Extended Transport Header (IBA 9.3.5) and its syndromes (IBA Table 44):
//!
//! ```text
//!  0                   1                   2                   3
//! |0| 00 | credits| ACK           |   message sequence number     |
//! |0| 01 | timer  | RNR NAK       |                               |
//! |0| 11 | code   | NAK           |                               |
//! ```

use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Psn;

/// Acknowledge Extended Transport Header.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Aeth(U32);

/// Content of an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Syndrome {
    /// Positive, with a credit code ([`credit_count`]).
    Ack(u8),
    /// Receiver not ready, with a timer code ([`rnr_delay_us`]).
    RnrNak(u8),
    /// Negative.
    Nak(NakCode),
    /// A value the specification reserves.
    Reserved(u8),
}

/// Reason for refusing a request; unknown values survive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NakCode(pub u8);

impl NakCode {
    /// A PSN was skipped.
    pub const PSN_SEQUENCE: NakCode = NakCode(0);
    /// The request is invalid in itself.
    pub const INVALID_REQUEST: NakCode = NakCode(1);
    /// The key, range or access right is wrong.
    pub const REMOTE_ACCESS: NakCode = NakCode(2);
    /// The responder itself failed.
    pub const REMOTE_OPERATIONAL: NakCode = NakCode(3);
    /// RD only.
    pub const INVALID_RD_REQUEST: NakCode = NakCode(4);
}

/// The credit code that means "no flow control".
pub const CREDITS_INVALID: u8 = 31;

/// Credit counts of codes 0..=30 (IBA Table 48).
const CREDITS: [u32; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144,
    8192, 12288, 16384, 24576, 32768,
];

/// Returns the number of messages that a credit code allows, `None` for "no flow control".
pub fn credit_count(code: u8) -> Option<u32> {
    CREDITS.get(usize::from(code)).copied()
}

/// Returns the largest credit code whose count does not exceed `count`.
pub fn credit_code(count: u32) -> u8 {
    (CREDITS.partition_point(|&c| c <= count) - 1) as u8
}

/// Delays of RNR timer codes in microseconds (IBA Table 45).
const RNR_US: [u32; 32] = [
    655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560, 3840, 5120, 7680, 10_240,
    15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760, 327_680, 491_520,
];

/// Returns the delay of an RNR timer code in microseconds.
pub fn rnr_delay_us(code: u8) -> u32 {
    RNR_US[usize::from(code & 31)]
}

impl Syndrome {
    /// Converts to the byte on the wire.
    pub fn to_byte(self) -> u8 {
        match self {
            Syndrome::Ack(c) => c & 31,
            Syndrome::RnrNak(t) => 0x20 | t & 31,
            Syndrome::Nak(n) => 0x60 | n.0 & 31,
            Syndrome::Reserved(b) => b,
        }
    }

    /// Converts from the byte on the wire; the top bit is reserved and ignored.
    pub fn from_byte(byte: u8) -> Syndrome {
        match byte >> 5 & 3 {
            0 => Syndrome::Ack(byte & 31),
            1 => Syndrome::RnrNak(byte & 31),
            3 => Syndrome::Nak(NakCode(byte & 31)),
            _ => Syndrome::Reserved(byte),
        }
    }
}

impl Aeth {
    /// Length in bytes.
    pub const LEN: usize = 4;

    /// Composes the header.
    pub fn new(syndrome: Syndrome, msn: u32) -> Aeth {
        Aeth((u32::from(syndrome.to_byte()) << 24 | msn & Psn::MASK).into())
    }
    /// Syndrome.
    pub fn syndrome(&self) -> Syndrome {
        Syndrome::from_byte((self.0.get() >> 24) as u8)
    }
    /// Message sequence number.
    pub fn msn(&self) -> u32 {
        self.0.get() & Psn::MASK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables() {
        assert_eq!(credit_code(0), 0);
        assert_eq!(credit_code(5), 4);
        assert_eq!(credit_code(1_000_000), 30);
        assert_eq!(credit_count(31), None);
        assert_eq!(rnr_delay_us(0), 655_360);
        assert_eq!(rnr_delay_us(12), 640);
    }

    #[test]
    fn every_byte_survives() {
        for b in 0..=0x7f {
            assert_eq!(Syndrome::from_byte(b).to_byte(), b);
        }
    }
}
