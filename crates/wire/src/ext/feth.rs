//! Flush Extended Transport Header (IBA 1.5, memory placement extensions):
//!
//! ```text
//! |                reserved                     | SEL |   PLT     |
//! ```
//! PLT, four bits: 1 = global visibility, 2 = persistence. SEL, two bits: 0 = the range of the RETH, 1 = whole region.

use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Flush Extended Transport Header.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Feth(U32);

impl Feth {
    /// Placement: visible to all.
    pub const GLOBAL: u8 = 1;
    /// Placement: persistent.
    pub const PERSISTENT: u8 = 2;

    /// Composes the header.
    pub fn new(placement: u8, level: u8) -> Feth {
        Feth((u32::from(placement & 0xf) | u32::from(level & 3) << 4).into())
    }
    /// Placement type bits.
    pub fn placement(&self) -> u8 {
        (self.0.get() & 0xf) as u8
    }
    /// Selectivity level.
    pub fn level(&self) -> u8 {
        (self.0.get() >> 4 & 3) as u8
    }
}
