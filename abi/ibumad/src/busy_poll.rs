//! Polling of a thread that waits for a datagram before it sleeps ([`weft_shm::BusyPoll`]), with the numbers of a
//! program's end of a port.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use weft_shm::{BusyPollLimits, Next};

const LIMITS: BusyPollLimits = BusyPollLimits {
    // Longer than the daemon takes to answer from another processor.
    period: Duration::from_micros(30),
    // A thread that slept for no longer than this should have polled.
    dense: Duration::from_micros(150),
    // One premature sleep is enough: requests and answers come in pairs, and one phase in vain costs little.
    dense_min: 1,
    fruitless_max: 1,
    // The daemon may be waiting for this processor.
    yield_after: Duration::from_micros(1),
    // Far longer than a yield to no other thread, and shorter than a time slice.
    preempted: Duration::from_micros(100),
    // Above all the daemon must not use up its scheduler time on this processor.
    backoff: Duration::from_millis(20),
};

/// Polls between two clock readings.
const POLLS_PER_READING: u32 = 16;

/// Polling state of one port, for all threads that wait at it.
#[derive(Debug)]
pub(crate) struct BusyPoll(Mutex<weft_shm::BusyPoll<Instant>>);

impl Default for BusyPoll {
    fn default() -> BusyPoll {
        BusyPoll(Mutex::new(weft_shm::BusyPoll::new(&LIMITS)))
    }
}

impl BusyPoll {
    fn state(&self) -> std::sync::MutexGuard<'_, weft_shm::BusyPoll<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether answers arrive so densely that a thread should poll for them.
    pub(crate) fn is_worthwhile(&self) -> bool {
        self.state().is_worthwhile(Instant::now())
    }

    /// Polls until `came` returns true, for a limited time and no longer than until `deadline`.
    pub(crate) fn poll(&self, deadline: Option<Instant>, mut came: impl FnMut() -> bool) {
        let begin = Instant::now();
        let mut before = begin;
        loop {
            for _ in 0..POLLS_PER_READING {
                if came() {
                    return;
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            let next = {
                let mut state = self.state();
                state.on_away(before, now);
                state.on_empty(begin, now)
            };
            before = now;
            match next {
                Next::Sleep => return,
                _ if deadline.is_some_and(|deadline| now >= deadline) => return self.state().on_fruitless(),
                Next::Yield => std::thread::yield_now(),
                Next::Poll => {}
            }
        }
    }

    /// Records the length of a thread's sleep.
    pub(crate) fn on_slept(&self, length: Duration) {
        self.state().on_gap(length);
    }
}
