//! Counters over time: the last minutes second by second, and the last day minute by minute.

use std::collections::VecDeque;

use serde::Serialize;

use crate::limits::{FINE_SAMPLES_MAX, MINUTE_SAMPLES_MAX};

/// Milliseconds of a minute.
const MINUTE_MS: u64 = 60_000;

/// Totals at one time, or their means over a minute.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Sample {
    /// Time in milliseconds since 1970.
    pub at: u64,
    /// Bytes per second that all ports, or all adapters, send.
    pub bytes: f64,
    /// Packets per second that they send.
    pub packets: f64,
    /// Errors per second.
    pub errors: f64,
    /// Links without data, of a minute the most.
    pub dead: u32,
}

/// The samples.
#[derive(Debug, Default)]
pub struct History {
    fine: VecDeque<Sample>,
    minutes: VecDeque<Sample>,
    /// Sums of the present minute, and how many samples they have.
    sums: Sample,
    count: u32,
}

impl History {
    /// Adds a sample.
    pub fn add(&mut self, sample: Sample) {
        push(&mut self.fine, sample, FINE_SAMPLES_MAX);
        let minute = sample.at / MINUTE_MS;
        if self.count > 0 && self.sums.at / MINUTE_MS != minute {
            let count = f64::from(self.count);
            let sums = std::mem::take(&mut self.sums);
            let mean = Sample {
                bytes: sums.bytes / count,
                packets: sums.packets / count,
                errors: sums.errors / count,
                ..sums
            };
            push(&mut self.minutes, mean, MINUTE_SAMPLES_MAX);
            self.count = 0;
        }
        self.sums = Sample {
            at: minute * MINUTE_MS,
            bytes: self.sums.bytes + sample.bytes,
            packets: self.sums.packets + sample.packets,
            errors: self.sums.errors + sample.errors,
            dead: self.sums.dead.max(sample.dead),
        };
        self.count += 1;
    }

    /// Returns the samples of the last minutes.
    pub fn fine(&self) -> &VecDeque<Sample> {
        &self.fine
    }

    /// Returns the means of the minutes before the present one.
    pub fn minutes(&self) -> &VecDeque<Sample> {
        &self.minutes
    }
}

fn push(ring: &mut VecDeque<Sample>, sample: Sample, max: usize) {
    if ring.len() == max {
        ring.pop_front();
    }
    ring.push_back(sample);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_the_mean_of_its_samples() {
        let mut history = History::default();
        for second in 0..120 {
            let (bytes, dead) = if second < 30 { (100.0, 3) } else { (300.0, 1) };
            history.add(Sample { at: second * 1000, bytes, dead, ..Sample::default() });
        }
        history.add(Sample { at: 120_000, ..Sample::default() });
        let minutes: Vec<_> = history.minutes().iter().map(|sample| (sample.at, sample.bytes, sample.dead)).collect();
        assert_eq!(minutes, [(0, 200.0, 3), (60_000, 300.0, 1)]);
    }

    #[test]
    fn two_days_of_seconds_take_no_more_memory_than_one() {
        let mut history = History::default();
        for second in 0..2 * 24 * 3600 {
            history.add(Sample { at: second * 1000, bytes: second as f64, ..Sample::default() });
        }
        assert_eq!((history.fine().len(), history.minutes().len()), (FINE_SAMPLES_MAX, MINUTE_SAMPLES_MAX));
        assert!(
            history.fine.capacity() <= 2 * FINE_SAMPLES_MAX && history.minutes.capacity() <= 2 * MINUTE_SAMPLES_MAX
        );
    }
}
