//! Who drives: the program's polling threads, its threads that wait for events ([`crate::stand_in`]), or the background
//! thread. While the program polls, or wakes from its waiting again and again, the background thread keeps its hands off
//! the sockets (it would be woken by every packet that the program handles anyway) and only looks every millisecond
//! whether that goes on. Everything here is atomics that a poller touches at the cost of plain
//! stores; they are read without the pump's lock and may lag behind, which costs a wake-up or a millisecond, never a
//! packet.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use weft_sys::event::{EventFd, TimerFd};
use weft_verbs::{Duration, Instant};

use crate::clock;

/// Polls and posts between two looks of the background thread from which on the program counts as driving; some of them
/// must have turned the pump.
const DRIVING_CALLS: u32 = 8;
/// Times that waiting threads woke between two looks from which on they count as driving.
const DRIVING_STAND_INS: u32 = 4;
/// For how long a thread that woke is expected to wait again.
const WAITING_LATELY: Duration = Duration::from_millis(100);
/// How often the background thread looks while the program polls.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// How far the program had come at the last look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    calls: u32,
    polls: u32,
    turns: u32,
    stand_ins: u32,
    at: Instant,
    /// Times that waiting threads had woken at any look, and when that was seen to change.
    waiting: (u32, Instant),
}

/// Who drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Driver {
    /// The background thread.
    Background,
    /// Threads that poll completion queues.
    Pollers,
    /// Threads that wait for completion events.
    Waiting,
}

impl Seen {
    /// Whether threads waited lately: they will again, serve, and want the processor for themselves.
    pub fn waited(&self, now: Instant) -> bool {
        now.since(self.waiting.1) < WAITING_LATELY
    }
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
    /// Times that waiting threads woke.
    stand_ins: AtomicU32,
    /// Threads that wait for the lock.
    waiters: AtomicU32,
    /// The [`Driver`].
    driver: AtomicU8,
    /// When the background thread will wake by itself: nanoseconds, 0 while it is awake, `u64::MAX` for never.
    sleeps_until: AtomicU64,
    wake: EventFd,
    /// What wakes it for a deadline that came up while it slept.
    alarm: TimerFd,
    /// When the alarm goes off: nanoseconds, 0 for never.
    alarm_at: AtomicU64,
}

impl Handover {
    /// Nobody drives yet.
    pub fn new() -> std::io::Result<Handover> {
        let (wake, alarm) = (EventFd::new()?, TimerFd::new()?);
        weft_sys::fork::track(&wake);
        weft_sys::fork::track(&alarm);
        Ok(Handover {
            calls: AtomicU32::new(0),
            polls: AtomicU32::new(0),
            turns: AtomicU32::new(0),
            stand_ins: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            driver: AtomicU8::new(Driver::Background as u8),
            sleeps_until: AtomicU64::new(0),
            wake,
            alarm,
            alarm_at: AtomicU64::new(0),
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

    /// A waiting thread woke and serves; likewise.
    pub fn on_stand_in(&self) {
        count(&self.stand_ins);
    }

    /// Who drives, as far as the program goes. It polls if it called often enough since the last look, which is forgotten
    /// after a while, and polled. A program that finds completions with each poll does not turn the pump; that is no reason
    /// to let it be helped, for it is the help that lets it find them, but it is a reason to help one that was left alone.
    /// It waits if waiting threads woke as often as the time since the last look lets expect.
    pub fn look(&self, last: &mut Seen, now: Instant) -> Driver {
        let stand_ins = self.stand_ins.load(Ordering::Relaxed);
        if stand_ins != last.waiting.0 {
            last.waiting = (stand_ins, now);
        }
        let seen = Seen {
            calls: self.calls.load(Ordering::Relaxed),
            polls: self.polls.load(Ordering::Relaxed),
            turns: self.turns.load(Ordering::Relaxed),
            stand_ins,
            at: now,
            waiting: last.waiting,
        };
        let elapsed = now.since(last.at);
        let intervals = (elapsed.as_nanos() / LOOK_INTERVAL.as_nanos()).clamp(1, u32::MAX.into()) as u32;
        let woke = seen.stand_ins.wrapping_sub(last.stand_ins) / intervals;
        let polled = if self.is_parked() { seen.turns != last.turns } else { seen.polls != last.polls };
        let driver = if woke >= DRIVING_STAND_INS {
            Driver::Waiting
        } else if polled && seen.calls.wrapping_sub(last.calls) >= DRIVING_CALLS {
            Driver::Pollers
        } else {
            Driver::Background
        };
        if driver != Driver::Background || elapsed >= LOOK_INTERVAL {
            *last = seen;
        }
        driver
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

    /// The background thread serves, or has stepped back for the sake of others; to be called under the lock.
    pub fn set_driver(&self, driver: Driver) {
        self.driver.store(driver as u8, Ordering::Relaxed);
        self.sleeps_until.store(0, Ordering::Relaxed);
    }

    /// Whether the background thread has stepped back.
    #[inline]
    pub fn is_parked(&self) -> bool {
        self.driver.load(Ordering::Relaxed) != Driver::Background as u8
    }

    /// Whether it has stepped back for the sake of pollers.
    #[inline]
    pub fn is_polled(&self) -> bool {
        self.driver.load(Ordering::Relaxed) == Driver::Pollers as u8
    }

    /// The background thread is about to sleep; to be called under the lock.
    pub fn will_sleep(&self, until: Option<Instant>) {
        let until = until.map_or(u64::MAX, |at| at.0.max(1));
        self.sleeps_until.store(until, Ordering::Relaxed);
    }

    /// Have the background thread meet this deadline; under the lock. It is told only what would be missed by much: each
    /// message has a deadline, and most deadlines never come. Answers whether it must be woken for what is to be done at
    /// once, which is told once: until it wakes it counts as awake.
    #[inline]
    pub fn must_wake_for(&self, deadline: Option<Instant>) -> bool {
        let until = self.sleeps_until.load(Ordering::Relaxed);
        let Some(deadline) = deadline else { return false };
        let missed = if deadline == Instant(0) { 1 } else { LOOK_INTERVAL.as_nanos() as u64 };
        if deadline.0.saturating_add(missed) > until {
            return false;
        }
        self.sleeps_until.store(deadline.0, Ordering::Relaxed);
        if deadline != Instant(0) {
            self.set_alarm(Some(deadline));
        }
        deadline == Instant(0)
    }

    /// This is the earliest deadline now: an alarm that would go off before is put off. Under the lock.
    pub fn put_off(&self, deadline: Option<Instant>) {
        let alarm_at = self.alarm_at.load(Ordering::Relaxed);
        let wanted = deadline.map_or(u64::MAX, |at| at.0);
        if alarm_at == 0 || alarm_at.saturating_add(LOOK_INTERVAL.as_nanos() as u64) >= wanted {
            return;
        }
        if self.sleeps_until.load(Ordering::Relaxed) == alarm_at {
            self.sleeps_until.store(wanted, Ordering::Relaxed);
        }
        self.set_alarm(deadline);
    }

    #[cold]
    fn set_alarm(&self, deadline: Option<Instant>) {
        self.alarm_at.store(deadline.map_or(0, |at| at.0), Ordering::Relaxed);
        if self.alarm.arm(deadline.map(|at| at.since(clock::now()))).is_err() {
            self.wake();
        }
    }

    /// The alarm went off.
    pub fn take_alarm(&self) {
        self.alarm.take();
    }

    /// What goes off at the deadline of which the background thread was told in its sleep.
    pub fn alarm_fd(&self) -> &TimerFd {
        &self.alarm
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
        assert_eq!(handover.look(&mut seen, now), Driver::Background);
        for _ in 0..DRIVING_CALLS {
            handover.on_post();
        }
        assert_eq!(handover.look(&mut seen, now), Driver::Background, "nobody polls");
        handover.on_poll(false);
        assert_eq!(handover.look(&mut seen, now), Driver::Pollers);
        assert_eq!(handover.look(&mut seen, now), Driver::Background);
        handover.set_driver(Driver::Pollers);
        for _ in 0..DRIVING_CALLS {
            handover.on_poll(false);
        }
        assert_eq!(handover.look(&mut seen, now), Driver::Background, "left alone, and nobody receives");
        handover.set_driver(Driver::Background);
        now = now + LOOK_INTERVAL;
        handover.look(&mut seen, now);
        for _ in 0..DRIVING_CALLS {
            now = now + LOOK_INTERVAL;
            assert_eq!(handover.look(&mut seen, now), Driver::Background, "a poll now and then is not polling");
            handover.on_poll(true);
        }
    }

    #[test]
    fn waiting_threads_drive_while_they_wake_often() {
        let handover = Handover::new().unwrap();
        let mut seen = Seen::default();
        let mut now = Instant(1);
        let mut wake = |times: u32, later: Duration| {
            (0..times).for_each(|_| handover.on_stand_in());
            now = now + later;
            handover.look(&mut seen, now)
        };
        assert_eq!(wake(DRIVING_STAND_INS, LOOK_INTERVAL), Driver::Waiting);
        assert_eq!(wake(DRIVING_STAND_INS - 1, LOOK_INTERVAL), Driver::Background);
        assert_eq!(wake(DRIVING_STAND_INS * 9, LOOK_INTERVAL * 10), Driver::Background, "that took long");
        assert_eq!(wake(DRIVING_STAND_INS * 10, LOOK_INTERVAL * 10), Driver::Waiting);
        assert_eq!(wake(1, LOOK_INTERVAL / 2), Driver::Background);
        assert_eq!(wake(DRIVING_STAND_INS - 1, LOOK_INTERVAL / 2), Driver::Waiting, "within one interval");
    }

    #[test]
    fn the_sleeper_is_told_once_and_only_of_what_comes_sooner() {
        let handover = Handover::new().unwrap();
        let told = |deadline| {
            let woken = handover.must_wake_for(deadline);
            (woken, handover.alarm_at.load(Ordering::Relaxed))
        };
        let look = LOOK_INTERVAL.as_nanos() as u64;
        assert_eq!(told(Some(Instant(5))), (false, 0), "awake");
        handover.will_sleep(Some(Instant(100 + look)));
        assert_eq!(told(None), (false, 0));
        assert_eq!(told(Some(Instant(101))), (false, 0), "not missed by much");
        assert_eq!(told(Some(Instant(100))), (false, 100), "the alarm is set");
        assert_eq!(told(Some(Instant(99))), (false, 100), "told already");
        assert_eq!(told(Some(Instant(0))), (true, 100), "to be done at once");
        assert_eq!(told(Some(Instant(0))), (false, 100), "told already");
        handover.will_sleep(None);
        assert_eq!(told(Some(Instant(0))), (true, 100));
    }

    #[test]
    fn an_alarm_is_put_off_when_its_deadline_went() {
        let handover = Handover::new().unwrap();
        let look = LOOK_INTERVAL.as_nanos() as u64;
        let far = clock::now().0 + 1_000_000_000_000;
        let alarm = || handover.alarm_at.load(Ordering::Relaxed);
        handover.put_off(None);
        assert_eq!(alarm(), 0);
        handover.will_sleep(None);
        assert!(!handover.must_wake_for(Some(Instant(far))));
        handover.put_off(Some(Instant(far + look)));
        assert_eq!(alarm(), far, "not by much");
        handover.put_off(Some(Instant(far + 2 * look)));
        assert_eq!(alarm(), far + 2 * look);
        handover.put_off(None);
        assert_eq!(alarm(), 0);
        assert!(!handover.must_wake_for(Some(Instant(far))));
        assert_eq!(alarm(), far, "it sleeps without end again");
    }
}
