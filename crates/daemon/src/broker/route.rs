//! The conditions of a request and its handler: rows of the features' tables.

use weft_ipc::{Refusal, Request};

use super::Broker;
use super::call::{Call, Outcome};

/// Conditions of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rules {
    /// Only trusted users may make it: the text completes "may not".
    pub trusted: Option<&'static str>,
    /// It may change the state that is saved for a successor.
    pub saved: bool,
    /// It waits until recovery ends: a predecessor's programs may still return and make an earlier answer wrong.
    pub waits: bool,
}

impl Rules {
    /// Any user may make the request, it changes no saved state, and it waits until recovery ends.
    pub const PLAIN: Rules = Rules { trusted: None, saved: false, waits: true };

    /// It may change the state that is saved for a successor.
    pub const fn saved(self) -> Rules {
        Rules { saved: true, ..self }
    }

    /// Only trusted users may make it; `what` completes "may not".
    pub const fn trusted(self, what: &'static str) -> Rules {
        Rules { trusted: Some(what), ..self }
    }

    /// It is answered during recovery, too.
    pub const fn during_recovery(self) -> Rules {
        Rules { waits: false, ..self }
    }

    /// Completes a row of a feature's table.
    pub fn to<H, F>(self, run: F) -> Route<H>
    where
        F: FnOnce(&mut Broker, Call<'_, H>) -> Result<Outcome, Refusal> + 'static,
    {
        Route { rules: self, run: Box::new(run) }
    }
}

type Handler<H> = Box<dyn FnOnce(&mut Broker, Call<'_, H>) -> Result<Outcome, Refusal>>;

/// A request with its rules and its handler.
pub(super) struct Route<H> {
    pub rules: Rules,
    pub run: Handler<H>,
}

/// A feature's answer to a request.
pub(super) enum Routed<H> {
    /// It is this feature's.
    Here(Route<H>),
    /// It may be another feature's.
    Elsewhere(Request),
}

impl<H> Routed<H> {
    /// Asks the next feature unless this one has the request.
    pub fn or_else(self, next: impl FnOnce(Request) -> Routed<H>) -> Routed<H> {
        match self {
            Routed::Here(route) => Routed::Here(route),
            Routed::Elsewhere(request) => next(request),
        }
    }
}
