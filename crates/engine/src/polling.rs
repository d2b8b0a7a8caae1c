//! Threads that poll a completion queue: they turn the pump, and yield their processor where another poller needs it
//! ([`weft_shm::yielding`]).

use weft_shm::yield_processor;
use weft_verbs::{CqId, VerbsError, Wc};

use crate::engine::{CLOSED, DEAD, Engine};
use crate::{clock, trace};

impl Engine {
    /// Takes completions off a queue. If there are none, turns the pump once and checks again.
    ///
    /// # Errors
    /// There is no such queue, or it overflowed and is now empty.
    pub fn poll_cq(&self, cq: CqId, out: &mut [Wc]) -> Result<usize, VerbsError> {
        if self.is_dead() {
            return Err(DEAD);
        }
        let mut guard = self.driver.lock(&self.pump);
        let Some(pump) = guard.as_mut() else {
            return Err(CLOSED);
        };
        let mut polled = pump.hca.poll_cq(cq, out);
        let turn = polled == Ok(0) && !out.is_empty();
        self.driver.on_poll(turn);
        let mut came = None;
        pump.end_gathering(clock::now);
        if turn {
            came = pump.turn_briefly();
            polled = pump.hca.poll_cq(cq, out);
        }
        trace_polled(&polled, out);
        // A brief turn that finds nothing does not read the clock. A turn without arrivals may still have completed
        // sends.
        let must_yield = match came {
            Some(0) if polled == Ok(0) => pump.yielding.must_yield(pump.turned_at()),
            None if turn => false,
            _ => {
                pump.yielding.on_arrival();
                false
            }
        };
        let found = matches!(polled, Ok(1..));
        let goes_on = found && pump.memory_wait.goes_on() && pump.hca.cq_len(cq) == 0;
        self.leave(guard);
        if must_yield {
            return self.poll_after_yield(cq, out);
        }
        if goes_on {
            self.poll_on();
        }
        polled
    }

    /// Lets others have the processor, and polls again.
    #[cold]
    fn poll_after_yield(&self, cq: CqId, out: &mut [Wc]) -> Result<usize, VerbsError> {
        let yielded = yield_processor(clock::now);
        let mut guard = self.driver.lock(&self.pump);
        let Some(pump) = guard.as_mut() else {
            return Err(CLOSED);
        };
        pump.yielding.on_yield(yielded, pump.instruments.arrivals);
        if pump.turn(yielded.back_at, false) > 0 {
            pump.yielding.on_arrival();
        }
        let polled = pump.hca.poll_cq(cq, out);
        trace_polled(&polled, out);
        self.leave(guard);
        polled
    }
}

/// Traces the completions that a poll took.
#[inline]
fn trace_polled(polled: &Result<usize, VerbsError>, out: &[Wc]) {
    if trace::on()
        && let Ok(count) = *polled
    {
        trace::polled(clock::now(), out.get(..count).unwrap_or_default());
    }
}
