//! Decides whether to stay awake for the next packet. Sleeping and waking costs several microseconds on both sides, and
//! the sender pays its part. While packets come in close succession, polling is cheaper. It continues only as long as
//! it succeeds, and offers the processor to others between two polls.

use weft_verbs::{Duration, Instant};

use crate::busy_poll::Yielded;

/// How long to spin after the last packet: about the time that an idle processor takes to answer in a virtual machine,
/// so that packets that only wait for that answer count as close to each other.
const SPIN: Duration = Duration::from_micros(200);
/// Consecutive spins that may fail.
const VAIN_MAX: u32 = 3;
/// How long the thread leaves a processor to another thread that wanted it. A sleeping thread gets it as soon as a
/// packet comes; a yielding one gets it when the other's time slice ends.
const LEFT: Duration = Duration::from_millis(20);
/// Packets in close succession after which spinning is tried again.
const CLOSE_MIN: u32 = 8;

/// The spinning decision.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spin {
    /// When packets last came.
    last: Instant,
    /// Packets in close succession.
    close: u32,
    /// Failed spins since the last packet in close succession.
    vain: u32,
    until: Option<Instant>,
    /// Until when the processor is left to others.
    left_until: Instant,
}

impl Spin {
    /// Records arrived packets. `allowed`: spinning for the next ones is allowed.
    pub fn on_packets(&mut self, now: Instant, allowed: bool) {
        if now.since(self.last) <= SPIN {
            self.close = (self.close + 1).min(CLOSE_MIN);
            self.vain = 0;
        }
        self.last = now;
        self.until = (allowed && self.close >= CLOSE_MIN && now >= self.left_until).then(|| now + SPIN);
    }

    /// Records a yield between two polls.
    pub fn on_yield(&mut self, yielded: Yielded) {
        if yielded.switched {
            (self.until, self.left_until) = (None, yielded.back_at + LEFT);
        }
    }

    /// Returns, after a poll that found nothing, whether to poll again at once.
    pub fn goes_on(&mut self, now: Instant) -> bool {
        match self.until {
            Some(until) if now < until => true,
            Some(_) => {
                self.until = None;
                self.vain += 1;
                if self.vain >= VAIN_MAX {
                    self.close = 0;
                    self.vain = 0;
                }
                false
            }
            None => false,
        }
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
