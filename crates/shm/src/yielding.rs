//! Decides when a thread that polls without success yields its processor. A poller that shares its processor with its
//! peer keeps the peer from answering until its time slice ends, milliseconds later. A poller with a processor of its
//! own must not pay for that: a yield costs as much as a small message within the host.
//!
//! The time that the processor was away shows whether the yield was useful:
//! - no other thread wanted it: the next yield waits twice as long;
//! - others had it for a moment, as pollers that yield in turn do: yield whenever a poll finds nothing;
//! - another thread used a whole time slice: the peer may need another processor than this one, and a poller that
//!   yields at once would be away whenever the peer is not. So it polls for a while before it yields, unless that fails
//!   again and again, as it does where hundreds of pollers share a processor.

use std::cell::Cell;

use weft_sys::thread;
use weft_verbs::{Duration, Instant};

/// How long a poller polls before its first yield: longer than an answer takes between two processors.
const YIELD_AFTER: Duration = Duration::from_micros(20);
/// The shortest non-zero time, and the longest. The longest is a fraction of a time slice.
const YIELD_AFTER_RANGE: (Duration, Duration) = (Duration::from_micros(2), Duration::from_millis(1));
/// Clock readings further apart than this belong to a program that does other things between its polls.
const DENSE: Duration = Duration::from_micros(20);
/// An absence shorter than this is the system call alone.
const AWAY_MIN: Duration = Duration::from_micros(1);
/// After an absence longer than this, another thread used a whole time slice.
const SLICE_MIN: Duration = Duration::from_micros(500);
/// How long a poller polls before it yields to threads that use whole time slices. A random part adds up to as much
/// again, so that two peers that are away in turn meet sooner or later.
const YIELD_AFTER_SLICE: Duration = Duration::from_micros(100);
/// Arrivals between two yields that the yields alone account for.
const ARRIVALS_BY_YIELD: u64 = 2;
/// Consecutive yields with hardly an arrival in between, after which polling before a yield counts as useless.
const USELESS_YIELDS: u32 = 8;
/// Number of yields during which the poller does not try it again: initial and maximum.
const UNTRIED_YIELDS: (u32, u32) = (64, 1024);

/// One yield.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Yielded {
    /// When the thread yielded.
    pub at: Instant,
    /// When it ran again.
    pub back_at: Instant,
    /// Whether another thread had the processor meanwhile.
    pub switched: bool,
}

/// Yields the processor; `now` reads the clock.
pub fn yield_processor(now: impl Fn() -> Instant) -> Yielded {
    let at = now();
    std::thread::yield_now();
    let back_at = now();
    // Read the context-switch counters only where they matter.
    let switched = back_at.since(at) >= AWAY_MIN && was_preempted();
    Yielded { at, back_at, switched }
}

/// Whether the calling thread was preempted since the last call, according to the kernel.
fn was_preempted() -> bool {
    thread_local! { static TIMES: Cell<u64> = const { Cell::new(0) } }
    thread::times_preempted().is_none_or(|times| TIMES.replace(times) != times)
}

/// The yield decision of one process, whose threads poll until something arrives, and never sleep.
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveYield {
    /// Start of the run of unsuccessful polls; zero after an arrival.
    since: Instant,
    /// The clock at the last unsuccessful poll.
    polled_at: Instant,
    /// How long polls must find nothing before the thread yields.
    yield_after: Duration,
    /// Arrivals until the last yield.
    arrivals: u64,
    /// Consecutive yields to whole time slices for which polling beforehand did not help.
    useless: u32,
    /// Yields left until polling before them is tried again, and how many there were at the beginning.
    untried: (u32, u32),
}

impl Default for AdaptiveYield {
    fn default() -> AdaptiveYield {
        AdaptiveYield {
            since: Instant(0),
            polled_at: Instant(0),
            yield_after: YIELD_AFTER,
            arrivals: 0,
            useless: 0,
            untried: (0, 0),
        }
    }
}

impl AdaptiveYield {
    /// Records an arrival.
    #[inline]
    pub fn on_arrival(&mut self) {
        self.since = Instant(0);
    }

    /// Records a poll that found nothing and read the clock; returns whether the thread must yield.
    #[inline]
    pub fn must_yield(&mut self, now: Instant) -> bool {
        let dense = now.since(self.polled_at) < DENSE;
        self.polled_at = now;
        if self.since == Instant(0) || !dense {
            self.since = now;
        }
        dense && now.since(self.since) >= self.yield_after
    }

    /// Records a yield; `arrivals` counts all arrivals so far.
    pub fn on_yield(&mut self, yielded: Yielded, arrivals: u64) {
        let Yielded { at, back_at, switched } = yielded;
        let away = back_at.since(at);
        let few = arrivals.wrapping_sub(self.arrivals) <= ARRIVALS_BY_YIELD;
        self.arrivals = arrivals;
        (self.since, self.polled_at) = (back_at, back_at);
        let (shortest, longest) = YIELD_AFTER_RANGE;
        self.yield_after = if !switched {
            (self.yield_after * 2).clamp(shortest, longest)
        } else if away < SLICE_MIN || self.is_useless(few) {
            Duration::ZERO
        } else {
            let more = back_at.0 % YIELD_AFTER_SLICE.as_nanos() as u64;
            YIELD_AFTER_SLICE + Duration::from_nanos(more)
        };
    }

    /// Whether polling before the next yield is useless; `few`: hardly anything arrived since the last one.
    fn is_useless(&mut self, few: bool) -> bool {
        if !few {
            (self.useless, self.untried) = (0, (0, 0));
            return false;
        }
        if self.untried.0 > 0 {
            self.untried.0 -= 1;
            return true;
        }
        self.useless += 1;
        if self.useless >= USELESS_YIELDS {
            self.useless = 0;
            let (first, most) = UNTRIED_YIELDS;
            let untried = (self.untried.1 * 2).clamp(first, most);
            self.untried = (untried, untried);
        }
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const US: u64 = 1000;

    /// A poller that reads the clock each microsecond.
    struct Poller {
        adaptive: AdaptiveYield,
        now: Instant,
        arrivals: u64,
    }

    impl Poller {
        fn new() -> Poller {
            Poller { adaptive: AdaptiveYield::default(), now: Instant(1_000_000_000), arrivals: 0 }
        }

        /// Polls until a yield is due; returns how many microseconds that took.
        fn polls(&mut self) -> u64 {
            (0..)
                .find(|_| {
                    self.now = self.now + Duration::from_micros(1);
                    self.adaptive.must_yield(self.now)
                })
                .unwrap()
        }

        fn yields(&mut self, away: u64, switched: bool) {
            let at = self.now;
            self.now = Instant(at.0 + away);
            self.adaptive.on_yield(Yielded { at, back_at: self.now, switched }, self.arrivals);
        }

        fn receives(&mut self, times: u64) {
            self.arrivals += times;
            self.adaptive.on_arrival();
        }
    }

    #[test]
    fn a_processor_of_ones_own_is_offered_less_and_less_often() {
        let mut poller = Poller::new();
        let mut spent = Vec::new();
        for _ in 0..8 {
            spent.push(poller.polls());
            poller.yields(200, false);
        }
        assert!(spent.windows(2).all(|pair| pair[0] < pair[1] || pair[1] >= 999), "{spent:?}");
        let (first, longest) = (YIELD_AFTER.as_micros() as u64, YIELD_AFTER_RANGE.1.as_micros() as u64);
        assert!((first..=first + 1).contains(&spent[0]) && spent[7] <= longest + 1, "{spent:?}");
    }

    #[test]
    fn a_yield_that_took_long_without_another_thread_counts_as_short() {
        let mut poller = Poller::new();
        let first = poller.polls();
        poller.yields(50 * US, false);
        assert!(poller.polls() > first);
    }

    #[test]
    fn a_processor_that_others_share_politely_is_yielded_at_once() {
        let mut poller = Poller::new();
        for _ in 0..20 {
            poller.polls();
            poller.yields(5 * US, true);
            assert_eq!(poller.polls(), 0);
        }
        poller.receives(1);
        assert_eq!(poller.polls(), 0);
    }

    #[test]
    fn between_time_slices_of_others_it_polls_for_a_while() {
        let mut poller = Poller::new();
        for round in 0..20 {
            poller.polls();
            poller.yields(3000 * US + round * 7001, true);
            let spent = poller.polls();
            assert!((99..=200).contains(&spent), "{spent}");
            poller.receives(100);
        }
    }

    #[test]
    fn what_is_useless_is_seldom_tried() {
        let mut poller = Poller::new();
        let mut spent = 0;
        for _ in 0..3000 {
            spent += poller.polls();
            poller.yields(1000 * US, true);
            poller.receives(1);
        }
        assert!(spent < 3000 * 5, "{spent}");
        poller.receives(100);
        poller.polls();
        poller.yields(1000 * US, true);
        assert!(poller.polls() >= 99, "it got on without yields");
    }

    #[test]
    fn a_program_that_computes_between_its_polls_keeps_its_processor() {
        let mut adaptive = AdaptiveYield { yield_after: Duration::ZERO, ..AdaptiveYield::default() };
        let at = |us: u64| Instant(1_000_000_000 + us * US);
        assert!((0..1000).all(|n| !adaptive.must_yield(at(n * 50))));
        assert!(adaptive.must_yield(at(1000 * 50 - 49)));
    }
}
