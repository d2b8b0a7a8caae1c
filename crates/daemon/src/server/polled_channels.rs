//! The packet channels that the daemon polls.

use std::time::{Duration, Instant};

use weft_shm::{BusyPoll, BusyPollLimits};

use crate::slots::ClientId;

const BUSY_POLL: BusyPollLimits = BusyPollLimits {
    // Longer than a program takes from a packet to its answer.
    period: Duration::from_micros(50),
    // Packets come in bursts: after each call the daemon polls.
    dense: Duration::ZERO,
    dense_min: 0,
    fruitless_max: 1,
    // Senders and receivers may need this processor.
    yield_after: Duration::ZERO,
    // The daemon yields after each poll that found nothing, so that another process takes the processor for a moment
    // only; longer than a yield to no other process.
    preempted: Duration::from_micros(20),
    // Packets wake the daemon meanwhile.
    backoff: Duration::from_millis(20),
};

/// Packet channels that the daemon polls.
#[derive(Debug)]
pub(super) struct Attended {
    pub(super) clients: Vec<ClientId>,
    /// Time of the last packet.
    pub(super) last: Instant,
    pub(super) busy_poll: BusyPoll<Instant>,
}

impl Attended {
    pub(super) fn new(now: Instant) -> Attended {
        Attended { clients: Vec::new(), last: now, busy_poll: BusyPoll::new(&BUSY_POLL) }
    }

    /// Returns whether there are any.
    pub(super) fn some(&self) -> bool {
        !self.clients.is_empty()
    }
}
