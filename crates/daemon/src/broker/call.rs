//! A request's circumstances, and its result.

use std::os::fd::OwnedFd;
use std::time::Instant;

use weft_ipc::Response;

use super::output::Attach;
use crate::slots::ClientId;

/// Result of a request.
pub(super) enum Outcome {
    Reply(Box<Response>, Attach),
    NoReply,
    Deferred,
}

impl Outcome {
    /// Makes a reply that carries descriptors.
    pub fn with(response: Response, attach: Attach) -> Outcome {
        Outcome::Reply(Box::new(response), attach)
    }
}

impl From<Response> for Outcome {
    fn from(response: Response) -> Outcome {
        Outcome::with(response, Attach::default())
    }
}

/// The circumstances of a request.
pub(super) struct Call<'a, H> {
    pub now: Instant,
    /// The client that asks.
    pub id: ClientId,
    /// Descriptors that came with the request.
    pub fds: &'a [OwnedFd],
    pub host: &'a mut H,
}
