//! Decides whether the background thread stays awake for the next packet. Sleeping and waking costs several microseconds
//! on both sides, and the sender pays its part. While packets come in close succession, polling is cheaper. It continues
//! only as long as it succeeds, and offers the processor to others between two polls.

use weft_shm::{BusyPoll, BusyPollLimits, Next, Yielded};
use weft_verbs::{Duration, Instant};

/// Consecutive spins that may fail.
const VAIN_MAX: u32 = 3;

const LIMITS: BusyPollLimits = BusyPollLimits {
    // About the time that an idle processor takes to answer in a virtual machine.
    period: Duration::from_micros(200),
    // The same, so that packets that only wait for that answer count as close to each other.
    dense: Duration::from_micros(200),
    // The thread serves a program that makes no calls, so that the first close packets are no sign of more.
    dense_min: 8,
    fruitless_max: VAIN_MAX,
    yield_after: Duration::ZERO,
    // The kernel says whether a yield let another thread run.
    preempted: Duration::MAX,
    // A sleeping thread gets the processor as soon as a packet comes; a yielding one gets it when the other's time slice
    // ends.
    backoff: Duration::from_millis(20),
};

/// The spinning decision.
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    busy_poll: BusyPoll<Instant>,
    /// When packets last came.
    last: Instant,
    /// Whether the thread spins for the next ones.
    on: bool,
}

impl Default for Spin {
    fn default() -> Spin {
        Spin { busy_poll: BusyPoll::new(&LIMITS), last: Instant::default(), on: false }
    }
}

impl Spin {
    /// Records arrived packets. `allowed`: spinning for the next ones is allowed.
    pub fn on_packets(&mut self, now: Instant, allowed: bool) {
        self.busy_poll.on_gap(now.since(self.last));
        self.last = now;
        self.on = allowed && self.busy_poll.is_worthwhile(now);
    }

    /// Records a yield between two polls.
    pub fn on_yield(&mut self, yielded: Yielded) {
        if yielded.switched {
            self.busy_poll.on_preempted(yielded.back_at);
            self.on = false;
        }
    }

    /// Returns, after a poll that found nothing, whether to poll again at once.
    pub fn goes_on(&mut self, now: Instant) -> bool {
        self.on = self.on && self.busy_poll.on_empty(self.last, now) != Next::Sleep;
        self.on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant(us * 1000)
    }

    #[test]
    fn close_packets_are_waited_for_and_rare_ones_are_not() {
        let mut spin = Spin::default();
        for i in 0..20 {
            spin.on_packets(at(1000 * i), true);
            assert!(!spin.goes_on(at(1000 * i + 1)), "rare");
        }
        for i in 0..20 {
            spin.on_packets(at(50_000 + 10 * i), true);
        }
        assert!(spin.goes_on(at(50_380)));
        assert!(!spin.goes_on(at(50_400)), "the time is over");
        assert!(!spin.goes_on(at(50_401)));
        for i in 0..VAIN_MAX.into() {
            spin.on_packets(at(60_000 + 1000 * i), true);
            let _ = spin.goes_on(at(60_500 + 1000 * i));
        }
        spin.on_packets(at(70_000), true);
        assert!(!spin.goes_on(at(70_001)), "it was in vain too often");
    }

    #[test]
    fn a_processor_that_another_thread_wants_is_left_to_it() {
        let mut spin = Spin::default();
        (0..20).for_each(|i| spin.on_packets(at(i), true));
        let yielded = |switched, us| Yielded { at: at(us - 5), back_at: at(us), switched };
        spin.on_yield(yielded(false, 30));
        assert!(spin.goes_on(at(30)));
        spin.on_yield(yielded(true, 40));
        assert!(!spin.goes_on(at(40)));
        spin.on_packets(at(100), true);
        assert!(!spin.goes_on(at(101)));
        (0..20).for_each(|i| spin.on_packets(at(21_000 + i), true));
        assert!(spin.goes_on(at(21_020)));
    }

    #[test]
    fn a_program_that_sleeps_keeps_its_processor() {
        let mut spin = Spin::default();
        for i in 0..20 {
            spin.on_packets(at(i), false);
            assert!(!spin.goes_on(at(i)));
        }
    }
}
