//! Beginning of a stream, until the peer's first FPDU has come: which side sends first, and how long the other one waits.

use weft_iwarp::StreamParams;
use weft_iwarp::limits::RTR_TIMEOUT;
use weft_verbs::Duration;

use super::limits::{FIRST_FPDU_REPEAT, FIRST_FPDU_WAIT};

/// Beginning of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Opening {
    /// It is over: both sides send as they like.
    #[default]
    Done,
    /// A responder in peer-to-peer mode must not send before the initiator has. It waits, then gives up.
    AwaitsRtr,
    /// Another responder lets the initiator send first. It waits, then sends.
    Yields,
    /// An initiator has sent nothing.
    Silent,
    /// The initiator has sent, and nothing has come back. It waits, then repeats that it is there.
    Unanswered,
}

impl Opening {
    /// Begins with a stream.
    pub fn new(params: &StreamParams) -> Opening {
        match params {
            StreamParams { awaits_rtr: true, .. } => Opening::AwaitsRtr,
            StreamParams { yields_first: true, .. } => Opening::Yields,
            StreamParams { repeats_first: true, .. } => Opening::Silent,
            _ => Opening::Done,
        }
    }

    /// Returns whether this side does not send.
    pub fn holds(self) -> bool {
        matches!(self, Opening::AwaitsRtr | Opening::Yields)
    }

    /// Returns how long it lasts at most.
    pub fn timeout(self) -> Option<Duration> {
        match self {
            Opening::AwaitsRtr => Some(RTR_TIMEOUT),
            Opening::Yields => Some(FIRST_FPDU_WAIT),
            Opening::Unanswered => Some(FIRST_FPDU_REPEAT),
            Opening::Done | Opening::Silent => None,
        }
    }
}
