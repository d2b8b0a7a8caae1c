//! Clock readings. The engine has the time of the protocol's state machines, the others the standard library's.

use std::time::{Duration, Instant};

/// A reading of a monotonic clock.
pub trait Moment: Copy + PartialOrd {
    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later.
    fn since(self, earlier: Self) -> Duration;

    /// Returns the moment that follows after a time.
    #[must_use]
    fn after(self, time: Duration) -> Self;
}

impl Moment for Instant {
    fn since(self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }

    fn after(self, time: Duration) -> Instant {
        self + time
    }
}

impl Moment for weft_verbs::Instant {
    fn since(self, earlier: weft_verbs::Instant) -> Duration {
        weft_verbs::Instant::since(self, earlier)
    }

    fn after(self, time: Duration) -> weft_verbs::Instant {
        self + time
    }
}
