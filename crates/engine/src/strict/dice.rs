//! Random numbers of strict mode: one sequence for the process.

use parking_lot::Mutex;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

static DICE: Mutex<Option<SplitMix64>> = Mutex::new(None);

/// Begins the sequence of a seed.
pub(super) fn seed(seed: u64) {
    *DICE.lock() = Some(SplitMix64::from_seed(seed.to_le_bytes()));
}

/// Returns a number below `limit`, which is not zero.
pub(super) fn below(limit: u64) -> u64 {
    DICE.lock().as_mut().map_or(0, |dice| dice.next_u64() % limit.max(1))
}
