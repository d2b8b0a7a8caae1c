//! The clock: CLOCK_MONOTONIC in nanoseconds, the same as the program reads with `clock_gettime`, so that it can
//! compare completion timestamps with its own.

use rustix::time::{ClockId, clock_gettime};
use weft_verbs::Instant;

/// Returns the current time.
#[inline]
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    Instant(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
