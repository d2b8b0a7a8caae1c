//! The other processes of this host, as a queue pair uses them: no packets pass between two queue pairs of one host.
//!
//! There are two paths to a peer. A *ring* carries frames, in order and without loss, and the peer's own process
//! executes them. A *direct* access is executed by the initiator alone: it looks up the peer's key on the *key directory*
//! that the peer published, and copies. A request that the direct path cannot execute, or finds faulty in any way, goes as a
//! frame, so that one place, the target, reports every fault.
//!
//! ```text
//!   initiator                                  target
//!   post WRITE ── direct: key, copy ─────────▶ memory          no work for the target
//!   post SEND  ── frame ──▶ ring ────────────▶ responder ──▶ receive queue, completion
//!              ◀── frame (ack, RNR, NAK) ───── ring
//! ```
//!
//! All input here is hostile until checked: a peer may be another user's process, and its writes to shared memory are
//! untrusted. Implementations return only frames of a known kind whose sizes fit; the transport checks the values in
//! them.

use weft_verbs::{Access, PdId, Qpn, Sge};

use crate::frame::{Frame, HostRange, Outgoing};
use crate::word::AtomicOp;

/// A process of this host that this process has met, or this process itself. Its number is not reused after its death.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerId(pub u32);

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
    /// Only through the ring.
    Ring,
}

/// Rings, key directories and direct copies. The defaults are those of a process that has met no other.
#[allow(unused_variables)]
pub trait Peers {
    /// Puts a frame into the ring to a peer. `false`: there is no room now; the transport tries again.
    fn push(&mut self, peer: PeerId, frame: &Frame, payload: Outgoing<'_>) -> bool {
        false
    }

    /// Returns the write position of the ring to a peer.
    fn ring_mark(&self, peer: PeerId) -> u64 {
        0
    }

    /// Returns whether the peer has taken everything before that mark out of the ring.
    fn is_taken(&self, peer: PeerId, mark: u64) -> bool {
        true
    }

    /// Returns the same for a living peer: one that has not opened its ring yet has taken nothing.
    fn has_taken(&self, peer: PeerId, mark: u64) -> bool {
        self.is_taken(peer, mark)
    }

    /// Returns the process with this slot of the queue pair numbers, if this process has met it.
    fn peer_of_slot(&self, slot: u32) -> Option<PeerId> {
        None
    }

    /// Does the same; if this process has not met it, it may do so now, for the next call.
    fn meet(&mut self, slot: u32) -> Option<PeerId> {
        self.peer_of_slot(slot)
    }

    /// Returns whether the peer's process is alive.
    fn is_alive(&self, peer: PeerId) -> bool {
        false
    }

    /// Returns a peer with a frame waiting in its ring; peers take turns.
    fn arrival(&mut self) -> Option<PeerId> {
        None
    }

    /// Returns the next frame from a peer. It is the current one until [`Peers::end_frame`], which must follow.
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
        Reach::Ring
    }

    /// WRITEs into a peer's memory. `false`: nothing was written, or an unknown part; use frames instead.
    fn write_direct(&mut self, at: &Direct, from: Outgoing<'_>) -> bool {
        false
    }

    /// READs from a peer's memory; `false`: as for [`Peers::write_direct`].
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

/// No process of this host is met.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPeers;

impl Peers for NoPeers {}
