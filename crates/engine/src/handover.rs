//! Who drives: the program's polling threads or the background thread. While the program polls, the background thread
//! keeps its hands off the sockets (it would be woken by every packet that the poller handles anyway) and only looks
//! every millisecond whether the polling goes on. Everything here is atomics that a poller touches at the cost of plain
//! stores; they are read without the pump's lock and may lag behind, which costs a wake-up or a millisecond, never a
//! packet.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use weft_sys::event::EventFd;
use weft_verbs::{Duration, Instant};

/// Polls between two looks of the background thread from which on the program counts as polling.
const POLLING_POLLS: u32 = 8;
/// Polls in vain, about a tenth of a millisecond of them, from which on a poller offers the processor to others.
const VAIN_POLLS: u32 = 256;
/// One such poll in this many makes the offer, so that it costs a poller that has the processor to itself little.
const VAIN_PERIOD: u32 = 16;
/// How often the background thread looks while the program polls.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// How far the program had polled at the last look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    polls: u32,
    turns: u32,
    at: Instant,
}

/// The hand-over.
#[derive(Debug)]
pub struct Handover {
    /// Polls of completion queues.
    polls: AtomicU32,
    /// Of these, those that found nothing and turned the pump.
    turns: AtomicU32,
    /// Polls in a row that found nothing.
    vain: AtomicU32,
    /// Threads that wait for the lock.
    waiters: AtomicU32,
    /// The background thread keeps its hands off.
    parked: AtomicBool,
    /// When the background thread will wake by itself: nanoseconds, 0 while it is awake, `u64::MAX` for never.
    sleeps_until: AtomicU64,
    wake: EventFd,
}

impl Handover {
    /// Nobody drives yet.
    pub fn new() -> std::io::Result<Handover> {
        let wake = EventFd::new()?;
        weft_sys::fork::track(&wake);
        Ok(Handover {
            polls: AtomicU32::new(0),
            turns: AtomicU32::new(0),
            vain: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            parked: AtomicBool::new(false),
            sleeps_until: AtomicU64::new(0),
            wake,
        })
    }

    /// Lock, and let a poller that holds the lock know that somebody waits.
    #[inline]
    pub fn lock<'a, T>(&self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        match mutex.try_lock() {
            Some(guard) => guard,
            None => self.lock_contended(mutex),
        }
    }

    #[cold]
    fn lock_contended<'a, T>(&self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        let guard = mutex.lock();
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// Unlock; if somebody waits, hand the lock over instead of letting whoever is quickest have it, which would be the
    /// spinning poller itself.
    #[inline]
    pub fn unlock<T>(&self, guard: MutexGuard<'_, T>) {
        if self.waiters.load(Ordering::Relaxed) == 0 {
            drop(guard);
        } else {
            MutexGuard::unlock_fair(guard);
        }
    }

    /// A poll; to be called under the lock, so plain loads and stores do.
    #[inline]
    pub fn on_poll(&self, turned: bool) {
        let next = self.polls.load(Ordering::Relaxed).wrapping_add(1);
        self.polls.store(next, Ordering::Relaxed);
        if turned {
            let next = self.turns.load(Ordering::Relaxed).wrapping_add(1);
            self.turns.store(next, Ordering::Relaxed);
        }
    }

    /// A poll that received (or found) something, or nothing. Answers whether the processor should be offered to others:
    /// a program that has polled in vain for so long waits for somebody who may be waiting for this processor, and on a
    /// busy machine he gets it a time slice sooner. To be called under the lock.
    #[inline]
    pub fn in_vain(&self, nothing: bool) -> bool {
        let count = if nothing { self.vain.load(Ordering::Relaxed).saturating_add(1) } else { 0 };
        self.vain.store(count, Ordering::Relaxed);
        count >= VAIN_POLLS && count.is_multiple_of(VAIN_PERIOD)
    }

    /// Whether the program polls: it did so often enough since the last look, which is forgotten after a while.
    pub fn look(&self, last: &mut Seen, now: Instant) -> bool {
        let seen =
            Seen { polls: self.polls.load(Ordering::Relaxed), turns: self.turns.load(Ordering::Relaxed), at: now };
        let polled = seen.polls.wrapping_sub(last.polls) >= POLLING_POLLS && seen.turns != last.turns;
        if polled || now.since(last.at) >= LOOK_INTERVAL {
            *last = seen;
        }
        polled
    }

    /// The background thread steps back (true) or serves; to be called under the lock.
    pub fn park(&self, parked: bool) {
        self.parked.store(parked, Ordering::Relaxed);
        self.sleeps_until.store(0, Ordering::Relaxed);
    }

    /// Whether the background thread has stepped back.
    #[inline]
    pub fn is_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed)
    }

    /// The background thread is about to sleep; to be called under the lock.
    pub fn will_sleep(&self, until: Option<Instant>) {
        let until = until.map_or(u64::MAX, |at| at.0.max(1));
        self.sleeps_until.store(until, Ordering::Relaxed);
    }

    /// Whether the background thread must be told of this deadline; under the lock. It is told once: until it wakes it
    /// counts as awake.
    #[inline]
    pub fn must_wake_for(&self, deadline: Option<Instant>) -> bool {
        let until = self.sleeps_until.load(Ordering::Relaxed);
        let late = deadline.is_some_and(|at| at.0 < until);
        if late && until != 0 {
            self.sleeps_until.store(0, Ordering::Relaxed);
        }
        late && until != 0
    }

    /// Wake the background thread.
    pub fn wake(&self) {
        self.wake.signal();
    }

    /// What wakes it.
    pub fn wake_fd(&self) -> &EventFd {
        &self.wake
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_polls_that_turned_the_pump_are_polling() {
        let handover = Handover::new().unwrap();
        let mut seen = Seen::default();
        let mut now = Instant(1);
        assert!(!handover.look(&mut seen, now));
        for _ in 0..POLLING_POLLS {
            handover.on_poll(false);
        }
        assert!(!handover.look(&mut seen, now), "nobody received");
        for _ in 0..POLLING_POLLS {
            handover.on_poll(true);
            now = now + Duration::from_micros(1);
        }
        assert!(handover.look(&mut seen, now));
        assert!(!handover.look(&mut seen, now));
        for _ in 0..POLLING_POLLS {
            now = now + LOOK_INTERVAL;
            assert!(!handover.look(&mut seen, now), "a poll now and then is not polling");
            handover.on_poll(true);
        }
    }

    #[test]
    fn long_polling_in_vain_offers_the_processor() {
        let handover = Handover::new().unwrap();
        let offers = (0..VAIN_POLLS + 2 * VAIN_PERIOD).filter(|_| handover.in_vain(true)).count();
        assert_eq!(offers, 3, "counting from the first poll");
        assert!(!handover.in_vain(false));
        assert!((0..VAIN_POLLS - 1).all(|_| !handover.in_vain(true)));
    }

    #[test]
    fn the_sleeper_is_woken_once_and_only_for_what_comes_sooner() {
        let handover = Handover::new().unwrap();
        assert!(!handover.must_wake_for(Some(Instant(5))), "awake");
        handover.will_sleep(Some(Instant(100)));
        assert!(!handover.must_wake_for(None));
        assert!(!handover.must_wake_for(Some(Instant(100))));
        assert!(handover.must_wake_for(Some(Instant(99))));
        assert!(!handover.must_wake_for(Some(Instant(98))), "told already");
        handover.will_sleep(None);
        assert!(handover.must_wake_for(Some(Instant(0))));
    }
}
