//! The other processes of this host, as a queue pair uses them: no packets pass between two queue pairs of one host.
//!
//! Two ways lead to a peer. A *lane* carries frames, in order and without loss, and the peer's own process carries out
//! what they ask. A *direct* access is carried out by the initiator alone: it looks up the peer's key on the *board*
//! that the peer published and copies. Whatever the direct way cannot do, or finds wrong in any way, goes as a frame, so
//! that one place, the target, judges every fault.
//!
//! ```text
//!   initiator                                  target
//!   post WRITE ── direct: board, copy ───────▶ memory          no work for the target
//!   post SEND  ── frame ──▶ lane ────────────▶ responder ──▶ receive queue, completion
//!              ◀── frame (ack, RNR, NAK) ───── lane
//! ```
//!
//! Everything here is hostile until checked: a peer may be another user's process, and what it writes into shared memory
//! is bytes from outside. Implementations hand out frames whose kind is known and whose sizes fit; what the numbers in
//! them mean is for the transport to check.

use weft_verbs::{Access, DeviceId, PdId, Qpn, Sge};

/// Payload of one frame at most; longer messages are several.
pub const FRAME_BYTES_MAX: u32 = 16 << 10;

/// A process of this host that ours has met, our own among them. The number stays its own after it died.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerId(pub u32);

/// What a frame asks or answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// A part of a SEND.
    Send = 1,
    /// A part of an RDMA WRITE.
    Write = 2,
    /// An RDMA READ of `total` bytes.
    Read = 3,
    /// Compare and swap; the payload is both values.
    CompareSwap = 4,
    /// Fetch and add; the payload is the addend.
    FetchAdd = 5,
    /// ATOMIC WRITE; the payload is the value.
    AtomicWrite = 6,
    /// FLUSH of `total` bytes; `code` is placement type and selectivity level.
    Flush = 7,
    /// Everything before `ack` was carried out.
    Ack = 8,
    /// The frame `seq` found no receive; `code` is the timer.
    Rnr = 9,
    /// The frame `seq` was refused; `code` says why. The connection is over.
    Nak = 10,
    /// The frame `seq` was not looked at: the queue pair was not ready, or waits for an earlier one.
    Dropped = 11,
    /// Bytes of the READ `seq`, from offset `addr` on.
    ReadData = 12,
    /// What the atomic operation `seq` found; the payload is the value.
    AtomicResult = 13,
    /// A datagram.
    Datagram = 14,
}

impl FrameKind {
    /// From its number in a lane.
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

    /// Whether it goes from requester to responder.
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
        /// The payload is a gather list: the bytes are to be fetched from the sender's memory.
        const NAMED = 1 << 5;
        /// The bytes of the WRITE stand in their place already.
        const PLACED = 1 << 6;
        /// `ack` is valid.
        const ACK = 1 << 7;
    }
}

/// What stands in a lane, the payload aside. Fields that a kind does not use are zero. It is laid out as it stands there, so
/// that it is read and written by whole words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Frame {
    /// What it is.
    pub kind: FrameKind,
    /// Its bits.
    pub flags: FrameFlags,
    /// How often the requester began anew; answers repeat it.
    pub epoch: u8,
    /// Syndrome, timer, or kind of FLUSH.
    pub code: u8,
    /// Queue pair that it is for.
    pub dest_qpn: Qpn,
    /// Queue pair that it is from.
    pub src_qpn: Qpn,
    /// Number of the request.
    pub seq: u32,
    /// Number of the first request that was not carried out yet.
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
    /// Address at the target; the LID that a datagram over a fabric was sent to.
    pub addr: u64,
}

impl Frame {
    /// A frame from one queue pair to another, all else zero.
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

/// Memory of our own process that was checked: host address and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostRange {
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
}

/// What goes with a frame, or into a peer's memory.
#[derive(Clone, Copy, Debug)]
pub enum Outgoing<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// What stands in our memory.
    Memory(&'a [HostRange]),
    /// The list itself, for the peer to fetch what it names ([`FrameFlags::NAMED`]).
    List(&'a [Sge]),
}

impl Outgoing<'_> {
    /// Nothing.
    pub const NONE: Outgoing<'static> = Outgoing::Bytes(&[]);

    /// Bytes in all.
    #[inline]
    pub fn len(&self) -> u64 {
        match self {
            Outgoing::Bytes(bytes) => bytes.len() as u64,
            Outgoing::Memory(ranges) => ranges.iter().map(|range| range.len).sum(),
            Outgoing::List(list) => size_of_val(*list) as u64,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A direct access to a peer's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Direct {
    /// The peer.
    pub peer: PeerId,
    /// Our queue pair.
    pub qpn: Qpn,
    /// The peer's.
    pub dest_qpn: Qpn,
    /// R_Key.
    pub key: u32,
    /// Address.
    pub addr: u64,
    /// Bytes from there on that the key must cover: those copied now, and what is left of the message.
    pub whole: u64,
    /// The right that the key and the peer's queue pair must grant.
    pub need: Access,
}

/// An atomic operation on eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOp {
    /// Store `swap` if it is `compare`.
    CompareSwap {
        /// What is to be found.
        compare: u64,
        /// What is to be stored.
        swap: u64,
    },
    /// Add.
    FetchAdd(u64),
    /// Store eight bytes, in memory order.
    Store([u8; 8]),
}

/// A key of ours as peers may use it directly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyView {
    /// The key.
    pub key: u32,
    /// Its protection domain.
    pub pd: PdId,
    /// The queue pair that alone may use it (windows of type 2).
    pub qpn: Option<Qpn>,
    /// Address by which it names its first byte.
    pub base: u64,
    /// Bytes.
    pub len: u64,
    /// Host address of its first byte.
    pub host: u64,
    /// What it grants.
    pub access: Access,
}

/// A connected queue pair of ours that peers may address directly.
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
    /// What it lets its peer do.
    pub access: Access,
}

/// How bytes get to a peer, for people to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Its memory can be copied into and out of, by plain copies where pages are shared.
    Memory,
    /// Its memory can be copied into and out of by the kernel.
    Kernel,
    /// Only through the lane.
    Lane,
}

/// A way over the InfiniBand fabric to a process of this host, as packets would go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FabricWay {
    /// Our device.
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
    /// Answers must come back too.
    pub there_and_back: bool,
}

/// What is known of such a way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WayState {
    /// Packets arrive at this process.
    Open(PeerId),
    /// They do not.
    Closed,
    /// Nobody knows yet; it is being asked.
    Asked,
}

/// Lanes, boards and direct copies. The defaults are those of a process that met nobody.
#[allow(unused_variables)]
pub trait SameHost {
    /// Put a frame into the lane to a peer. `false`: there is no room now; the transport asks again.
    fn push(&mut self, peer: PeerId, frame: &Frame, payload: Outgoing<'_>) -> bool {
        false
    }

    /// How far the lane to a peer has been written.
    fn lane_mark(&self, peer: PeerId) -> u64 {
        0
    }

    /// Whether the peer has taken everything before that mark out of the lane.
    fn is_taken(&self, peer: PeerId, mark: u64) -> bool {
        true
    }

    /// The same, of a peer that lives: one that has not come to its lane yet has taken nothing.
    fn has_taken(&self, peer: PeerId, mark: u64) -> bool {
        self.is_taken(peer, mark)
    }

    /// The process that has this slot of the queue pair numbers, if ours met it. If it did not, it may do so now, for
    /// the next time that it is asked.
    fn neighbour(&mut self, slot: u32) -> Option<PeerId> {
        None
    }

    /// Whether datagrams arrive by this way over the fabric. What is not known is asked, for the next time.
    fn fabric_way(&mut self, way: &FabricWay) -> WayState {
        WayState::Closed
    }

    /// The processes that datagrams to a group arrive at by this way over the fabric, ours among them if it listens.
    /// `false`: it is not known; it is asked, for the next time.
    fn fabric_group(&mut self, way: &FabricWay, peers: &mut Vec<PeerId>) -> bool {
        true
    }

    /// Whether the peer's process is there.
    fn is_alive(&self, peer: PeerId) -> bool {
        false
    }

    /// A peer in whose lane a frame waits; peers take turns.
    fn arrival(&mut self) -> Option<PeerId> {
        None
    }

    /// The next frame from a peer. It is the current one until [`SameHost::end_frame`], which must follow.
    fn next_frame(&mut self, peer: PeerId) -> Option<Frame> {
        None
    }

    /// Copy payload of the current frame, from `offset` on, into our memory; what lies beyond its end is left out.
    fn place(&mut self, offset: u32, to: HostRange) {}

    /// Copy payload of the current frame, from `offset` on; what lies beyond its end is left out.
    fn peek(&self, offset: u32, out: &mut [u8]) {}

    /// Give the current frame's room back.
    fn end_frame(&mut self) {}

    /// Copy from a peer's memory, `offset` bytes into what its list's element names. `false`: that cannot be.
    fn fetch(&mut self, peer: PeerId, from: &Sge, offset: u64, to: HostRange) -> bool {
        false
    }

    /// How a peer's memory is reached, as far as is known.
    fn reach(&self, peer: PeerId) -> Reach {
        Reach::Lane
    }

    /// WRITE into a peer's memory. `false`: nothing was written, or nobody knows how much; it is to be asked by frames.
    fn write_direct(&mut self, at: &Direct, from: Outgoing<'_>) -> bool {
        false
    }

    /// READ from a peer's memory; likewise.
    fn read_direct(&mut self, at: &Direct, to: &[HostRange]) -> bool {
        false
    }

    /// An atomic operation on a peer's memory; `None`: nothing was done.
    fn atomic_direct(&mut self, at: &Direct, op: AtomicOp) -> Option<u64> {
        None
    }

    /// Let peers use a key directly. What stood under the number before is replaced.
    fn publish_key(&mut self, key: &KeyView) {}

    /// End that. When it returns, no copy by this key is under way.
    fn revoke_key(&mut self, key: u32) {}

    /// Let its peer address a queue pair directly. What stood under the number before is replaced.
    fn publish_qp(&mut self, qp: &QpView) {}

    /// End that. When it returns, no copy through the queue pair is under way.
    fn revoke_qp(&mut self, qpn: Qpn) {}
}
