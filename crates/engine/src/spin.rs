//! Whether to stay awake for the next packet. To sleep and be woken costs several microseconds on both sides, of which
//! the sender pays its part; while packets come in close succession it is cheaper to look again and again. It is done
//! only as long as it succeeds, and the processor is offered to others between two looks.

use weft_verbs::{Duration, Instant};

use crate::busy_poll::Yielded;

/// How long after the last packet: about what a processor that has fallen asleep takes to answer, in a virtual machine,
/// so that packets which only wait for that answer are close to each other.
const SPIN: Duration = Duration::from_micros(200);
/// Spins in a row that may be in vain.
const VAIN_MAX: u32 = 3;
/// For how long a processor that another thread wanted is left to it. A thread that sleeps gets it as soon as a packet
/// comes; one that yields gets it when the other's time slice ends.
const LEFT: Duration = Duration::from_millis(20);
/// Times that a packet comes soon after the last, from which on it is worth while again.
const CLOSE_MIN: u32 = 8;

/// The decision.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spin {
    /// When packets came last.
    last: Instant,
    /// Packets in close succession.
    close: u32,
    /// Spins in vain since.
    vain: u32,
    until: Option<Instant>,
    /// Until when the processor is left to others.
    left_until: Instant,
}

impl Spin {
    /// Packets came. `allowed`: it may be spun for the next ones.
    pub fn on_packets(&mut self, now: Instant, allowed: bool) {
        if now.since(self.last) <= SPIN {
            self.close = (self.close + 1).min(CLOSE_MIN);
            self.vain = 0;
        }
        self.last = now;
        self.until = (allowed && self.close >= CLOSE_MIN && now >= self.left_until).then(|| now + SPIN);
    }

    /// The thread yielded between two looks.
    pub fn on_yield(&mut self, yielded: Yielded) {
        if yielded.switched {
            (self.until, self.left_until) = (None, yielded.back_at + LEFT);
        }
    }

    /// Nothing came: whether to look again at once.
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
