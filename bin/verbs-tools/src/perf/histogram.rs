//! Histogram of latencies with logarithmic buckets: a precision of 3% in a few kilobytes.

use std::fmt::Write;

/// Number of buckets per power of two.
const SUB: usize = 32;
/// Number of powers of two: up to 2^40 ns, 18 minutes.
const POWERS: usize = 41;

/// Counts of values in nanoseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: vec![0; SUB * POWERS], count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Histogram {
    /// Adds a value.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        let place = place(ns);
        if let Some(bucket) = self.buckets.get_mut(place) {
            *bucket += 1;
        }
        self.count += 1;
        self.sum += u128::from(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The smallest value.
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// The largest value.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The value that the given share (0 to 1) of all values does not exceed, with a precision of 3%.
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (place, &n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return upper(place).min(self.max);
            }
        }
        self.max
    }

    /// Upper bound and count of each power of two that holds values.
    pub fn octaves(&self) -> Vec<(u64, u64)> {
        let counts = self.buckets.chunks(SUB).map(|chunk| chunk.iter().sum::<u64>());
        let octaves = counts.enumerate().map(|(i, n)| (upper(i * SUB + SUB - 1), n));
        let mut list: Vec<_> = octaves.skip_while(|(_, n)| *n == 0).collect();
        while list.last().is_some_and(|(_, n)| *n == 0) {
            list.pop();
        }
        list
    }

    /// The distribution as a bar chart.
    pub fn bars(&self) -> String {
        /// Length of the longest bar in characters.
        const WIDTH: f64 = 50.0;
        let octaves = self.octaves();
        let most = octaves.iter().map(|(_, n)| *n).max().unwrap_or(1).max(1);
        let mut out = String::new();
        for (upper, n) in octaves {
            let length = (n as f64 / most as f64 * WIDTH).ceil() as usize;
            let share = n as f64 / self.count as f64 * 100.0;
            let _ = writeln!(out, "  up to {:>10.2} us {share:>7.3}% {}", upper as f64 / 1000.0, "#".repeat(length));
        }
        out
    }
}

/// The bucket of a value: one per value below SUB, then SUB per power of two.
fn place(ns: u64) -> usize {
    if ns < SUB as u64 {
        return ns as usize;
    }
    let power = ns.ilog2() as usize - SUB.ilog2() as usize;
    // 1 <= ns >> power < 2 * SUB, and its top bit is set: SUB buckets.
    ((power + 1) * SUB + ((ns >> power) as usize - SUB)).min(SUB * POWERS - 1)
}

/// Largest value of a bucket.
fn upper(place: usize) -> u64 {
    if place < SUB {
        return place as u64;
    }
    let power = place / SUB - 1;
    ((((place % SUB) + SUB + 1) as u64) << power) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_within_its_bucket() {
        let mut last = 0;
        for ns in (0..10_000).chain([65_535, 65_536, 1 << 20, (1 << 30) + 12345, 1 << 39]) {
            let place = place(ns);
            assert!(place >= last, "{ns}");
            last = place;
            assert!(upper(place) >= ns, "{ns}");
            assert!(place == 0 || upper(place - 1) < ns, "{ns}");
        }
        assert_eq!(place(u64::MAX), SUB * POWERS - 1);
    }

    #[test]
    fn quantiles_are_near() {
        let mut h = Histogram::default();
        for ns in 1..=10_000 {
            h.add(ns);
        }
        assert_eq!((h.min(), h.max(), h.count()), (1, 10_000, 10_000));
        for (share, exact) in [(0.5, 5000.0), (0.99, 9900.0), (0.999, 9990.0)] {
            let found = h.quantile(share) as f64;
            assert!((found - exact).abs() / exact < 0.04, "{share}: {found}");
        }
        assert_eq!(h.quantile(1.0), 10_000);
        assert!(h.bars().contains('#'));
        assert_eq!(Histogram::default().bars(), "");
    }
}
