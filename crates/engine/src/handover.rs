//! Who drives: the program's polling threads or the background thread. While the program polls, the background thread
//! keeps its hands off the sockets (it would be woken by every packet that the poller handles anyway) and only looks
//! every millisecond whether the polling goes on. Everything here is atomics that a poller touches at the cost of plain
//! stores; they are read without the pump's lock and may lag behind, which costs a wake-up or a millisecond, never a
//! packet.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use weft_sys::event::EventFd;
use weft_verbs::{Duration, Instant};

/// Polls and posts between two looks of the background thread from which on the program counts as driving; some of them
/// must have turned the pump.
const DRIVING_CALLS: u32 = 8;
/// Polls in vain, some forty microseconds of them, from which on a poller offers the processor to others.
const VAIN_POLLS: u32 = 96;
/// One such poll in this many makes the offer, so that it costs a poller that has the processor to itself little.
const VAIN_PERIOD: u32 = 16;
/// How often the background thread looks while the program polls.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// How far the program had come at the last look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    calls: u32,
    polls: u32,
    turns: u32,
    at: Instant,
}

/// How often the program called. Each begins anew after 2^32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Polls of completion queues, and posts.
    pub calls: u32,
    /// Of these, polls.
    pub polls: u32,
    /// Of these, polls that found nothing and turned the pump.
    pub turns: u32,
}

/// The hand-over.
#[derive(Debug)]
pub struct Handover {
    /// Polls of completion queues, and posts.
    calls: AtomicU32,
    /// Of these, polls.
    polls: AtomicU32,
    /// Of these, polls that found nothing and turned the pump.
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
            calls: AtomicU32::new(0),
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

    /// A poll, which `turned` the pump or found something without; to be called under the lock, so plain loads and
    /// stores do.
    #[inline]
    pub fn on_poll(&self, turned: bool) {
        count(&self.calls);
        count(&self.polls);
        if turned {
            count(&self.turns);
        }
    }

    /// A post; likewise.
    #[inline]
    pub fn on_post(&self) {
        count(&self.calls);
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

    /// Whether the program drives: it called often enough since the last look, which is forgotten after a while, and
    /// polled. A program that finds completions with each poll does not turn the pump; that is no reason to let it be
    /// helped, for it is the help that lets it find them, but it is a reason to help one that was left alone.
    pub fn look(&self, last: &mut Seen, now: Instant) -> bool {
        let seen = Seen {
            calls: self.calls.load(Ordering::Relaxed),
            polls: self.polls.load(Ordering::Relaxed),
            turns: self.turns.load(Ordering::Relaxed),
            at: now,
        };
        let polled = if self.is_parked() { seen.turns != last.turns } else { seen.polls != last.polls };
        let drives = polled && seen.calls.wrapping_sub(last.calls) >= DRIVING_CALLS;
        if drives || now.since(last.at) >= LOOK_INTERVAL {
            *last = seen;
        }
        drives
    }

    /// How often the program called.
    pub fn tally(&self) -> Tally {
        Tally {
            calls: self.calls.load(Ordering::Relaxed),
            polls: self.polls.load(Ordering::Relaxed),
            turns: self.turns.load(Ordering::Relaxed),
        }
    }

    /// Whether the program called at all since that look.
    pub fn is_active(&self, last: &Seen) -> bool {
        self.calls.load(Ordering::Relaxed) != last.calls
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
    /// counts as awake. What is to be done at once is told always, a deadline only if it would be missed by much: each
    /// message has a deadline, a wake-up costs more than most messages, and most deadlines never come.
    #[inline]
    pub fn must_wake_for(&self, deadline: Option<Instant>) -> bool {
        let until = self.sleeps_until.load(Ordering::Relaxed);
        let Some(deadline) = deadline else { return false };
        let missed = if deadline == Instant(0) { 1 } else { LOOK_INTERVAL.as_nanos() as u64 };
        let late = deadline.0.saturating_add(missed) <= until;
        if late {
            self.sleeps_until.store(0, Ordering::Relaxed);
        }
        late
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

/// One more; whoever counts holds the lock.
#[inline]
fn count(counter: &AtomicU32) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
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
        for _ in 0..DRIVING_CALLS {
            handover.on_post();
        }
        assert!(!handover.look(&mut seen, now), "nobody polls");
        handover.on_poll(false);
        assert!(handover.look(&mut seen, now));
        assert!(!handover.look(&mut seen, now));
        handover.park(true);
        for _ in 0..DRIVING_CALLS {
            handover.on_poll(false);
        }
        assert!(!handover.look(&mut seen, now), "left alone, and nobody receives");
        handover.park(false);
        now = now + LOOK_INTERVAL;
        handover.look(&mut seen, now);
        for _ in 0..DRIVING_CALLS {
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
        let look = LOOK_INTERVAL.as_nanos() as u64;
        handover.will_sleep(Some(Instant(100 + look)));
        assert!(!handover.must_wake_for(None));
        assert!(!handover.must_wake_for(Some(Instant(101))));
        assert!(handover.must_wake_for(Some(Instant(100))));
        assert!(!handover.must_wake_for(Some(Instant(99))), "told already");
        handover.will_sleep(Some(Instant(5)));
        assert!(handover.must_wake_for(Some(Instant(0))), "something to be done at once");
        handover.will_sleep(None);
        assert!(handover.must_wake_for(Some(Instant(0))));
    }
}
