//! Sharing of one peer by the queue pairs that have data in flight to it. Each has a window of its own, but a thousand
//! windows exceed any peer's socket buffer: the overflow is lost, retransmitted, and lost again. So all of them
//! together keep to one limit, and each busy one gets an equal share.
//!
//! A share of a packet or two would make each packet a message of its own, with its own acknowledgement and its own
//! visit to a queue pair that has left the cache. So there are places, each worth a run of packets, and when all are
//! taken the other queue pairs wait in line (the owner keeps the order and calls [`Share::admit`]). A queue pair leaves
//! its place when everything it sent is acknowledged, and while others wait it sends no more than its run. It also
//! leaves at once when the peer stops answering or tells it to wait: no queue pair waits for a peer that does not
//! answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes in flight to one peer from all queue pairs together: two of the largest windows.
const BYTES_MAX: u64 = 2 << 20;
/// Number of places.
const PLACES: u32 = 64;
/// Bytes that a queue pair may send from a place while others wait for one.
const RUN_BYTES: u64 = BYTES_MAX / PLACES as u64;

/// The queue pairs of a process that send to one peer, shared by all clones.
#[derive(Clone, Debug, Default)]
pub struct PeerQuota(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Number of queue pairs with a place.
    busy: AtomicU32,
    /// Number of queue pairs in line for one.
    waiting: AtomicU32,
}

impl PeerQuota {
    /// Returns whether this is the only clone.
    pub fn is_unused(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Returns whether a place is free.
    pub fn has_place(&self) -> bool {
        self.0.busy.load(Ordering::Relaxed) < PLACES
    }

    /// Sets the number of queue pairs in line.
    pub fn set_waiting(&self, count: usize) {
        self.0.waiting.store(count as u32, Ordering::Relaxed);
    }

    fn is_awaited(&self) -> bool {
        self.0.waiting.load(Ordering::Relaxed) > 0
    }
}

/// A queue pair's membership: it counts as busy while it has a place, and never after it is gone.
#[derive(Debug, Default)]
pub(crate) struct Share {
    peer_quota: Option<PeerQuota>,
    busy: bool,
    /// Whether it wants to send and must wait for a place.
    waits: bool,
    /// Packets sent from the place.
    sent: u64,
}

impl Share {
    pub fn of(peer_quota: &PeerQuota) -> Share {
        Share { peer_quota: Some(peer_quota.clone()), ..Share::default() }
    }

    /// Returns whether a new packet may be sent; if not, the queue pair waits from now on.
    #[inline]
    pub fn enter(&mut self, mtu: u32) -> bool {
        let Some(peer_quota) = &self.peer_quota else { return true };
        if self.waits {
            return false;
        }
        let awaited = peer_quota.is_awaited();
        if self.busy {
            self.waits = awaited && self.sent >= run(mtu);
        } else if awaited || !peer_quota.has_place() {
            self.waits = true;
        } else {
            self.take_place();
        }
        !self.waits
    }

    /// Gives it a place: it is first in line, and one is free.
    pub fn admit(&mut self) {
        self.waits = false;
        self.take_place();
    }

    fn take_place(&mut self) {
        self.sent = 0;
        if let Some(PeerQuota(counts)) = &self.peer_quota
            && !std::mem::replace(&mut self.busy, true)
        {
            counts.busy.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns whether it wants to send and must wait for a place.
    #[inline]
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// Counts new packets. Returns whether they complete the run while others wait.
    #[inline]
    pub fn spend(&mut self, packets: u64, mtu: u32) -> bool {
        self.sent += packets;
        self.sent >= run(mtu) && self.peer_quota.as_ref().is_some_and(PeerQuota::is_awaited)
    }

    /// Returns whether nothing was sent from the place yet.
    #[inline]
    pub fn is_unused(&self) -> bool {
        self.sent == 0
    }

    /// Leaves the place, if it has one.
    #[inline]
    pub fn leave(&mut self) {
        if let Some(PeerQuota(counts)) = &self.peer_quota
            && std::mem::take(&mut self.busy)
        {
            counts.busy.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of packets that it may have in flight. It is at least one, since only an acknowledgement
    /// makes the queue pair check again.
    pub fn packets(&self, mtu: u32) -> u64 {
        let Some(PeerQuota(counts)) = &self.peer_quota else { return u64::MAX };
        let busy = u64::from(counts.busy.load(Ordering::Relaxed)).max(1);
        (BYTES_MAX / busy / u64::from(mtu)).max(1)
    }
}

/// Returns the packets of a run.
fn run(mtu: u32) -> u64 {
    (RUN_BYTES / u64::from(mtu)).max(1)
}

impl Drop for Share {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busy_share_alike_and_leave_nothing_behind() {
        let peer_quota = PeerQuota::default();
        let mut shares: Vec<Share> = (0..4).map(|_| Share::of(&peer_quota)).collect();
        assert_eq!(shares[0].packets(4096), 512, "nobody is busy");
        for share in &mut shares {
            assert!(share.enter(4096));
            assert!(share.enter(4096));
        }
        assert_eq!(shares[0].packets(4096), 128);
        shares[0].leave();
        shares.truncate(2);
        assert_eq!(shares[1].packets(4096), 512);
        shares.clear();
        assert!(peer_quota.is_unused());
        assert_eq!(peer_quota.0.busy.load(Ordering::Relaxed), 0);
        assert_eq!(Share::default().packets(4096), u64::MAX);
    }

    #[test]
    fn when_all_places_are_taken_the_others_wait_and_nobody_sends_more_than_a_run() {
        let peer_quota = PeerQuota::default();
        let mut shares: Vec<Share> = (0..=PLACES).map(|_| Share::of(&peer_quota)).collect();
        let (last, first) = shares.split_last_mut().unwrap();
        for share in first.iter_mut() {
            assert!(share.enter(4096));
            assert!(!share.spend(100, 4096), "nobody waits");
            assert!(share.enter(4096));
        }
        assert!(!last.enter(4096) && last.waits());
        peer_quota.set_waiting(1);
        assert!(!first[0].enter(4096) && first[0].waits(), "its run is over");
        peer_quota.set_waiting(2);
        first[1].leave();
        assert!(!last.enter(4096) && peer_quota.has_place(), "it is not told yet that it is its turn");
        last.admit();
        assert!(last.is_unused() && last.enter(4096) && !peer_quota.has_place());
        assert!(!last.spend(7, 4096) && last.enter(4096));
        assert!(last.spend(1, 4096) && !last.enter(4096));
        first[0].admit();
        assert!(first[0].enter(4096), "it has its place still");
        assert_eq!(peer_quota.0.busy.load(Ordering::Relaxed), PLACES);
    }
}
