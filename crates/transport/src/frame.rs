//! Frames: the messages in the ring between two processes of one host.

use weft_verbs::{Op, Qpn, Sge};

/// Most payload of one frame; longer messages take several.
pub const FRAME_BYTES_MAX: u32 = 16 << 10;

/// Kind of a request or answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// A part of a SEND.
    Send = Op::Send as u8,
    /// A part of an RDMA WRITE.
    Write = Op::Write as u8,
    /// An RDMA READ of `total` bytes.
    Read = Op::Read as u8,
    /// Compare and swap; the payload is both values.
    CompareSwap = Op::CompareSwap as u8,
    /// Fetch and add; the payload is the addend.
    FetchAdd = Op::FetchAdd as u8,
    /// ATOMIC WRITE; the payload is the value.
    AtomicWrite = Op::AtomicWrite as u8,
    /// FLUSH of `total` bytes; `code` is placement type and selectivity level.
    Flush = Op::Flush as u8,
    /// Everything before `ack` was executed.
    Ack = 8,
    /// The frame `seq` found no receive; `code` is the RNR timer.
    Rnr = 9,
    /// The frame `seq` was refused; `code` gives the reason. The connection is over.
    Nak = 10,
    /// The frame `seq` was not examined: the queue pair was not ready, or waits for an earlier one.
    Dropped = 11,
    /// Bytes of the READ `seq`, from offset `addr` on.
    ReadData = 12,
    /// Result of the atomic operation `seq`; the payload is the original value.
    AtomicResult = 13,
    /// A datagram.
    Datagram = 14,
}

impl FrameKind {
    /// Converts the number in a ring.
    #[inline]
    pub fn from_number(number: u8) -> Option<FrameKind> {
        use FrameKind::*;
        const ALL: [FrameKind; 14] = [
            Send,
            Write,
            Read,
            CompareSwap,
            FetchAdd,
            AtomicWrite,
            Flush,
            Ack,
            Rnr,
            Nak,
            Dropped,
            ReadData,
            AtomicResult,
            Datagram,
        ];
        ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// Returns the request of an operation; `None` if it sends nothing.
    #[inline]
    pub fn of(op: Op) -> Option<FrameKind> {
        if op.is_local() { None } else { FrameKind::from_number(op as u8) }
    }

    /// Returns the operation that it requests; `None` for an answer.
    #[inline]
    pub fn op(self) -> Option<Op> {
        if self.is_request() { Op::from_number(self as u8) } else { None }
    }

    /// Returns whether it goes from requester to responder.
    #[inline]
    pub fn is_request(self) -> bool {
        (self as u8) < FrameKind::Ack as u8
    }
}

bitflags::bitflags! {
    /// Bits of a frame.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct FrameFlags: u8 {
        /// The message begins here.
        const FIRST = 1;
        /// The message ends here.
        const LAST = 1 << 1;
        /// `imm` is immediate data.
        const IMM = 1 << 2;
        /// `imm` is a key to invalidate.
        const INV = 1 << 3;
        /// The peer asked for a solicited event.
        const SOLICITED = 1 << 4;
        /// The payload is a gather list: the receiver fetches the bytes from the sender's memory.
        const RENDEZVOUS = 1 << 5;
        /// The bytes of the WRITE are already in the destination memory.
        const DATA_IN_PLACE = 1 << 6;
        /// `ack` is valid.
        const ACK = 1 << 7;
    }
}

/// A frame in a ring, without the payload. Fields that a kind does not use are zero. Its layout is that of the ring, so
/// that it is read and written in whole words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Frame {
    /// Its kind.
    pub kind: FrameKind,
    /// Its bits.
    pub flags: FrameFlags,
    /// Number of restarts of the requester; answers repeat it.
    pub epoch: u8,
    /// Syndrome, timer, or kind of FLUSH.
    pub code: u8,
    /// Destination queue pair.
    pub dest_qpn: Qpn,
    /// Source queue pair.
    pub src_qpn: Qpn,
    /// Number of the request.
    pub seq: u32,
    /// Number of the first request not yet executed.
    pub ack: u32,
    /// Immediate data (network order as given), or a key.
    pub imm: u32,
    /// Bytes of the whole message.
    pub total: u32,
    /// R_Key; number of the SRQ (XRC sends); Q_Key (datagrams).
    pub key: u32,
    /// SRQ at the target (XRC).
    pub srqn: u32,
    /// Bytes of payload; [`crate::Peers::push`] sets it.
    pub bytes: u32,
    /// Address at the target; for a datagram over a fabric, its destination LID.
    pub addr: u64,
}

impl Frame {
    /// Creates a frame from one queue pair to another, all else zero.
    #[inline]
    pub fn new(kind: FrameKind, src_qpn: Qpn, dest_qpn: Qpn) -> Frame {
        Frame {
            kind,
            flags: FrameFlags::empty(),
            epoch: 0,
            code: 0,
            dest_qpn,
            src_qpn,
            seq: 0,
            ack: 0,
            imm: 0,
            total: 0,
            key: 0,
            addr: 0,
            srqn: 0,
            bytes: 0,
        }
    }
}

/// Checked memory of this process: host address and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostRange {
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
}

/// Data of a frame, or for a peer's memory.
#[derive(Clone, Copy, Debug)]
pub enum Outgoing<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// The contents of local memory.
    Memory(&'a [HostRange]),
    /// The list itself, from which the peer fetches the data ([`FrameFlags::RENDEZVOUS`]).
    List(&'a [Sge]),
}

impl Outgoing<'_> {
    /// Nothing.
    pub const NONE: Outgoing<'static> = Outgoing::Bytes(&[]);

    /// Returns the total number of bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        match self {
            Outgoing::Bytes(bytes) => bytes.len() as u64,
            Outgoing::Memory(ranges) => ranges.iter().map(|range| range.len).sum(),
            Outgoing::List(list) => size_of_val(*list) as u64,
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
