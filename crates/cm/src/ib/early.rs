//! Requests that came before somebody listens to their service. Programs that connect a second time, as perftest's do,
//! ask as soon as the other side has said that it goes on, and its `rdma_listen` may be some microseconds away. On real
//! adapters the way there hides that; here the request is quicker than the listener. So it waits a moment, and is
//! rejected when still nobody listens.

use std::collections::VecDeque;

use weft_mad::{GmpAddress, MadBytes};
use weft_verbs::Instant;
use weft_wire::mad::Mad;

use super::limits::{EARLY_MAX, LISTENER_GRACE};

/// A request, or one for a service's queue pair.
#[derive(Debug)]
pub(super) struct Waiting {
    due: Instant,
    service_id: u64,
    pub from: GmpAddress,
    pub mad: MadBytes,
}

/// What waits, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Early {
    waiting: VecDeque<Waiting>,
}

impl Early {
    /// Keeps a request until its time is over. `false`: there is no room, so it has to be dealt with now. One that comes
    /// again is kept once.
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

    /// The next one whose time is over.
    pub fn next(&mut self, now: Instant) -> Option<Waiting> {
        let ripe = self.waiting.iter().position(|kept| kept.due <= now)?;
        self.waiting.remove(ripe)
    }

    /// Somebody listens to services from now on: who asked for one of them has waited long enough.
    pub fn hasten(&mut self, listened: impl Fn(u64) -> bool) {
        for kept in self.waiting.iter_mut().filter(|kept| listened(kept.service_id)) {
            kept.due = Instant(0);
        }
    }

    /// When the next one's time is over.
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
