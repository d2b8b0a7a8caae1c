//! The adapter's own random numbers, so that a peer cannot guess keys and queue pair numbers, and a test can repeat a
//! run.

use rand_xoshiro::rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256StarStar};

/// Random number generator; equal seeds give equal sequences.
#[derive(Clone, Debug)]
pub(crate) struct Rng(Xoshiro256StarStar);

impl Rng {
    pub(crate) fn new(seed: [u64; 4]) -> Rng {
        // Mix the seed first, so that small test seeds are as good as others.
        let mut mixed = [0; 32];
        for (word, to) in seed.iter().zip(mixed.as_chunks_mut::<8>().0) {
            *to = SplitMix64::from_seed(word.to_le_bytes()).next_u64().to_le_bytes();
        }
        Rng(Xoshiro256StarStar::from_seed(mixed))
    }

    pub(crate) fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_repeat_and_others_differ() {
        let take = |seed| {
            let mut rng = Rng::new(seed);
            [rng.next_u32(), rng.next_u32(), rng.next_u32()]
        };
        assert_eq!(take([1, 2, 3, 4]), take([1, 2, 3, 4]));
        assert_ne!(take([1, 2, 3, 4]), take([1, 2, 3, 5]));
        assert_ne!(take([0; 4]), [0; 3]);
    }
}
