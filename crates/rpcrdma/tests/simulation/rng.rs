//! Random numbers that a seed repeats.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};
use std::ops::RangeInclusive;

pub struct Rng(SplitMix64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(SplitMix64::seed_from_u64(seed))
    }

    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        range.start() + (self.number() % (range.end() - range.start() + 1) as u64) as usize
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.within(1..=times) == 1
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.fill_bytes(&mut bytes);
        bytes
    }
}
