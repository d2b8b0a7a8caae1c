//! The clock: CLOCK_MONOTONIC in nanoseconds, as `clock_gettime` gives it to the program too, so that completion
//! timestamps can be compared with the program's own.

use rustix::time::{ClockId, clock_gettime};
use weft_verbs::Instant;

/// Now.
#[inline]
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    Instant(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
