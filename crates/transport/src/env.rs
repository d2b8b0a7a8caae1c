//! Interface of a queue pair to its adapter: memory, completion queues, shared receive queues, keys, events. The
//! transport names memory by (key, address, length); [`Env`] checks bounds and rights and returns a host address;
//! [`Memory`] moves the bytes. So the transport itself does no I/O.

use smallvec::SmallVec;
use weft_verbs::{Access, AsyncEvent, AsyncSubject, Cookie, CqId, MwBind, PdId, Qpn, Sge, SrqId, Wc, WcStatus, XrcdId};

use crate::{Budget, Datagram, Peers};

/// Reads and writes of registered memory, by host address. Addresses come from [`Env::local`] and [`Env::remote`],
/// which have checked them, or, for reads only, from the list of a work request posted inline, which is the program's
/// own memory.
pub trait Memory {
    /// Returns whether `len` bytes at `addr` are accessible now (and writable, if `write`). Called for regions whose
    /// memory need not exist before its first use.
    fn is_there(&self, _addr: u64, _len: u64, _write: bool) -> bool {
        true
    }
    /// Fills `out` from `addr`.
    fn read(&self, addr: u64, out: &mut [u8]);
    /// Stores `data` at `addr`.
    fn write(&mut self, addr: u64, data: &[u8]);
    /// Stores bytes of a datagram at `addr`. No connection keeps peers from sending while a program ends its queue pair, and
    /// libraries with registration caches (UCX) unmap the memory of receives before that: bytes for memory that is not
    /// mapped any more are dropped, as an adapter writes them to pages that nobody else has.
    fn write_datagram(&mut self, addr: u64, data: &[u8]) {
        self.write(addr, data);
    }
    /// Stores `swap` if the 8 bytes at `addr` (aligned, host order) equal `compare`; returns the original value. Atomic
    /// with respect to the processor's own atomic instructions.
    fn compare_swap(&mut self, addr: u64, compare: u64, swap: u64) -> u64;
    /// Adds to the 8 bytes at `addr`; returns the original value. Equally atomic.
    fn fetch_add(&mut self, addr: u64, add: u64) -> u64;
    /// Stores 8 bytes (given in memory order) atomically.
    fn store_u64(&mut self, addr: u64, value: [u8; 8]);
    /// Makes earlier writes to the range visible (and, if requested, persistent).
    fn flush(&mut self, addr: u64, len: u64, persistent: bool);
}

/// A receive work request taken from its queue.
#[derive(Clone, Debug, Default)]
pub struct RecvWqe {
    /// The program's number.
    pub wr_id: u64,
    /// Destination of the message.
    pub sges: SmallVec<[Sge; 2]>,
    /// Status with which it completes instead of taking a message; of an injected failure, otherwise success.
    pub injected: WcStatus,
}

/// Copies a list; most have one element, for which no general copy is called.
#[inline]
pub(crate) fn refill(list: &mut SmallVec<[Sge; 2]>, from: &[Sge]) {
    list.clear();
    match from {
        [one] => list.push(*one),
        _ => list.extend_from_slice(from),
    }
}

/// Reason why a peer's access was refused (each becomes a remote access NAK on RC).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemoteFault {
    /// No such key, or it was invalidated.
    BadKey,
    /// The key belongs to another protection domain or queue pair.
    WrongDomain,
    /// The range is outside the region or window.
    OutOfBounds,
    /// The region does not grant this right.
    NoRight,
}

/// SRQ that an XRC packet names by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XrcSrq {
    /// The SRQ.
    pub srq: SrqId,
    /// Its protection domain, against which receives are checked.
    pub pd: PdId,
    /// Its completion queue.
    pub cq: CqId,
}

/// The adapter, as one queue pair sees it.
pub trait Env {
    /// The memory type.
    type Memory: Memory;
    /// The type of the other processes of this host.
    type Peers: Peers;

    /// Returns the registered memory.
    fn memory(&mut self) -> &mut Self::Memory;

    /// Returns the other processes of this host.
    fn peers(&mut self) -> &mut Self::Peers;

    /// Sends a datagram that reaches its destination without a packet: a process of this host, or one behind a fabric
    /// that carries no packets, where it may be lost. `false`: it must leave as a packet.
    fn send_within_host(&mut self, datagram: &Datagram<'_>) -> bool;

    /// Counts a frame from a queue pair to another, lost because the path between them over the fabric is closed.
    fn lose_frame(&mut self, src_qpn: Qpn, dest_qpn: Qpn);

    /// Returns the budget of all queue pairs together for packets that arrived too early.
    fn reorder_budget(&self) -> &Budget;

    /// Checks a local element: the key exists in `pd`, the range is inside the region, and the region grants local
    /// write if `write`. Returns the host address. Not called for zero-length elements.
    fn local(&self, pd: PdId, sge: &Sge, write: bool) -> Result<u64, WcStatus>;

    /// Checks a peer's access of `len` > 0 bytes by `rkey` (region or window) through queue pair `qpn` of `pd`. Returns
    /// the host address.
    fn remote(&self, pd: PdId, qpn: Qpn, rkey: u32, va: u64, len: u64, need: Access) -> Result<u64, RemoteFault>;

    /// Returns the whole range of a remote key (FLUSH of a whole region): (va, length).
    fn remote_range(&self, pd: PdId, qpn: Qpn, rkey: u32) -> Result<(u64, u64), RemoteFault>;

    /// Adds a completion to a CQ. The CQ handles overflow (it raises CQ_ERR and the queue pairs on it fail).
    fn complete(&mut self, cq: CqId, wc: Wc);

    /// Takes the next receive of a shared receive queue; raises SRQ_LIMIT_REACHED when the limit is passed.
    fn srq_take(&mut self, srq: SrqId) -> Option<RecvWqe>;

    /// Returns whether a shared receive queue has a receive (without taking it).
    fn srq_has(&self, srq: SrqId) -> bool;

    /// Finds the SRQ that an XRC packet names, if it is in the domain.
    fn xrc_srq(&self, xrcd: XrcdId, srqn: u32) -> Option<XrcSrq>;

    /// Binds a memory window on behalf of queue pair `qpn` (type 2: the window then belongs to it).
    fn bind_mw(&mut self, pd: PdId, qpn: Qpn, bind: &MwBind) -> Result<(), WcStatus>;

    /// Invalidates a local key for LOCAL_INV.
    fn invalidate_local(&mut self, pd: PdId, qpn: Qpn, key: u32) -> Result<(), WcStatus>;

    /// Invalidates the key of a SEND with Invalidate.
    fn invalidate_remote(&mut self, pd: PdId, qpn: Qpn, rkey: u32) -> Result<(), RemoteFault>;

    /// Raises an asynchronous event about an object of this process.
    fn event(&mut self, event: AsyncEvent, subject: AsyncSubject, cookie: Cookie);
}
