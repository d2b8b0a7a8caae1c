//! Decides which threads drive: the program's polling threads, its threads that wait for events
//! ([`crate::event_waiter`]), or the background thread. While the program polls, or wakes again and again from its
//! waits, the background thread leaves the sockets alone (every packet would wake it although the program handles it
//! anyway), and only checks every millisecond whether that continues. All state here is atomics, which a poller updates
//! at the cost of plain stores. Reads happen without the pump's lock and may lag behind, which costs a wake-up or a
//! millisecond, never a packet.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use weft_sys::event::{EventFd, TimerFd};
use weft_verbs::{Duration, Instant};

use crate::clock;

/// Polls and posts between two checks of the background thread that make the program the driver; some of them must have
/// turned the pump.
const DRIVING_CALLS: u32 = 8;
/// Wake-ups of waiting threads between two checks that make these threads the driver.
const DRIVING_STAND_INS: u32 = 4;
/// How long after its last wake-up a thread is expected to wait again.
const WAITING_LATELY: Duration = Duration::from_millis(100);
/// Interval between the background thread's checks while the program polls.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// Progress of the program at the last check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    calls: u32,
    polls: u32,
    turns: u32,
    stand_ins: u32,
    at: Instant,
    /// Wake-ups of waiting threads at the last check, and when that count last changed.
    waiting: (u32, Instant),
}

/// The kind of thread that drives.
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
    /// Whether threads waited lately: they will wait and serve again, and want the processor for themselves.
    pub fn waited(&self, now: Instant) -> bool {
        now.since(self.waiting.1) < WAITING_LATELY
    }
}

/// How often the program called. Each counter wraps at 2^32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Polls of completion queues, and posts.
    pub calls: u32,
    /// Of these, polls.
    pub polls: u32,
    /// Of these, polls that found nothing and turned the pump.
    pub turns: u32,
}

/// The hand-over between drivers.
#[derive(Debug)]
pub struct DriverState {
    /// Polls of completion queues, and posts.
    calls: AtomicU32,
    /// Of these, polls.
    polls: AtomicU32,
    /// Of these, polls that found nothing and turned the pump.
    turns: AtomicU32,
    /// Wake-ups of waiting threads.
    stand_ins: AtomicU32,
    /// Threads waiting for the lock.
    waiters: AtomicU32,
    /// The [`Driver`].
    driver: AtomicU8,
    /// When the background thread will wake on its own: nanoseconds, 0 while it is awake, `u64::MAX` for never.
    sleeps_until: AtomicU64,
    wake: EventFd,
    /// Timer that wakes it for a deadline set during its sleep.
    alarm: TimerFd,
    /// When the alarm goes off: nanoseconds, 0 for never.
    alarm_at: AtomicU64,
}

impl DriverState {
    /// Makes a hand-over without a driver.
    pub fn new() -> std::io::Result<DriverState> {
        let (wake, alarm) = (EventFd::new()?, TimerFd::new()?);
        weft_sys::fork::track(&wake);
        weft_sys::fork::track(&alarm);
        Ok(DriverState {
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

    /// Locks, and lets a poller that holds the lock know that another thread waits.
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

    /// Unlocks. If another thread waits, hands the lock to it: otherwise the quickest thread would get it, which is the
    /// spinning poller itself.
    #[inline]
    pub fn unlock<T>(&self, guard: MutexGuard<'_, T>) {
        if self.waiters.load(Ordering::Relaxed) == 0 {
            drop(guard);
        } else {
            MutexGuard::unlock_fair(guard);
        }
    }

    /// Counts a poll, which `turned` the pump or found something without. Must be called under the lock, so plain loads
    /// and stores suffice.
    #[inline]
    pub fn on_poll(&self, turned: bool) {
        count(&self.calls);
        count(&self.polls);
        if turned {
            count(&self.turns);
        }
    }

    /// Counts a post; likewise.
    #[inline]
    pub fn on_post(&self) {
        count(&self.calls);
    }

    /// Counts a waiting thread that woke and serves; likewise.
    pub fn on_event_waiter(&self) {
        count(&self.stand_ins);
    }

    /// Returns the driver that the program's calls suggest. A program polls if it has polled and called often enough
    /// since the last check, whose record expires after a while. A program that finds completions with each poll does
    /// not turn the pump. While the background thread serves, that is no reason to go on serving, because its help is
    /// why the program finds them. While it is parked, that is a reason to help. The program waits if waiting threads
    /// woke often enough for the time since the last check.
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

    /// Returns how often the program called.
    pub fn tally(&self) -> Tally {
        Tally {
            calls: self.calls.load(Ordering::Relaxed),
            polls: self.polls.load(Ordering::Relaxed),
            turns: self.turns.load(Ordering::Relaxed),
        }
    }

    /// Whether the program called at all since that check.
    pub fn is_active(&self, last: &Seen) -> bool {
        self.calls.load(Ordering::Relaxed) != last.calls
    }

    /// Sets the driver: the background thread, or the threads for which it steps back. Must be called under the lock.
    pub fn set_driver(&self, driver: Driver) {
        self.driver.store(driver as u8, Ordering::Relaxed);
        self.sleeps_until.store(0, Ordering::Relaxed);
    }

    /// Whether the background thread has stepped back.
    #[inline]
    pub fn is_parked(&self) -> bool {
        self.driver.load(Ordering::Relaxed) != Driver::Background as u8
    }

    /// Whether the background thread has stepped back for pollers.
    #[inline]
    pub fn is_polled(&self) -> bool {
        self.driver.load(Ordering::Relaxed) == Driver::Pollers as u8
    }

    /// Records that the background thread is about to sleep; must be called under the lock.
    pub fn will_sleep(&self, until: Option<Instant>) {
        let until = until.map_or(u64::MAX, |at| at.0.max(1));
        self.sleeps_until.store(until, Ordering::Relaxed);
    }

    /// Makes the background thread meet this deadline; must be called under the lock. Only a deadline that it would
    /// miss by much moves its alarm: each message has a deadline, and most never expire. Returns whether the caller
    /// must wake it for work that is due at once. That happens once per sleep: until it wakes, it counts as awake.
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

    /// Postpones an alarm that would go off before `deadline`, the earliest deadline now. Must be called under the
    /// lock.
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

    /// Acknowledges the alarm.
    pub fn take_alarm(&self) {
        self.alarm.take();
    }

    /// Returns the timer for deadlines set while the background thread sleeps.
    pub fn alarm_fd(&self) -> &TimerFd {
        &self.alarm
    }

    /// Wakes the background thread.
    pub fn wake(&self) {
        self.wake.signal();
    }

    /// Returns the descriptor that wakes the background thread.
    pub fn wake_fd(&self) -> &EventFd {
        &self.wake
    }
}

/// Adds one; the caller holds the lock.
#[inline]
fn count(counter: &AtomicU32) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_polls_that_turned_the_pump_are_polling() {
        let driver = DriverState::new().unwrap();
        let mut seen = Seen::default();
        let mut now = Instant(1);
        assert_eq!(driver.look(&mut seen, now), Driver::Background);
        for _ in 0..DRIVING_CALLS {
            driver.on_post();
        }
        assert_eq!(driver.look(&mut seen, now), Driver::Background, "nobody polls");
        driver.on_poll(false);
        assert_eq!(driver.look(&mut seen, now), Driver::Pollers);
        assert_eq!(driver.look(&mut seen, now), Driver::Background);
        driver.set_driver(Driver::Pollers);
        for _ in 0..DRIVING_CALLS {
            driver.on_poll(false);
        }
        assert_eq!(driver.look(&mut seen, now), Driver::Background, "left alone, and nobody receives");
        driver.set_driver(Driver::Background);
        now = now + LOOK_INTERVAL;
        driver.look(&mut seen, now);
        for _ in 0..DRIVING_CALLS {
            now = now + LOOK_INTERVAL;
            assert_eq!(driver.look(&mut seen, now), Driver::Background, "a poll now and then is not polling");
            driver.on_poll(true);
        }
    }

    #[test]
    fn waiting_threads_drive_while_they_wake_often() {
        let driver = DriverState::new().unwrap();
        let mut seen = Seen::default();
        let mut now = Instant(1);
        let mut wake = |times: u32, later: Duration| {
            (0..times).for_each(|_| driver.on_event_waiter());
            now = now + later;
            driver.look(&mut seen, now)
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
        let driver = DriverState::new().unwrap();
        let told = |deadline| {
            let woken = driver.must_wake_for(deadline);
            (woken, driver.alarm_at.load(Ordering::Relaxed))
        };
        let look = LOOK_INTERVAL.as_nanos() as u64;
        assert_eq!(told(Some(Instant(5))), (false, 0), "awake");
        driver.will_sleep(Some(Instant(100 + look)));
        assert_eq!(told(None), (false, 0));
        assert_eq!(told(Some(Instant(101))), (false, 0), "not missed by much");
        assert_eq!(told(Some(Instant(100))), (false, 100), "the alarm is set");
        assert_eq!(told(Some(Instant(99))), (false, 100), "told already");
        assert_eq!(told(Some(Instant(0))), (true, 100), "to be done at once");
        assert_eq!(told(Some(Instant(0))), (false, 100), "told already");
        driver.will_sleep(None);
        assert_eq!(told(Some(Instant(0))), (true, 100));
    }

    #[test]
    fn an_alarm_is_put_off_when_its_deadline_went() {
        let driver = DriverState::new().unwrap();
        let look = LOOK_INTERVAL.as_nanos() as u64;
        let far = clock::now().0 + 1_000_000_000_000;
        let alarm = || driver.alarm_at.load(Ordering::Relaxed);
        driver.put_off(None);
        assert_eq!(alarm(), 0);
        driver.will_sleep(None);
        assert!(!driver.must_wake_for(Some(Instant(far))));
        driver.put_off(Some(Instant(far + look)));
        assert_eq!(alarm(), far, "not by much");
        driver.put_off(Some(Instant(far + 2 * look)));
        assert_eq!(alarm(), far + 2 * look);
        driver.put_off(None);
        assert_eq!(alarm(), 0);
        assert!(!driver.must_wake_for(Some(Instant(far))));
        assert_eq!(alarm(), far, "it sleeps without end again");
    }
}
