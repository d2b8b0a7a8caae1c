//! Progress of a failure: the requests or calls that it has seen, and whether it strikes the next one.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};
use rustc_hash::FxHashMap;

use weft_verbs::injection::Injection;
use weft_verbs::units::PPM_MAX;
use weft_verbs::{Instant, QpId};

/// Queue pairs whose requests are numbered; further ones share their numbers.
const QPS_MAX: usize = 65_536;

/// Requests or calls seen, and those of them that were struck.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    seen: u64,
    struck: u64,
}

/// Progress of one failure.
#[derive(Debug)]
pub(super) struct Progress {
    begun: Instant,
    numbers: SplitMix64,
    all: Counts,
    of_qps: FxHashMap<QpId, Counts>,
}

impl Progress {
    /// Begins now.
    pub(super) fn new(now: Instant, seed: u64) -> Progress {
        let numbers = SplitMix64::from_seed(seed.to_le_bytes());
        Progress { begun: now, numbers, all: Counts::default(), of_qps: FxHashMap::default() }
    }

    /// Returns how often it has struck.
    pub(super) fn struck(&self) -> u64 {
        self.all.struck
    }

    /// Counts a strike that a clock decided.
    pub(super) fn on_timed_strike(&mut self) {
        self.all.struck += 1;
    }

    /// Counts a request or call. Returns whether the failure may strike it: the caller decides between several, and calls
    /// [`Progress::on_strike`].
    pub(super) fn sees(&mut self, injection: &Injection, now: Instant, qp: Option<QpId>) -> bool {
        let scope = &injection.scope;
        // The number is drawn for every request, so that times do not affect the draws.
        let hit = scope.chance_ppm == 0 || self.numbers.next_u64() % u64::from(PPM_MAX) < u64::from(scope.chance_ppm);
        let counts = match self.numbered_alone(injection, qp) {
            Some(qp) => self.of_qps.entry(qp).or_default(),
            None => &mut self.all,
        };
        counts.seen += 1;
        let age = now.since(self.begun);
        let in_time = age >= scope.after && injection.window().is_none_or(|window| age < scope.after + window);
        let is_left = injection.strikes_max().is_none_or(|max| counts.struck < max);
        in_time && hit && counts.seen >= scope.from && is_left
    }

    /// Counts a strike at the request or call that it saw last.
    pub(super) fn on_strike(&mut self, injection: &Injection, qp: Option<QpId>) {
        self.all.struck += 1;
        if let Some(qp) = self.numbered_alone(injection, qp) {
            self.of_qps.entry(qp).or_default().struck += 1;
        }
    }

    /// Returns the queue pair if its requests have numbers of their own.
    fn numbered_alone(&self, injection: &Injection, qp: Option<QpId>) -> Option<QpId> {
        let has_room = |qp: &QpId| self.of_qps.len() < QPS_MAX || self.of_qps.contains_key(qp);
        qp.filter(|qp| injection.scope.per_qp && has_room(qp))
    }

    /// Removes the counts of a destroyed queue pair.
    pub(super) fn forget(&mut self, qp: QpId) {
        self.of_qps.remove(&qp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(spec: &str, qps: u32) -> Vec<u64> {
        let injection = Injection::parse(&format!("status=FATAL_ERR,{spec}")).unwrap();
        let mut progress = Progress::new(Instant(5_000_000), injection.scope.seed);
        (0..30u64)
            .filter(|number| {
                let qp = QpId { index: *number as u32 % qps, generation: 0 };
                // One request each millisecond.
                let now = Instant(5_000_000 + number * 1_000_000);
                let strikes = progress.sees(&injection, now, Some(qp));
                if strikes {
                    progress.on_strike(&injection, Some(qp));
                }
                strikes
            })
            .collect()
    }

    #[test]
    fn numbers_times_and_counts_limit_the_strikes() {
        assert_eq!(run("", 1).len(), 30);
        assert_eq!(run("from=3,count=2", 2), [2, 3]);
        assert_eq!(run("after=10ms,for=3ms", 1), [10, 11, 12]);
        assert_eq!(run("from=5,after=10ms,count=1", 1), [10]);
        // The third request of each of two queue pairs.
        assert_eq!(run("from=3,count=1,per=qp", 2), [4, 5]);
    }

    #[test]
    fn a_seed_repeats() {
        let struck = run("chance=50%,seed=7", 1);
        assert_eq!(struck, run("chance=50%,seed=7", 1));
        assert_ne!(struck, run("chance=50%,seed=8", 1));
        assert!((8..22).contains(&struck.len()), "{struck:?}");
        assert_eq!(run("chance=50%,seed=7,count=2", 1), struck[..2]);
    }
}
