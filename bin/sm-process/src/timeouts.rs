//! Requests without a completion timeout. A kernel reports a request that was not answered; a simulator behind a
//! preloaded library may not. So this module times requests as well, with a margin, and the manager learns the outcome
//! of each.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use weft_sm::io::SmpOut;
use weft_wire::mad::Mad;

/// Extra time after the last retry before a request counts as timed out here.
const MARGIN: Duration = Duration::from_secs(1);

/// SMPs waiting for their answers.
#[derive(Debug, Default)]
pub struct Overdue {
    waiting: FxHashMap<u32, (Instant, Box<Mad>)>,
    order: VecDeque<(Instant, u32)>,
}

fn number(mad: &Mad) -> u32 {
    mad.header.tid() as u32
}

impl Overdue {
    /// Starts the timeout of a request.
    pub fn sent(&mut self, now: Instant, smp: &SmpOut) {
        if smp.timeout.is_zero() {
            return;
        }
        let deadline = now + smp.timeout * (smp.retries + 1) + MARGIN;
        self.waiting.insert(number(&smp.mad), (deadline, Box::new(smp.mad)));
        self.order.push_back((deadline, number(&smp.mad)));
    }

    /// Ends the timeout: an answer or a timeout report arrived.
    pub fn ended(&mut self, mad: &Mad) {
        self.waiting.remove(&number(mad));
    }

    /// Whether no request waits for an answer.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// When [`Overdue::poll`] will have a request.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        while let Some((deadline, number)) = self.order.front() {
            if self.waiting.get(number).is_some_and(|(of, _)| of == deadline) {
                return Some(*deadline);
            }
            self.order.pop_front();
        }
        None
    }

    /// Returns a request that has timed out without a report.
    pub fn poll(&mut self, now: Instant) -> Option<Box<Mad>> {
        self.poll_timeout().filter(|deadline| *deadline <= now)?;
        let (_, number) = self.order.pop_front()?;
        self.waiting.remove(&number).map(|(_, mad)| mad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::mad::{AttrId, Method, subn::Smp};

    fn smp(tid: u64) -> SmpOut {
        let mad = Smp::lid_routed(Method::GET, tid, AttrId::NODE_INFO, 0, 0).to_mad();
        SmpOut { dlid: 1, mad, timeout: Duration::from_millis(100), retries: 1 }
    }

    #[test]
    fn what_has_no_end_is_given_up_and_nothing_else() {
        let mut timeouts = Overdue::default();
        let start = Instant::now();
        for tid in 1..=3 {
            timeouts.sent(start, &smp(tid));
        }
        timeouts.sent(start, &SmpOut { timeout: Duration::ZERO, ..smp(4) });
        timeouts.ended(&smp(0x5_0000_0001).mad);
        let late = start + Duration::from_millis(200) + MARGIN;
        assert_eq!(timeouts.poll_timeout(), Some(late));
        assert!(timeouts.poll(late - Duration::from_millis(1)).is_none());
        let given_up: Vec<u64> = std::iter::from_fn(|| timeouts.poll(late)).map(|mad| mad.header.tid()).collect();
        assert_eq!((given_up, timeouts.poll_timeout()), (vec![2, 3], None));
        assert!(timeouts.is_empty() && timeouts.order.is_empty());
    }
}
