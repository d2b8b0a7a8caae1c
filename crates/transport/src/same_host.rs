//! The other processes of this host, as a queue pair uses them: no packets pass between two queue pairs of one host.
//!
//! There are two paths to a peer. A *lane* carries frames, in order and without loss, and the peer's own process
//! executes them. A *direct* access is executed by the initiator alone: it looks up the peer's key on the *board* that
//! the peer published, and copies. A request that the direct path cannot execute, or finds faulty in any way, goes as a
//! frame, so that one place, the target, reports every fault.
//!
//! ```text
//!   initiator                                  target
//!   post WRITE ── direct: board, copy ───────▶ memory          no work for the target
//!   post SEND  ── frame ──▶ lane ────────────▶ responder ──▶ receive queue, completion
//!              ◀── frame (ack, RNR, NAK) ───── lane
//! ```
//!
//! All input here is hostile until checked: a peer may be another user's process, and its writes to shared memory are
//! untrusted. Implementations return only frames of a known kind whose sizes fit; the transport checks the values in
//! them.

use weft_verbs::op::Operands;
use weft_verbs::{Access, DeviceId, Op, PdId, Qpn, Sge};

/// Most payload of one frame; longer messages take several.
pub const FRAME_BYTES_MAX: u32 = 16 << 10;

/// A process of this host that this process has met, or this process itself. Its number is not reused after its death.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerId(pub u32);

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
    /// Converts the number in a lane.
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

/// A frame in a lane, without the payload. Fields that a kind does not use are zero. Its layout is that of the lane, so
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
    /// Bytes of payload; [`SameHost::push`] sets it.
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

/// A direct access to a peer's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Direct {
    /// The peer.
    pub peer: PeerId,
    /// The local queue pair.
    pub qpn: Qpn,
    /// The peer's queue pair.
    pub dest_qpn: Qpn,
    /// R_Key.
    pub key: u32,
    /// Address.
    pub addr: u64,
    /// Bytes from there on that the key must cover: this copy, and the rest of the message.
    pub whole: u64,
    /// The right that the key and the peer's queue pair must grant.
    pub need: Access,
}

/// An atomic operation on eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOp {
    /// Store `swap` if the value is `compare`.
    CompareSwap {
        /// The expected value.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// Add.
    FetchAdd(u64),
    /// Store eight bytes, in memory order.
    Store([u8; 8]),
}

impl AtomicOp {
    /// Composes an operation on eight bytes; `None` for an operation of another kind.
    #[inline]
    pub fn of(op: Op, Operands { compare, value }: Operands) -> Option<AtomicOp> {
        Some(match op {
            Op::CompareSwap => AtomicOp::CompareSwap { compare, swap: value },
            Op::FetchAdd => AtomicOp::FetchAdd(value),
            Op::AtomicWrite => AtomicOp::Store(value.to_ne_bytes()),
            _ => return None,
        })
    }
}

/// Bytes of a value that is accessed atomically.
pub(crate) const WORD_BYTES: u64 = 8;

/// Most bytes of operands in a frame.
pub(crate) const OPERANDS_MAX: usize = 16;

/// Returns the bytes of operands in a frame of an operation: the value, after the expected one if the operation
/// compares.
fn operand_bytes(op: Op) -> usize {
    match AtomicOp::of(op, Operands::default()) {
        Some(AtomicOp::CompareSwap { .. }) => 16,
        Some(_) => 8,
        None => 0,
    }
}

/// Writes the operands of a frame.
pub(crate) fn operands(op: Op, Operands { compare, value }: Operands, out: &mut [u8; OPERANDS_MAX]) -> &[u8] {
    let bytes = operand_bytes(op);
    let first = if bytes == OPERANDS_MAX { compare } else { value };
    out[..8].copy_from_slice(&first.to_ne_bytes());
    out[8..].copy_from_slice(&value.to_ne_bytes());
    &out[..bytes]
}

/// Reads the operands of a frame of `len` bytes; `None` if the operation has operands of another length.
pub(crate) fn read_operands(op: Op, bytes: &[u8; OPERANDS_MAX], len: u32) -> Option<Operands> {
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    match operand_bytes(op) {
        0 => Some(Operands::default()),
        wanted if wanted != len as usize => None,
        OPERANDS_MAX => Some(Operands { compare: word(0), value: word(8) }),
        _ => Some(Operands { compare: 0, value: word(0) }),
    }
}

/// A local key that peers may use directly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyView {
    /// The key.
    pub key: u32,
    /// Its protection domain.
    pub pd: PdId,
    /// The only queue pair that may use it (windows of type 2).
    pub qpn: Option<Qpn>,
    /// Virtual address of its first byte.
    pub base: u64,
    /// Bytes.
    pub len: u64,
    /// Host address of its first byte.
    pub host: u64,
    /// Its access rights.
    pub access: Access,
}

/// A connected local queue pair that peers may access directly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpView {
    /// Its number.
    pub qpn: Qpn,
    /// The process of its peer.
    pub peer: PeerId,
    /// Its peer's number.
    pub dest_qpn: Qpn,
    /// Its protection domain.
    pub pd: PdId,
    /// Access rights of its peer.
    pub access: Access,
}

/// How data reaches a peer, for people to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Direct access to its memory, by plain copies where pages are shared.
    Memory,
    /// Direct access to its memory through the kernel.
    Kernel,
    /// Only through the lane.
    Lane,
}

/// A path over the InfiniBand fabric to a process of this host, as packets would take it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FabricWay {
    /// Local device.
    pub device: DeviceId,
    /// Its port.
    pub port: u8,
    /// Destination LID.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// P_Key.
    pub pkey: u16,
    /// Bytes of payload of the longest packet.
    pub mtu: u16,
    /// Slot of the peer's process.
    pub slot: u32,
    /// Whether answers must arrive too.
    pub there_and_back: bool,
}

/// State of such a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WayState {
    /// Packets arrive at this process.
    Open(PeerId),
    /// Packets do not arrive.
    Closed,
    /// Not known yet; a query is under way.
    Asked,
}

/// Lanes, boards and direct copies. The defaults are those of a process that has met no other.
#[allow(unused_variables)]
pub trait SameHost {
    /// Puts a frame into the lane to a peer. `false`: there is no room now; the transport tries again.
    fn push(&mut self, peer: PeerId, frame: &Frame, payload: Outgoing<'_>) -> bool {
        false
    }

    /// Returns the write position of the lane to a peer.
    fn lane_mark(&self, peer: PeerId) -> u64 {
        0
    }

    /// Returns whether the peer has taken everything before that mark out of the lane.
    fn is_taken(&self, peer: PeerId, mark: u64) -> bool {
        true
    }

    /// Returns the same for a living peer: one that has not opened its lane yet has taken nothing.
    fn has_taken(&self, peer: PeerId, mark: u64) -> bool {
        self.is_taken(peer, mark)
    }

    /// Returns the process with this slot of the queue pair numbers, if this process has met it. If not, it may do so
    /// now, for the next call.
    fn neighbour(&mut self, slot: u32) -> Option<PeerId> {
        None
    }

    /// Returns whether datagrams arrive by this path over the fabric. An unknown state is queried for the next call.
    fn fabric_way(&mut self, way: &FabricWay) -> WayState {
        WayState::Closed
    }

    /// Lists the processes that receive datagrams to a group by this path over the fabric, this one included if it
    /// listens. `false`: not known; it is queried for the next call.
    fn fabric_group(&mut self, way: &FabricWay, peers: &mut Vec<PeerId>) -> bool {
        true
    }

    /// Returns whether the peer's process is alive.
    fn is_alive(&self, peer: PeerId) -> bool {
        false
    }

    /// Returns a peer with a frame waiting in its lane; peers take turns.
    fn arrival(&mut self) -> Option<PeerId> {
        None
    }

    /// Returns the next frame from a peer. It is the current one until [`SameHost::end_frame`], which must follow.
    fn next_frame(&mut self, peer: PeerId) -> Option<Frame> {
        None
    }

    /// Copies payload of the current frame, from `offset` on, into local memory; bytes beyond its end are left out.
    fn place(&mut self, offset: u32, to: HostRange) {}

    /// Copies payload of the current frame, from `offset` on; bytes beyond its end are left out.
    fn peek(&self, offset: u32, out: &mut [u8]) {}

    /// Frees the current frame's room.
    fn end_frame(&mut self) {}

    /// Copies from a peer's memory, from `offset` in the element of its list. `false`: that is impossible.
    fn fetch(&mut self, peer: PeerId, from: &Sge, offset: u64, to: HostRange) -> bool {
        false
    }

    /// Returns how a peer's memory is accessed, as far as known.
    fn reach(&self, peer: PeerId) -> Reach {
        Reach::Lane
    }

    /// WRITEs into a peer's memory. `false`: nothing was written, or an unknown part; use frames instead.
    fn write_direct(&mut self, at: &Direct, from: Outgoing<'_>) -> bool {
        false
    }

    /// READs from a peer's memory; `false`: as for [`SameHost::write_direct`].
    fn read_direct(&mut self, at: &Direct, to: &[HostRange]) -> bool {
        false
    }

    /// Executes an atomic operation on a peer's memory; `None`: nothing was done.
    fn atomic_direct(&mut self, at: &Direct, op: AtomicOp) -> Option<u64> {
        None
    }

    /// Lets peers use a key directly. Replaces any earlier entry of that number.
    fn publish_key(&mut self, key: &KeyView) {}

    /// Ends direct use. When it returns, no copy by this key is in progress.
    fn revoke_key(&mut self, key: u32) {}

    /// Lets its peer access a queue pair directly. Replaces any earlier entry of that number.
    fn publish_qp(&mut self, qp: &QpView) {}

    /// Ends direct access. When it returns, no copy through the queue pair is in progress.
    fn revoke_qp(&mut self, qpn: Qpn) {}
}
