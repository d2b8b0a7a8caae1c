//! Work requests as a program posts them.

use crate::{AddressVector, SendOp};

/// A scatter/gather element; the layout is that of `struct ibv_sge`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Sge {
    /// Address (in the region's iova space).
    pub addr: u64,
    /// Bytes.
    pub length: u32,
    /// Local key of the region.
    pub lkey: u32,
}

bitflags::bitflags! {
    /// `IBV_SEND_*`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SendFlags: u32 {
        /// Wait until earlier READs and atomics finish.
        const FENCE = 1;
        /// Generate a completion on success.
        const SIGNALED = 1 << 1;
        /// Ask the peer for a solicited event.
        const SOLICITED = 1 << 2;
        /// Copy the payload now; local keys are ignored.
        const INLINE = 1 << 3;
        /// Checksum offload (Ethernet queue pairs only).
        const IP_CSUM = 1 << 4;
    }
}

/// Destination of a datagram.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct UdTarget {
    /// Address, as the address handle held it.
    pub av: AddressVector,
    /// Queue pair number.
    pub remote_qpn: u32,
    /// Q_Key; if the top bit is set, the sender uses its own Q_Key instead (IBA 10.2.5).
    pub remote_qkey: u32,
}

/// A send work request, borrowed from the caller for the duration of the post.
#[derive(Clone, Copy, Debug)]
pub struct SendWr<'a> {
    /// The program's ID for it.
    pub wr_id: u64,
    /// Flags.
    pub flags: SendFlags,
    /// The operation.
    pub op: SendOp,
    /// Local memory.
    pub sges: &'a [Sge],
    /// Datagram destination (UD only).
    pub ud: Option<UdTarget>,
    /// SRQ number at the peer (XRC only).
    pub xrc_srqn: Option<u32>,
}

/// A receive work request.
#[derive(Clone, Copy, Debug)]
pub struct RecvWr<'a> {
    /// The program's ID for it.
    pub wr_id: u64,
    /// Local memory.
    pub sges: &'a [Sge],
}
