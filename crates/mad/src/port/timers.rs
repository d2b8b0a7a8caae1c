//! Deadlines of a port's requests and transfers.

use std::collections::BTreeSet;

use weft_verbs::Instant;

/// Owner of an expired deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TimerKey {
    Request(usize),
    /// Incoming transfer by its number.
    Incoming(u32),
}

/// Deadlines in order.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Instant, TimerKey)>);

impl Timers {
    pub fn cancel(&mut self, at: Instant, key: TimerKey) {
        self.0.remove(&(at, key));
    }

    pub fn move_to(&mut self, from: Instant, to: Instant, key: TimerKey) {
        self.0.remove(&(from, key));
        self.0.insert((to, key));
    }

    pub fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    pub fn due(&mut self, now: Instant) -> Option<TimerKey> {
        let (at, key) = *self.0.first()?;
        (at <= now).then(|| {
            self.0.remove(&(at, key));
            key
        })
    }
}
