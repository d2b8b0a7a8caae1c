//! Communication ids. A peer names a connection by its id, so no third party should be able to guess one.
//!
//! Ids are a counter seen through a keyed permutation of 32 bits: an id repeats only after some four thousand million
//! others, and knowing some of them reveals nothing about the next.

use std::hash::{DefaultHasher, Hasher};

/// Communication id of a connection of [`super::Cm`], as used on the wire; never 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(pub u32);

/// Rounds of the permutation: with four, a Feistel network of pseudo-random functions is a pseudo-random permutation.
const ROUNDS: u8 = 4;

/// Source of communication ids.
#[derive(Clone, Debug)]
pub(crate) struct CommIds {
    seed: u64,
    count: u32,
}

impl CommIds {
    /// Creates a source whose order depends only on the seed.
    pub(crate) fn new(seed: u64) -> CommIds {
        CommIds { seed, count: 0 }
    }

    /// Returns the next id.
    pub(crate) fn draw(&mut self) -> ConnId {
        loop {
            self.count = self.count.wrapping_add(1);
            let id = self.permute(self.count);
            if id != 0 {
                return ConnId(id);
            }
        }
    }

    /// Returns an unpredictable number for a purpose, among them the upper half of every transaction id.
    pub(crate) fn secret(&self, purpose: u8) -> u32 {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.seed);
        hasher.write_u8(0x80 | purpose);
        hasher.finish() as u32
    }

    fn permute(&self, value: u32) -> u32 {
        let (mut left, mut right) = ((value >> 16) as u16, value as u16);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ self.round(round, right));
        }
        u32::from(left) << 16 | u32::from(right)
    }

    /// SipHash of the half, keyed by seed and round.
    fn round(&self, round: u8, half: u16) -> u16 {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.seed);
        hasher.write_u8(round);
        hasher.write_u16(half);
        hasher.finish() as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ids_are_distinct_never_zero_and_depend_on_the_seed() {
        let mut ids = CommIds::new(7);
        let seen: BTreeSet<u32> = (0..50_000).map(|_| ids.draw().0).collect();
        assert_eq!(seen.len(), 50_000);
        assert!(!seen.contains(&0));
        assert_ne!(CommIds::new(7).draw(), CommIds::new(8).draw());
        assert_eq!(CommIds::new(7).draw(), CommIds::new(7).draw());
        assert_ne!(CommIds::new(7).secret(0), CommIds::new(7).secret(1));
    }

    #[test]
    fn the_permutation_does_not_step() {
        let mut ids = CommIds::new(1);
        let drawn: Vec<u32> = (0..100).map(|_| ids.draw().0).collect();
        let steps: BTreeSet<u32> = drawn.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        assert_eq!(steps.len(), 99, "no two steps are alike");
    }
}
