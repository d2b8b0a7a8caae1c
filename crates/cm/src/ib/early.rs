//! Requests that arrive before any program listens to their service. Programs that connect a second time, as perftest's
//! do, send the request as soon as the other side says that it goes on, and its `rdma_listen` may be some microseconds
//! away. On real adapters the network latency hides that; here the request overtakes the listener. So the request waits
//! a moment, and is rejected if there is still no listener.

use std::collections::VecDeque;

use weft_mad::{GmpAddress, MadBytes};
use weft_verbs::Instant;
use weft_wire::mad::Mad;

use super::limits::{EARLY_MAX, LISTENER_GRACE};

/// A REQ or SIDR_REQ that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    due: Instant,
    service_id: u64,
    pub from: GmpAddress,
    pub mad: MadBytes,
}

/// Waiting requests, oldest first.
#[derive(Debug, Default)]
pub(super) struct Early {
    waiting: VecDeque<Waiting>,
}

impl Early {
    /// Keeps a request until its grace period is over; a repeat is kept once. Returns `false` if there is no room: the
    /// caller then handles the request now.
    pub fn keep(&mut self, now: Instant, service_id: u64, from: &GmpAddress, mad: &MadBytes) -> bool {
        if self.waiting.iter().any(|kept| kept.is(from, mad)) {
            return true;
        }
        let room = self.waiting.len() < EARLY_MAX;
        if room {
            self.waiting.push_back(Waiting { due: now + LISTENER_GRACE, service_id, from: *from, mad: *mad });
        }
        room
    }

    /// Takes the next request whose grace period is over.
    pub fn next(&mut self, now: Instant) -> Option<Waiting> {
        let ripe = self.waiting.iter().position(|kept| kept.due <= now)?;
        self.waiting.remove(ripe)
    }

    /// Makes the requests for services that now have a listener due at once.
    pub fn hasten(&mut self, listened: impl Fn(u64) -> bool) {
        for kept in self.waiting.iter_mut().filter(|kept| listened(kept.service_id)) {
            kept.due = Instant(0);
        }
    }

    /// Returns when the next grace period ends.
    pub fn deadline(&self) -> Option<Instant> {
        self.waiting.iter().map(|kept| kept.due).min()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Waiting {
    fn is(&self, from: &GmpAddress, mad: &MadBytes) -> bool {
        let header = |mad: &MadBytes| {
            let mad: Mad = zerocopy::transmute!(*mad);
            (mad.header.tid(), mad.header.attr_id())
        };
        self.from == *from && header(&self.mad) == header(mad)
    }
}
