//! Datagram Extended Transport Header (IBA 9.3.2):
//!
//! ```text
//! |                          Q_Key                                |
//! |   reserved    |             source queue pair                 |
//! ```

use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Datagram Extended Transport Header.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Deth {
    qkey: U32,
    src: U32,
}

const _: () = assert!(size_of::<Deth>() == 8);

impl Deth {
    /// Composes the header.
    pub fn new(qkey: u32, src_qp: u32) -> Deth {
        Deth { qkey: qkey.into(), src: (src_qp & 0xff_ffff).into() }
    }
    /// Q_Key.
    pub fn qkey(&self) -> u32 {
        self.qkey.get()
    }
    /// Source queue pair number.
    pub fn src_qp(&self) -> u32 {
        self.src.get() & 0xff_ffff
    }
}
