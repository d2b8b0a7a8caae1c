//! A path as REQ and LAP describe it. The two messages order its fields differently, so each has its own table.

use super::layout::{At, Bits, Bytes, bits, int};
use crate::span::Span;

/// RoCE's value for LID fields, since its ports have no LIDs (IBA A16.5.1).
pub use crate::lrh::LID_PERMISSIVE;

/// A path between two ports, from the sender's view.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Path {
    /// LID of the sender's port.
    pub local_lid: u16,
    /// LID of the receiver's port.
    pub remote_lid: u16,
    /// GID of the sender's port.
    pub local_gid: [u8; 16],
    /// GID of the receiver's port.
    pub remote_gid: [u8; 16],
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Static rate, as in PathRecord, 6 bits.
    pub packet_rate: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Service level, 4 bits.
    pub sl: u8,
    /// Both ports are in one subnet and no GRH is needed.
    pub subnet_local: bool,
    /// Timeout for acknowledgements of the sender's queue pair: 4.096 us * 2^n, 5 bits.
    pub local_ack_timeout: u8,
}

impl Path {
    /// Whether the path is present: a message without an alternate path has zeros in its place (IBA 12.7.18).
    pub fn is_present(&self) -> bool {
        self.remote_lid != 0 || self.remote_gid != [0; 16]
    }
}

macro_rules! path {
    ($(#[$doc:meta])* $name:ident($base:ident) { $($field:ident = $at:expr,)* }) => {
        $(#[$doc])*
        pub(crate) struct $name(pub usize);

        impl $name {
            pub(crate) const fn span(&self, _: usize) -> Span {
                Span::NONE
            }
        }

        impl At<Path> for $name {
            fn take(&self, data: &[u8]) -> Path {
                let $base = self.0;
                Path { $($field: $at.take(data),)* }
            }
            fn put(&self, data: &mut [u8], value: &Path) {
                let $base = self.0;
                $($at.put(data, &value.$field);)*
            }
            #[cfg(test)]
            fn spans(&self) -> Vec<(usize, usize)> {
                fn of<T>(at: impl At<T>, _: &T) -> Vec<(usize, usize)> {
                    at.spans()
                }
                let ($base, path) = (self.0, Path::default());
                [$(of($at, &path.$field),)*].concat()
            }
        }
    };
}

const fn after(base: usize, byte: usize, bit: usize, width: usize) -> Bits {
    bits(base + byte, bit, width)
}

path! {
    /// A path in a REQ: 44 bytes (IBA 12.6.5).
    ReqPath(base) {
        local_lid = int(base, 2),
        remote_lid = int(base + 2, 2),
        local_gid = Bytes(base + 4),
        remote_gid = Bytes(base + 20),
        flow_label = after(base, 36, 0, 20),
        packet_rate = after(base, 39, 2, 6),
        traffic_class = int(base + 40, 1),
        hop_limit = int(base + 41, 1),
        sl = after(base, 42, 0, 4),
        subnet_local = after(base, 42, 4, 1),
        local_ack_timeout = after(base, 43, 0, 5),
    }
}

path! {
    /// The path in a LAP: the same length, with its fields in a different order (IBA 12.8.1).
    LapPath(base) {
        local_lid = int(base, 2),
        remote_lid = int(base + 2, 2),
        local_gid = Bytes(base + 4),
        remote_gid = Bytes(base + 20),
        flow_label = after(base, 36, 0, 20),
        traffic_class = int(base + 39, 1),
        hop_limit = int(base + 40, 1),
        packet_rate = after(base, 41, 2, 6),
        sl = after(base, 42, 0, 4),
        subnet_local = after(base, 42, 4, 1),
        local_ack_timeout = after(base, 43, 0, 5),
    }
}
