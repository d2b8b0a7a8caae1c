//! The four headers that are one word: immediate data (IBA 9.3.6), invalidate (IBA 9.3.7), RD's end-to-end context
//! (IBA 9.3.1) and XRC's SRQ number (IBA A14.3.2).

use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $mask:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
        #[repr(C)]
        pub struct $name(U32);

        impl $name {
            /// Composes the header.
            pub fn new(value: u32) -> $name {
                $name((value & $mask).into())
            }
            /// The value, host order.
            pub fn value(&self) -> u32 {
                self.0.get() & $mask
            }
        }
    };
}

word!(
    /// Immediate data. [`ImmDt::value`] is the number that the bytes form in network order.
    ImmDt, u32::MAX);
word!(
    /// Invalidate: the R_Key.
    Ieth, u32::MAX);
word!(
    /// Reliable datagram: end-to-end context.
    Rdeth, 0xff_ffff);
word!(
    /// XRC: number of the SRQ.
    XrcEth, 0xff_ffff);
