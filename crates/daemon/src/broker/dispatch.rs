//! From a request to its feature. Each feature module has a table of its requests: `route` gives each one its rules
//! (who may, whether it changes saved state, whether recovery defers it) and its handler.

use weft_ipc::{Refusal, Request};

use super::call::{Call, Outcome};
use super::{
    Broker, captures, cm, devices, fabric, groups, host_files, host_networks, ledgers, losses, packet_channels, paths,
    peers, slots, status, streams, umad,
};
use crate::host::Host;
use crate::refusal::{EOPNOTSUPP, refuse};

/// Conditions of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rules {
    /// Only trusted users may make it: the text completes "may not".
    trusted: Option<&'static str>,
    /// It may change the state that is saved for a successor.
    pub saved: bool,
    /// It waits until recovery ends: a predecessor's programs may still return and make an earlier answer wrong.
    waits: bool,
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
    run: Handler<H>,
}

/// A feature's answer to a request.
pub(super) enum Routed<H> {
    /// It is this feature's.
    Here(Route<H>),
    /// It may be another feature's.
    Elsewhere(Request),
}

impl<H> Routed<H> {
    fn or_else(self, next: impl FnOnce(Request) -> Routed<H>) -> Routed<H> {
        match self {
            Routed::Here(route) => Routed::Here(route),
            Routed::Elsewhere(request) => next(request),
        }
    }
}

/// Finds the route of a request; `None` if no feature has it.
pub(super) fn route<H: Host>(request: Request) -> Option<Route<H>> {
    let routed = devices::route(request)
        .or_else(slots::route)
        .or_else(status::route)
        .or_else(peers::route)
        .or_else(ledgers::route)
        .or_else(cm::route)
        .or_else(streams::route)
        .or_else(paths::route)
        .or_else(groups::route)
        .or_else(losses::route)
        .or_else(packet_channels::route)
        .or_else(host_networks::route)
        .or_else(host_files::route)
        .or_else(captures::route)
        .or_else(umad::route)
        .or_else(fabric::route);
    match routed {
        Routed::Here(route) => Some(route),
        Routed::Elsewhere(_) => None,
    }
}

impl Broker {
    pub(super) fn handle_request(&mut self, request: Request, call: Call<'_, impl Host>) -> Result<Outcome, Refusal> {
        let Some(Route { rules, run }) = route(request) else {
            return Err(refuse(EOPNOTSUPP, "this weft daemon has no such request"));
        };
        if rules.waits && self.shared.is_recovering() {
            return Ok(Outcome::Deferred);
        }
        self.shared.changed |= rules.saved;
        if let Some(what) = rules.trusted {
            self.shared.must_be_trusted(call.id, what)?;
        }
        run(self, call)
    }
}
