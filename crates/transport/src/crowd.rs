//! Queue pairs that have something in flight to one peer. Each has a window of its own, and a thousand windows are more
//! than any peer's socket buffer holds: what overflows is lost, sent again, and lost again. So together they keep to a
//! bound, of which each that is busy has an equal share.
//!
//! A share of a packet or two would make each packet a message of its own, with its own acknowledgement and its own look
//! at a queue pair that has left the cache. So there are places, each worth a run of packets, and when all are taken the
//! others wait in line (whose order is the owner's to keep, [`Share::admit`] its means). Who has a place leaves it when
//! everything it sent is acknowledged, and while others wait it sends no more than its run. Who stops hearing from the
//! peer, or is told to wait, leaves its place at once: nobody waits for a peer that does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes in flight to one peer, all queue pairs together: two of the largest windows.
const BYTES_MAX: u64 = 2 << 20;
/// Places.
const PLACES: u32 = 64;
/// Bytes that are sent from a place while others wait for one.
const RUN_BYTES: u64 = BYTES_MAX / PLACES as u64;

/// The queue pairs of a process that send to one peer, seen alike by everybody who has a clone.
#[derive(Clone, Debug, Default)]
pub struct Crowd(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Those that have a place.
    busy: AtomicU32,
    /// Those in line for one.
    waiting: AtomicU32,
}

impl Crowd {
    /// Whether nobody else has a clone.
    pub fn is_forsaken(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Whether a place is free.
    pub fn has_place(&self) -> bool {
        self.0.busy.load(Ordering::Relaxed) < PLACES
    }

    /// Say how many stand in line.
    pub fn set_waiting(&self, count: usize) {
        self.0.waiting.store(count as u32, Ordering::Relaxed);
    }

    fn is_awaited(&self) -> bool {
        self.0.waiting.load(Ordering::Relaxed) > 0
    }
}

/// A queue pair's membership: counted while it has a place, and never after it has gone.
#[derive(Debug, Default)]
pub(crate) struct Share {
    crowd: Option<Crowd>,
    busy: bool,
    /// It wants to send and is to wait for a place.
    waits: bool,
    /// Packets sent from the place.
    sent: u64,
}

impl Share {
    pub fn of(crowd: &Crowd) -> Share {
        Share { crowd: Some(crowd.clone()), ..Share::default() }
    }

    /// Whether a packet may be sent that was never sent before; if not, it waits from now on.
    #[inline]
    pub fn enter(&mut self, mtu: u32) -> bool {
        let Some(crowd) = &self.crowd else { return true };
        if self.waits {
            return false;
        }
        let awaited = crowd.is_awaited();
        if self.busy {
            self.waits = awaited && self.sent >= run(mtu);
        } else if awaited || !crowd.has_place() {
            self.waits = true;
        } else {
            self.take_place();
        }
        !self.waits
    }

    /// It is first in line, and there is a place.
    pub fn admit(&mut self) {
        self.waits = false;
        self.take_place();
    }

    fn take_place(&mut self) {
        self.sent = 0;
        if let Some(Crowd(counts)) = &self.crowd
            && !std::mem::replace(&mut self.busy, true)
        {
            counts.busy.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether it wants to send and is to wait for a place.
    #[inline]
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// New packets leave. Answers whether these were the last ones while others wait.
    #[inline]
    pub fn spend(&mut self, packets: u64, mtu: u32) -> bool {
        self.sent += packets;
        self.sent >= run(mtu) && self.crowd.as_ref().is_some_and(Crowd::is_awaited)
    }

    /// Whether nothing was sent from the place yet.
    #[inline]
    pub fn is_unused(&self) -> bool {
        self.sent == 0
    }

    /// Leave the place, if it has one.
    #[inline]
    pub fn leave(&mut self) {
        if let Some(Crowd(counts)) = &self.crowd
            && std::mem::take(&mut self.busy)
        {
            counts.busy.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Packets that this one may have in flight, at least one: its acknowledgement makes the queue pair look again.
    pub fn packets(&self, mtu: u32) -> u64 {
        let Some(Crowd(counts)) = &self.crowd else { return u64::MAX };
        let busy = u64::from(counts.busy.load(Ordering::Relaxed)).max(1);
        (BYTES_MAX / busy / u64::from(mtu)).max(1)
    }
}

/// Packets of a run.
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
        let crowd = Crowd::default();
        let mut shares: Vec<Share> = (0..4).map(|_| Share::of(&crowd)).collect();
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
        assert!(crowd.is_forsaken());
        assert_eq!(crowd.0.busy.load(Ordering::Relaxed), 0);
        assert_eq!(Share::default().packets(4096), u64::MAX);
    }

    #[test]
    fn when_all_places_are_taken_the_others_wait_and_nobody_sends_more_than_a_run() {
        let crowd = Crowd::default();
        let mut shares: Vec<Share> = (0..=PLACES).map(|_| Share::of(&crowd)).collect();
        let (last, first) = shares.split_last_mut().unwrap();
        for share in first.iter_mut() {
            assert!(share.enter(4096));
            assert!(!share.spend(100, 4096), "nobody waits");
            assert!(share.enter(4096));
        }
        assert!(!last.enter(4096) && last.waits());
        crowd.set_waiting(1);
        assert!(!first[0].enter(4096) && first[0].waits(), "its run is over");
        crowd.set_waiting(2);
        first[1].leave();
        assert!(!last.enter(4096) && crowd.has_place(), "it is not told yet that it is its turn");
        last.admit();
        assert!(last.is_unused() && last.enter(4096) && !crowd.has_place());
        assert!(!last.spend(7, 4096) && last.enter(4096));
        assert!(last.spend(1, 4096) && !last.enter(4096));
        first[0].admit();
        assert!(first[0].enter(4096), "it has its place still");
        assert_eq!(crowd.0.busy.load(Ordering::Relaxed), PLACES);
    }
}
