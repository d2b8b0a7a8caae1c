//! Copies into and out of a peer's memory by this process alone. The order is essential: announce, look up, copy,
//! withdraw. The owner that removes a key waits for the announcement to be withdrawn.

use std::sync::atomic::{AtomicU64, Ordering};

use weft_transport::frame::{HostRange, Outgoing};
use weft_transport::peers::{Direct, Reach};
use weft_transport::word::AtomicOp;
use weft_verbs::Sge;

use super::copy::{copy, deliver, is_null, pointer};
use super::host::Host;
use super::kernel::Way;
use super::key_directory_view::Place;
use super::peer::{Peer, Us};

impl Host {
    /// Runs `act` on a living peer while this process's key directory announces a copy from or to it. Copies within
    /// this process need no announcement: its own revocations wait for the lock that the caller holds.
    #[inline]
    pub(super) fn announced<R>(&mut self, index: u32, act: impl FnOnce(&mut Peer, Us) -> Option<R>) -> Option<R> {
        let peer = self.peers.get_mut(index as usize)?.as_deref_mut()?;
        if !peer.alive {
            return None;
        }
        if peer.own {
            return act(peer, self.us);
        }
        if !peer.knows(&self.directory) {
            return None;
        }
        self.directory.announce(peer.slot);
        let result = act(peer, self.us);
        self.directory.withdraw();
        result
    }

    #[inline]
    pub(super) fn copy_there(&mut self, at: &Direct, from: Outgoing<'_>) -> Option<()> {
        let one;
        let ranges = match from {
            Outgoing::Memory(ranges) => ranges,
            Outgoing::Bytes(bytes) => {
                one = [HostRange { addr: bytes.as_ptr().expose_provenance() as u64, len: bytes.len() as u64 }];
                &one
            }
            Outgoing::List(_) => return None,
        };
        self.announced(at.peer.0, |peer, us| {
            let place = peer.find(us, at, sum(ranges)?)?;
            peer.copy(Way::There, ranges, place)
        })
    }

    pub(super) fn copy_here(&mut self, at: &Direct, to: &[HostRange]) -> Option<()> {
        self.announced(at.peer.0, |peer, us| {
            let place = peer.find(us, at, sum(to)?)?;
            peer.copy(Way::Here, to, place)
        })
    }

    /// Works only on pages that are mapped here: the kernel has no atomic operation on another process's memory.
    pub(super) fn act_there(&mut self, at: &Direct, op: AtomicOp) -> Option<u64> {
        self.announced(at.peer.0, |peer, us| {
            let place = peer.find(us, at, 8)?;
            let word = match (peer.own, place.arena) {
                (true, _) => pointer(place.host),
                (false, Some(offset)) => peer.arena.as_mut()?.slice(offset, 8)?,
                (false, None) => return None,
            };
            if !(word as usize).is_multiple_of(8) {
                return None;
            }
            peer.reach = Reach::Memory;
            // SAFETY: eight aligned bytes of a peer's arena that is mapped here and cannot become shorter, or of this
            // process's registered memory; every access that we make to them is atomic.
            Some(carry_out(unsafe { AtomicU64::from_ptr(word.cast()) }, op))
        })
    }

    /// Copies from an element of a peer's own gather list: its key needs to grant no right for that.
    pub(super) fn fetch_named(&mut self, index: u32, from: &Sge, offset: u64, to: HostRange) -> Option<()> {
        if offset.checked_add(to.len)? > u64::from(from.length) {
            return None;
        }
        self.announced(index, |peer, _| {
            let key = peer.view.as_ref()?.find_key(from.lkey)?;
            let place = key.place(from.addr.checked_add(offset)?, to.len, to.len)?;
            peer.copy(Way::Here, &[to], place)
        })
    }
}

impl Peer {
    /// Returns how its memory is reached, as far as known.
    #[inline]
    pub(super) fn reach(&self) -> Reach {
        let kernel = self.kernel.as_ref().is_some_and(|kernel| kernel.is_possible());
        match self.reach {
            _ if !self.alive => Reach::Ring,
            Reach::Kernel if !kernel && self.arena.is_some() => Reach::Memory,
            Reach::Kernel if !kernel => Reach::Ring,
            reach => reach,
        }
    }

    /// Makes all checks that the target would make, from its key directory.
    #[inline]
    fn find(&self, us: Us, at: &Direct, len: u64) -> Option<Place> {
        let view = self.view.as_ref()?;
        let need = at.need.bits();
        let qp = view.find_qp(at.dest_qpn)?;
        if qp.dest_qpn != at.qpn || qp.slot != us.slot || qp.generation != us.generation || qp.access & need != need {
            return None;
        }
        let key = view.find_key(at.key)?;
        let may = key.pd == qp.pd && key.access & need == need && key.qpn.is_none_or(|qpn| qpn == at.dest_qpn);
        if may && len > 0 { key.place(at.addr, len, at.whole) } else { None }
    }

    /// Copies between ranges of this process and a found place.
    #[inline]
    fn copy(&mut self, way: Way, ours: &[HostRange], place: Place) -> Option<()> {
        if self.own {
            return copy_own(way, ours, place.host);
        }
        if let Some(offset) = place.arena
            && let Some(arena) = &mut self.arena
            && let Some(there) = arena.slice(offset, sum(ours)?)
        {
            self.reach = Reach::Memory;
            // SAFETY: `slice` mapped as many bytes as all ranges have; the ranges are checked memory of ours, which is
            // no part of a peer's arena.
            return unsafe { copy_shared(way, ours, there) };
        }
        self.reach = Reach::Kernel;
        self.kernel.as_mut()?.copy(way, ours, place.host).then_some(())
    }
}

fn sum(ranges: &[HostRange]) -> Option<u64> {
    ranges.iter().try_fold(0u64, |sum, range| sum.checked_add(range.len))
}

/// # Safety
/// `there` has as many bytes as all ranges; the ranges may be read or written, and do not overlap it.
#[inline]
unsafe fn copy_shared(way: Way, ours: &[HostRange], mut there: *mut u8) -> Option<()> {
    for range in ours {
        if is_null(*range) {
            return None;
        }
        let (here, len) = (pointer(range.addr), range.len as usize);
        // SAFETY: as the caller promised.
        unsafe {
            match way {
                Way::There => deliver(here, there, len),
                Way::Here => copy(there, here, len),
            }
            there = there.add(len);
        }
    }
    Some(())
}

/// Copies within this process's memory, where the two may overlap.
fn copy_own(way: Way, ours: &[HostRange], mut there: u64) -> Option<()> {
    for range in ours {
        if is_null(*range) {
            return None;
        }
        let (here, len) = (pointer(range.addr), range.len as usize);
        let (from, to) = match way {
            Way::There => (here, pointer(there)),
            Way::Here => (pointer(there), here),
        };
        // SAFETY: both are registered memory of our own that was checked, the one by the adapter, the other against our
        // own key directory just now.
        unsafe { std::ptr::copy(from, to, len) };
        there = there.wrapping_add(range.len);
    }
    Some(())
}

fn carry_out(word: &AtomicU64, op: AtomicOp) -> u64 {
    match op {
        AtomicOp::CompareSwap { compare, swap } => {
            let (Ok(was) | Err(was)) = word.compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst);
            was
        }
        AtomicOp::FetchAdd(add) => word.fetch_add(add, Ordering::SeqCst),
        AtomicOp::Store(bytes) => {
            word.store(u64::from_ne_bytes(bytes), Ordering::Release);
            0
        }
    }
}
