//! The rings that the daemon polls, and those whose answers wait for their programs.

use std::time::{Duration, Instant};

use weft_shm::{BusyPoll, BusyPollLimits, Next};

use super::placement::Placement;

const BUSY_POLL: BusyPollLimits = BusyPollLimits {
    // Longer than a program takes from an answer to its next request.
    period: Duration::from_micros(50),
    // A wake-up after a shorter sleep than this is premature: requests are frequent.
    dense: Duration::from_micros(150),
    // One premature wake-up is enough: requests and answers come in pairs, and one phase in vain costs little.
    dense_min: 1,
    fruitless_max: 1,
    // The program that the daemon serves may need this processor.
    yield_after: Duration::from_micros(1),
    // Far longer than a yield to no other process, and shorter than a time slice.
    preempted: Duration::from_micros(100),
    // A daemon that uses up its scheduler time would serve the next request late.
    backoff: Duration::from_millis(20),
};

/// Rings that the daemon polls.
#[derive(Debug)]
pub(super) struct Rings {
    /// Handles of their ports.
    pub(super) attended: Vec<u32>,
    /// Rings with answers in them.
    pub(super) unread: Vec<Unread>,
    /// Time of the last request.
    pub(super) last: Instant,
    /// When the daemon stopped polling the last ring.
    pub(super) slept: Instant,
    pub(super) busy_poll: BusyPoll<Instant>,
    pub(super) placement: Placement,
}

/// A ring with answers.
#[derive(Debug)]
pub(super) struct Unread {
    pub(super) handle: u32,
    /// Activity of its program as last seen.
    pub(super) activity: u64,
    /// Since when it has not changed.
    pub(super) since: Instant,
}

impl Rings {
    pub(super) fn new(now: Instant) -> Rings {
        Rings {
            attended: Vec::new(),
            unread: Vec::new(),
            last: now,
            slept: now,
            busy_poll: BusyPoll::new(&BUSY_POLL),
            placement: Placement::default(),
        }
    }

    /// Returns whether any ring holds answers.
    pub(super) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Lifts the daemon's restriction of processors.
    pub(super) fn go_anywhere(&mut self) {
        self.placement.go_anywhere();
    }

    /// Returns the daemon's next step after a poll of the rings. A phase is over as soon as it is not worthwhile, even
    /// if requests came.
    pub(super) fn next(&mut self, now: Instant) -> Next {
        if !self.busy_poll.is_worthwhile(now) || !self.placement.is_apart() {
            return Next::Sleep;
        }
        self.busy_poll.on_empty(self.last, now)
    }

    /// Records that the daemon did nothing of its own between two clock readings.
    pub(super) fn on_away(&mut self, from: Instant, back: Instant) {
        if self.busy_poll.on_away(from, back) {
            self.placement.on_disturbed(back);
        }
    }
}
