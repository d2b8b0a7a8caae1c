//! One connection.

use std::net::SocketAddr;

use weft_iwarp::{Negotiation, Offer};
use weft_verbs::{Duration, Instant};

use super::Phase;
use super::limits::{FIRST_PAUSE, LISTENER_GRACE};

/// Number of a connection, never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(pub u64);

/// How long a connection is tried again whose peer does not listen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pause: Duration,
    until: Instant,
}

impl Patience {
    /// Patience of a connection that begins.
    pub fn new(now: Instant) -> Patience {
        Patience { pause: FIRST_PAUSE, until: now + LISTENER_GRACE }
    }

    /// Patience of a peer's connection.
    pub const NONE: Patience = Patience { pause: Duration::ZERO, until: Instant(0) };

    /// Returns when a connection that was refused now is tried again; `None`: the refusal is final.
    pub fn next(&mut self, now: Instant) -> Option<Instant> {
        let next = (now < self.until).then(|| now + self.pause);
        self.pause *= 2;
        next
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub phase: Phase,
    pub local: SocketAddr,
    pub peer: SocketAddr,
    pub offer: Offer,
    /// Next pause after a refusal, and when a refusal is final.
    pub patience: Patience,
    /// Private data of this side's request.
    pub private_data: Vec<u8>,
    /// Number of the queue pair, once a program named it.
    pub qp_num: Option<u32>,
    /// The negotiation, from TCP's connection until the stream is handed over.
    pub negotiation: Option<Negotiation>,
    /// Deadline of the phase.
    pub deadline: Option<Instant>,
    /// The connection is one of a peer, not of this side's making.
    pub is_incoming: bool,
    /// The number of the peer's queue pair, if the two processes exchange data without the stream.
    pub peer_qp: Option<u32>,
}
