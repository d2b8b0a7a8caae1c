//! RDMA Extended Transport Header (IBA 9.3.3):
//!
//! ```text
//! |                     virtual address (8 bytes)                 |
//! |                          R_Key                                |
//! |                        DMA length                             |
//! ```

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// RDMA Extended Transport Header.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Reth {
    va: U64,
    rkey: U32,
    dma_len: U32,
}

const _: () = assert!(size_of::<Reth>() == 16);

impl Reth {
    /// Composes the header.
    pub fn new(va: u64, rkey: u32, dma_len: u32) -> Reth {
        Reth { va: va.into(), rkey: rkey.into(), dma_len: dma_len.into() }
    }
    /// Virtual address.
    pub fn va(&self) -> u64 {
        self.va.get()
    }
    /// R_Key.
    pub fn rkey(&self) -> u32 {
        self.rkey.get()
    }
    /// Bytes of the whole message.
    pub fn dma_len(&self) -> u32 {
        self.dma_len.get()
    }
}
