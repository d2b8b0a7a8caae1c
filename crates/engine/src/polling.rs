//! Threads that poll a completion queue: they turn the pump, and yield their processor where another poller needs it
//! ([`weft_shm::yielding`]).

use weft_shm::yield_processor;
use weft_verbs::{CqId, Duration, VerbsError, Wc};

use crate::engine::{CLOSED, DEAD, Engine};
use crate::memory_wait::Ended;
use crate::pump::Pump;
use crate::record::Extent;
use crate::{clock, trace};

/// How long a poll that took the last completion continues.
const STAY: Duration = Duration::from_micros(40);

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
        trace_polled(pump, &polled, out);
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
        self.leave_after(guard, extent_of(came));
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
        let came = pump.turn(yielded.back_at, false);
        if came > 0 {
            pump.yielding.on_arrival();
        }
        let polled = pump.hca.poll_cq(cq, out);
        trace_polled(pump, &polled, out);
        self.leave_after(guard, extent_of(Some(came)));
        polled
    }

    /// Continues a poll that took the last completion: turns the pump until something arrives, for a while.
    #[cold]
    fn poll_on(&self) {
        let (mut begin, mut yielded, mut yields) = (None, None, 0);
        loop {
            let mut guard = self.driver.lock(&self.pump);
            let Some(pump) = guard.as_mut() else { return };
            if let Some(yielded) = yielded.take() {
                pump.yielding.on_yield(yielded, pump.instruments.arrivals);
            }
            self.driver.on_poll(true);
            let came = pump.turn_briefly().unwrap_or(0);
            let now = pump.turned_at();
            let is_over = now.since(*begin.get_or_insert(now)) >= STAY;
            let ended = match came {
                // The background thread may have taken the WRITE while this one had no processor.
                _ if pump.memory_wait.is_written() => Some(Ended::Written),
                // The peer may have waited for this processor.
                0 => (is_over && yields > 0).then_some(Ended::TimedOut),
                _ => Some(Ended::Completed),
            };
            if came > 0 {
                pump.yielding.on_arrival();
            }
            if let Some(ended) = ended {
                pump.memory_wait.on_ended(ended, now);
            }
            let must_yield = ended.is_none() && (pump.yielding.must_yield(now) || is_over);
            self.leave_after(guard, extent_of(Some(came)));
            match ended {
                Some(Ended::TimedOut) => return self.driver.wake(),
                Some(_) => return,
                None if must_yield => {
                    yielded = Some(yield_processor(clock::now));
                    yields += 1;
                }
                None => {}
            }
        }
    }
}

/// Returns how many queue pairs a turn may have changed that brought so many frames and datagrams.
fn extent_of(came: Option<usize>) -> Extent {
    if matches!(came, Some(1..)) { Extent::Some } else { Extent::Nothing }
}

/// Traces and records the completions that a poll took.
#[inline]
fn trace_polled(pump: &mut Pump, polled: &Result<usize, VerbsError>, out: &[Wc]) {
    if trace::on()
        && let Ok(count) = *polled
    {
        trace::polled(clock::now(), out.get(..count).unwrap_or_default());
    }
    if let Some(record) = &mut pump.record
        && let Ok(count @ 1..) = *polled
    {
        record.polled(clock::now(), out.get(..count).unwrap_or_default());
    }
}
