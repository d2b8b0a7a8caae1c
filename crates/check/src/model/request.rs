//! Work requests, and those that are outstanding.

use super::ids::{Handle, StackId};
use std::collections::VecDeque;
use std::fmt;

use super::limits::SINKS_MAX;

/// `struct ibv_sge`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sge {
    /// Address, or offset of a zero-based region.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// Local key.
    pub lkey: u32,
}

/// `enum ibv_wr_opcode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opcode(pub u32);

impl Opcode {
    /// RDMA WRITE.
    pub const WRITE: Opcode = Opcode(0);
    /// RDMA WRITE with immediate data.
    pub const WRITE_WITH_IMM: Opcode = Opcode(1);
    /// SEND.
    pub const SEND: Opcode = Opcode(2);
    /// SEND with immediate data.
    pub const SEND_WITH_IMM: Opcode = Opcode(3);
    /// RDMA READ.
    pub const READ: Opcode = Opcode(4);
    /// Compare and swap.
    pub const COMPARE_SWAP: Opcode = Opcode(5);
    /// Fetch and add.
    pub const FETCH_ADD: Opcode = Opcode(6);
    /// Local invalidate.
    pub const LOCAL_INVALIDATE: Opcode = Opcode(7);
    /// Bind of a memory window.
    pub const BIND_WINDOW: Opcode = Opcode(8);
    /// SEND with invalidate.
    pub const SEND_WITH_INVALIDATE: Opcode = Opcode(9);
    /// Segmented SEND of Ethernet frames.
    pub const TSO: Opcode = Opcode(10);

    /// Compare and swap, fetch and add.
    pub fn is_atomic(self) -> bool {
        matches!(self, Opcode::COMPARE_SWAP | Opcode::FETCH_ADD)
    }

    /// READs and atomics write to their buffers.
    pub fn is_sink(self) -> bool {
        self == Opcode::READ || self.is_atomic()
    }

    /// Operations of reliable services alone: the target answers them with more than an acknowledgement.
    pub fn needs_reliability(self) -> bool {
        !self.reads_buffers() && !matches!(self, Opcode::LOCAL_INVALIDATE | Opcode::BIND_WINDOW)
    }

    /// Messages, whose buffers the device sends.
    pub fn reads_buffers(self) -> bool {
        matches!(
            self,
            Opcode::WRITE
                | Opcode::WRITE_WITH_IMM
                | Opcode::SEND
                | Opcode::SEND_WITH_IMM
                | Opcode::SEND_WITH_INVALIDATE
                | Opcode::TSO
        )
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Opcode::WRITE => "RDMA WRITE",
            Opcode::WRITE_WITH_IMM => "RDMA WRITE with immediate",
            Opcode::SEND => "SEND",
            Opcode::SEND_WITH_IMM => "SEND with immediate",
            Opcode::READ => "RDMA READ",
            Opcode::COMPARE_SWAP => "compare and swap",
            Opcode::FETCH_ADD => "fetch and add",
            Opcode::LOCAL_INVALIDATE => "local invalidate",
            Opcode::BIND_WINDOW => "bind of a memory window",
            Opcode::SEND_WITH_INVALIDATE => "SEND with invalidate",
            Opcode::TSO => "TSO",
            Opcode(other) => return write!(f, "opcode {other}"),
        })
    }
}

/// `enum ibv_send_flags`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendFlags(pub u32);

impl SendFlags {
    /// Whether the request waits for earlier READs and atomics.
    pub fn is_fenced(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether the request has a completion.
    pub fn is_signaled(self) -> bool {
        self.0 & 2 != 0
    }

    /// Whether the call copies the buffers.
    pub fn is_inline(self) -> bool {
        self.0 & 8 != 0
    }
}

/// The bind of a memory window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The window.
    pub window: Handle,
    /// The region; 0 unbinds.
    pub region: Handle,
    /// Start of the range.
    pub address: u64,
    /// Its length.
    pub length: u64,
}

/// `struct ibv_send_wr`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendRequest {
    /// The program's number.
    pub wr_id: u64,
    /// Operation.
    pub opcode: Opcode,
    /// Flags.
    pub flags: SendFlags,
    /// Buffers.
    pub sges: Vec<Sge>,
    /// Remote address of READ, WRITE and atomics.
    pub remote_address: u64,
    /// Address handle of UD; 0 is none.
    pub ah: Handle,
    /// Bind of a memory window.
    pub binding: Option<Binding>,
}

/// `struct ibv_recv_wr`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiveRequest {
    /// The program's number.
    pub wr_id: u64,
    /// Buffers.
    pub sges: Vec<Sge>,
}

/// A posted request that has not completed.
#[derive(Clone, Debug)]
pub(super) struct Outstanding {
    pub wr_id: u64,
    /// `None` is a receive.
    pub opcode: Option<Opcode>,
    pub is_signaled: bool,
    /// Buffers that the device accesses; none for inline requests.
    pub sges: Vec<Sge>,
    /// Sum of the buffers.
    pub length: u64,
    /// Address handle of a datagram; 0 is none.
    pub ah: Handle,
    pub stack: StackId,
    /// The model's clock at the post.
    pub posted: u64,
    /// The buffers' digest at the post.
    pub digest: Option<u64>,
}

impl Outstanding {
    /// For a report's history.
    pub fn description(&self) -> String {
        match self.opcode {
            Some(opcode) => format!("posted {opcode}, wr_id {:#x}, {} bytes", self.wr_id, self.length),
            None => format!("posted a receive, wr_id {:#x}, {} bytes", self.wr_id, self.length),
        }
    }

    /// Whether the device writes to its buffers.
    pub fn is_sink(&self) -> bool {
        self.opcode.is_none_or(Opcode::is_sink)
    }
}

/// A range of the program's memory: address and end.
pub(super) type Span = (u64, u64);

/// Returns whether two ranges have a byte in common. An empty range has none.
pub(super) fn overlap(a: Span, b: Span) -> bool {
    a.0.max(b.0) < a.1.min(b.1)
}

/// Buffers of completed receives, READs and atomics: the device wrote there, not the program.
#[derive(Debug, Default)]
pub(super) struct SinkLog {
    spans: VecDeque<(u64, Span)>,
    /// Time of the newest entry that is forgotten.
    forgotten: u64,
}

impl SinkLog {
    pub fn add(&mut self, now: u64, span: Span) {
        if self.spans.len() == SINKS_MAX
            && let Some((time, _)) = self.spans.pop_front()
        {
            self.forgotten = time;
        }
        self.spans.push_back((now, span));
    }

    /// Whether the device may have written to the range since `since`.
    pub fn may_have_written(&self, span: Span, since: u64) -> bool {
        self.forgotten >= since || self.spans.iter().any(|(time, written)| *time >= since && overlap(*written, span))
    }
}
