//! What a queue pair needs from the adapter around it: memory, completion queues, shared receive queues, keys, events.
//! The transport names memory by (key, address, length); [`Env`] checks bounds and rights and answers with a host
//! address; [`Memory`] moves the bytes. So the transport itself is values in, values out.

use smallvec::SmallVec;
use weft_verbs::{Access, AsyncEvent, AsyncSubject, Cookie, CqId, MwBind, PdId, Qpn, Sge, SrqId, Wc, WcStatus, XrcdId};

use crate::{Budget, SameHost};

/// Reads and writes of registered memory, by host address. Addresses come from [`Env::local`] and [`Env::remote`],
/// which have checked them; and, to be read, from the list of a work request posted inline, which is the program's own
/// memory.
pub trait Memory: SameHost {
    /// Whether `len` bytes at `addr` can be touched now (and changed, if `write`). Asked for regions whose memory need
    /// not be there before it is used.
    fn is_there(&self, _addr: u64, _len: u64, _write: bool) -> bool {
        true
    }
    /// Fill `out` from `addr`.
    fn read(&self, addr: u64, out: &mut [u8]);
    /// Store `data` at `addr`.
    fn write(&mut self, addr: u64, data: &[u8]);
    /// If the 8 bytes at `addr` (aligned, host order) equal `compare`, store `swap`; answer what was there. Atomic
    /// against the processor's own atomic instructions.
    fn compare_swap(&mut self, addr: u64, compare: u64, swap: u64) -> u64;
    /// Add to the 8 bytes at `addr`; answer what was there. Atomic likewise.
    fn fetch_add(&mut self, addr: u64, add: u64) -> u64;
    /// Store 8 bytes (given in memory order) in one go.
    fn store_u64(&mut self, addr: u64, value: [u8; 8]);
    /// Make earlier writes to the range visible (and, if asked, persistent).
    fn flush(&mut self, addr: u64, len: u64, persistent: bool);
}

/// A receive work request on its way to being filled.
#[derive(Clone, Debug, Default)]
pub struct RecvWqe {
    /// The program's number.
    pub wr_id: u64,
    /// Where the message goes.
    pub sges: SmallVec<[Sge; 2]>,
}

/// Make a list hold what another does; most have one element, for which no general copy is called.
#[inline]
pub(crate) fn refill(list: &mut SmallVec<[Sge; 2]>, from: &[Sge]) {
    list.clear();
    match from {
        [one] => list.push(*one),
        _ => list.extend_from_slice(from),
    }
}

/// Why a peer's access was refused (all become a remote access NAK on RC).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemoteFault {
    /// No such key, or it was invalidated.
    BadKey,
    /// The key belongs to another protection domain or queue pair.
    WrongDomain,
    /// The range is outside the region or window.
    OutOfBounds,
    /// The region does not grant this.
    NoRight,
}

/// An SRQ as an XRC packet finds it by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XrcSrq {
    /// The SRQ.
    pub srq: SrqId,
    /// Its protection domain: receives are checked against it.
    pub pd: PdId,
    /// Its completion queue.
    pub cq: CqId,
}

/// The adapter, as one queue pair sees it.
pub trait Env {
    /// The memory type.
    type Memory: Memory;

    /// Registered memory.
    fn memory(&mut self) -> &mut Self::Memory;

    /// What all queue pairs together may keep of packets that came too early.
    fn reorder_budget(&self) -> &Budget;

    /// Check a local element: the key exists in `pd`, the range lies inside, and the region grants local write if
    /// `write`. Answers the host address. Zero-length elements are not asked for.
    fn local(&self, pd: PdId, sge: &Sge, write: bool) -> Result<u64, WcStatus>;

    /// Check a peer's access of `len` > 0 bytes by `rkey` (region or window) through queue pair `qpn` of `pd`.
    /// Answers the host address.
    fn remote(&self, pd: PdId, qpn: Qpn, rkey: u32, va: u64, len: u64, need: Access) -> Result<u64, RemoteFault>;

    /// The whole range behind a remote key (FLUSH of a whole region): (va, length).
    fn remote_range(&self, pd: PdId, qpn: Qpn, rkey: u32) -> Result<(u64, u64), RemoteFault>;

    /// Put a completion on a CQ. Overflow is the CQ's business (it raises CQ_ERR and the queue pairs on it fail).
    fn complete(&mut self, cq: CqId, wc: Wc);

    /// Take the next receive of a shared receive queue; raises SRQ_LIMIT_REACHED when the mark is passed.
    fn srq_take(&mut self, srq: SrqId) -> Option<RecvWqe>;

    /// Whether a shared receive queue has a receive (without taking it).
    fn srq_has(&self, srq: SrqId) -> bool;

    /// Find the SRQ that an XRC packet names, if it is in the domain.
    fn xrc_srq(&self, xrcd: XrcdId, srqn: u32) -> Option<XrcSrq>;

    /// Bind a memory window on behalf of queue pair `qpn` (type 2: the window then belongs to it).
    fn bind_mw(&mut self, pd: PdId, qpn: Qpn, bind: &MwBind) -> Result<(), WcStatus>;

    /// Invalidate a local key by LOCAL_INV.
    fn invalidate_local(&mut self, pd: PdId, qpn: Qpn, key: u32) -> Result<(), WcStatus>;

    /// Invalidate the key that a SEND with Invalidate carried.
    fn invalidate_remote(&mut self, pd: PdId, qpn: Qpn, rkey: u32) -> Result<(), RemoteFault>;

    /// Raise an asynchronous event about an object of this process.
    fn event(&mut self, event: AsyncEvent, subject: AsyncSubject, cookie: Cookie);
}
