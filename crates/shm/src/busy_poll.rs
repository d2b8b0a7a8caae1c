//! Decides whether a thread that waits for arrivals polls for them or sleeps. Sleep and wake-up cost several
//! microseconds at both ends. While arrivals are dense, polling costs less; while they are rare, it wastes a processor;
//! and where another thread wants the processor, polling uses up the time that this thread needs for the next arrival.
//!
//! ```text
//!            dense_min short gaps                 limits.period without an arrival
//!   rare ───────────────────────────▶ dense: polls ───────────────────────────────▶ sleeps
//!     ▲                                 │    ▲                                         │ gap
//!     └── fruitless_max such phases ────┘    └─────────────────────────────────────────┘
//!
//!   away for limits.preempted: sleeps, and does not poll for limits.backoff
//! ```

use std::time::Duration;

use crate::Moment;

/// The numbers in which busy polls differ.
#[derive(Clone, Copy, Debug)]
pub struct BusyPollLimits {
    /// How long polls may find nothing before the thread sleeps.
    pub period: Duration,
    /// A gap between two arrivals, or a sleep that an arrival ended, is short below this.
    pub dense: Duration,
    /// Number of short gaps after which arrivals count as dense; 0: they always do.
    pub dense_min: u32,
    /// Number of consecutive phases without an arrival after which they count as rare again.
    pub fruitless_max: u32,
    /// Polling time after which the thread yields its processor between two polls.
    pub yield_after: Duration,
    /// An absence as long as this means that another thread had the processor.
    pub preempted: Duration,
    /// How long the thread then leaves the processor to others.
    pub backoff: Duration,
}

/// The caller's next step after a poll that found nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Poll again.
    Poll,
    /// Yield the processor, and poll again.
    Yield,
    /// Sleep.
    Sleep,
}

/// The polling decision of one thread, or of all threads that wait for the same arrivals.
#[derive(Clone, Copy, Debug)]
pub struct BusyPoll<M> {
    limits: &'static BusyPollLimits,
    /// Short gaps, up to `dense_min`.
    short_gaps: u32,
    /// Phases without an arrival since the last short gap.
    fruitless: u32,
    /// Until when the thread leaves the processor to others.
    backoff_until: Option<M>,
}

impl<M: Moment> BusyPoll<M> {
    /// Makes the initial state, in which arrivals are rare.
    pub const fn new(limits: &'static BusyPollLimits) -> BusyPoll<M> {
        BusyPoll { limits, short_gaps: 0, fruitless: 0, backoff_until: None }
    }

    /// Returns whether a thread should poll before it sleeps: arrivals are dense, and no other thread wants the
    /// processor.
    #[inline]
    pub fn is_worthwhile(&self, now: M) -> bool {
        self.short_gaps >= self.limits.dense_min && !self.backs_off(now)
    }

    #[inline]
    fn backs_off(&self, now: M) -> bool {
        self.backoff_until.is_some_and(|until| now < until)
    }

    /// Records the time between two arrivals, or the length of a sleep that an arrival ended.
    pub fn on_gap(&mut self, gap: Duration) {
        if gap < self.limits.dense {
            self.short_gaps = (self.short_gaps + 1).min(self.limits.dense_min);
            self.fruitless = 0;
        }
    }

    /// Records a poll that found nothing, in a phase that began, or had its last arrival, at `since`.
    pub fn on_empty(&mut self, since: M, now: M) -> Next {
        let quiet = now.since(since);
        if quiet >= self.limits.period {
            self.on_fruitless();
            Next::Sleep
        } else if self.backs_off(now) {
            Next::Sleep
        } else if quiet >= self.limits.yield_after {
            Next::Yield
        } else {
            Next::Poll
        }
    }

    /// Records a phase that ended without an arrival; [`BusyPoll::on_empty`] records those that lasted their period.
    pub fn on_fruitless(&mut self) {
        self.fruitless += 1;
        if self.fruitless >= self.limits.fruitless_max {
            (self.short_gaps, self.fruitless) = (0, 0);
        }
    }

    /// Records that the thread did nothing of its own between two clock readings; returns whether another thread had
    /// the processor meanwhile.
    pub fn on_away(&mut self, from: M, back: M) -> bool {
        let preempted = back.since(from) >= self.limits.preempted;
        if preempted {
            self.on_preempted(back);
        }
        preempted
    }

    /// Records that another thread had the processor until now.
    pub fn on_preempted(&mut self, now: M) {
        self.backoff_until = Some(now.after(self.limits.backoff));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use weft_verbs::Instant;

    use super::*;

    const LIMITS: BusyPollLimits = BusyPollLimits {
        period: Duration::from_micros(50),
        dense: Duration::from_micros(150),
        dense_min: 3,
        fruitless_max: 2,
        yield_after: Duration::from_micros(2),
        preempted: Duration::from_micros(100),
        backoff: Duration::from_millis(20),
    };

    fn at(us: u64) -> Instant {
        Instant(1_000_000_000 + us * 1000)
    }

    fn dense() -> BusyPoll<Instant> {
        let mut busy = BusyPoll::new(&LIMITS);
        (0..LIMITS.dense_min).for_each(|_| busy.on_gap(Duration::from_micros(10)));
        busy
    }

    #[test]
    fn it_polls_only_while_arrivals_are_dense() {
        let mut busy = BusyPoll::new(&LIMITS);
        for gaps in 0..5 {
            assert_eq!(busy.is_worthwhile(at(0)), gaps >= LIMITS.dense_min);
            busy.on_gap(LIMITS.dense);
            busy.on_gap(Duration::ZERO);
        }
        for phase in 1..=LIMITS.fruitless_max {
            assert!(busy.is_worthwhile(at(0)));
            assert_eq!(busy.on_empty(at(0), at(1)), Next::Poll);
            assert_eq!(busy.on_empty(at(0), at(2)), Next::Yield);
            assert_eq!(busy.on_empty(at(0), at(50)), Next::Sleep);
            assert_eq!(busy.is_worthwhile(at(50)), phase < LIMITS.fruitless_max);
        }
    }

    #[test]
    fn a_short_gap_forgives_fruitless_phases() {
        let mut busy = dense();
        for _ in 0..10 {
            busy.on_empty(at(0), at(50));
            busy.on_gap(Duration::ZERO);
        }
        assert!(busy.is_worthwhile(at(0)));
    }

    #[test]
    fn a_processor_that_another_thread_wants_is_left_to_it() {
        let mut busy = dense();
        assert!(!busy.on_away(at(0), at(99)) && busy.is_worthwhile(at(99)));
        assert!(busy.on_away(at(100), at(200)) && !busy.is_worthwhile(at(200)));
        assert_eq!(busy.on_empty(at(200), at(201)), Next::Sleep);
        assert!(!busy.is_worthwhile(at(20_199)) && busy.is_worthwhile(at(20_200)));
    }

    #[test]
    fn without_a_minimum_arrivals_are_always_dense() {
        const ALWAYS: BusyPollLimits = BusyPollLimits { dense_min: 0, fruitless_max: 1, ..LIMITS };
        let mut busy = BusyPoll::new(&ALWAYS);
        for _ in 0..3 {
            assert!(busy.is_worthwhile(at(0)));
            busy.on_empty(at(0), at(50));
        }
    }
}
