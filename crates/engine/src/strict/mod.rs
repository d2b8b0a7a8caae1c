//! Strict mode, `WEFT_STRICT=SEED`: the adapter promises no more than the specification does. Programs that rely on more fail here, and
//! the seed that showed it shows it again, as far as threads permit.
//!
//! - [`placement`]: bytes that arrived are written in any order, with pauses, before anything that promises them becomes visible.
//! - [`calls`]: verbs may take their time, so a peer's packets arrive before the next call.
//! - Completions and events come late, in batches and out of order between work queues (`weft_hca`'s strict mode).
//! - Datagrams overtake each other (`weft_link`'s faults).
//!
//! Data moves by packets. Streams (iWARP) have the delays of calls and completions alone.

mod calls;
mod dice;
mod placement;

use std::sync::atomic::{AtomicBool, Ordering};

use weft_link::FaultSpec;

pub use calls::{Call, dawdle};
pub use placement::{defer, place};

/// Share of datagrams that later packets overtake, per million.
const DATAGRAMS_LATE_PPM: u32 = 50_000;

static ON: AtomicBool = AtomicBool::new(false);

/// Whether strict mode is on.
#[inline]
pub fn on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Returns the faults that let datagrams overtake each other.
pub fn late_datagrams(seed: u64) -> FaultSpec {
    FaultSpec { late_datagrams_ppm: DATAGRAMS_LATE_PPM, seed, ..FaultSpec::default() }
}

/// Switches strict mode on.
pub fn start(seed: u64) {
    dice::seed(seed);
    ON.store(true, Ordering::Relaxed);
}
