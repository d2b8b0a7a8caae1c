//! Atomic Extended Transport Header (IBA 9.3.4) and that of the response (IBA 9.3.5.3):
//!
//! ```text
//! |                     virtual address (8 bytes)                 |
//! |                          R_Key                                |
//! |                  swap (or add) data (8 bytes)                 |
//! |                      compare data (8 bytes)                   |
//! ```

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Atomic Extended Transport Header.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct AtomicEth {
    va: U64,
    rkey: U32,
    swap_add: U64,
    compare: U64,
}

const _: () = assert!(size_of::<AtomicEth>() == 28);

impl AtomicEth {
    /// Composes the header.
    pub fn new(va: u64, rkey: u32, swap_add: u64, compare: u64) -> AtomicEth {
        AtomicEth { va: va.into(), rkey: rkey.into(), swap_add: swap_add.into(), compare: compare.into() }
    }
    /// Virtual address.
    pub fn va(&self) -> u64 {
        self.va.get()
    }
    /// R_Key.
    pub fn rkey(&self) -> u32 {
        self.rkey.get()
    }
    /// New value (CmpSwap) or addend (FetchAdd).
    pub fn swap_add(&self) -> u64 {
        self.swap_add.get()
    }
    /// Expected value (CmpSwap).
    pub fn compare(&self) -> u64 {
        self.compare.get()
    }
}

/// Atomic Acknowledge Extended Transport Header: the value before the operation.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct AtomicAckEth(U64);

impl AtomicAckEth {
    /// Composes the header.
    pub fn new(original: u64) -> AtomicAckEth {
        AtomicAckEth(original.into())
    }
    /// Returns the value before the operation.
    pub fn original(&self) -> u64 {
        self.0.get()
    }
}
