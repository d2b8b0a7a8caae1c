//! Busy polling before sleep: the manager polls the port only while datagrams come so fast that sleeping would cost
//! more than it saves. Between two polls it yields the processor.

use std::time::{Duration, Instant};

/// Duration of one busy-poll phase.
const LOOK: Duration = Duration::from_micros(50);

/// A wake-up after a shorter sleep than this counts as premature: datagrams come fast.
const DENSE: Duration = Duration::from_micros(200);

/// Number of fruitless phases after which datagrams count as rare.
const VAIN_LOOKS_MAX: u32 = 8;

/// Interval at which other event sources are checked: clients, signals, finished jobs.
const OTHERS_EVERY: Duration = Duration::from_millis(1);

/// Polling state of one port.
#[derive(Debug)]
pub(super) struct BusyPoll {
    /// Fruitless phases left until datagrams count as rare.
    left: u32,
    others: Instant,
}

impl BusyPoll {
    /// The initial state: datagrams are rare.
    pub fn new(now: Instant) -> BusyPoll {
        BusyPoll { left: 0, others: now }
    }

    /// Whether datagrams come fast enough to busy-poll.
    pub fn is_dense(&self) -> bool {
        self.left > 0
    }

    /// Handles an empty poll: whether the phase that started at `begin` continues.
    pub fn looks_on(&mut self, begin: Instant, now: Instant) -> bool {
        let goes_on = now.saturating_duration_since(begin) < LOOK;
        if !goes_on {
            self.left -= 1;
        }
        goes_on
    }

    /// Whether the other event sources are due for a check.
    pub fn is_for_others(&mut self, now: Instant) -> bool {
        let due = now.saturating_duration_since(self.others) >= OTHERS_EVERY;
        if due {
            self.others = now;
        }
        due
    }

    /// Records the length of a sleep.
    pub fn on_slept(&mut self, length: Duration) {
        if length < DENSE {
            self.left = VAIN_LOOKS_MAX;
        }
    }
}
