//! From a request to its feature. Each feature module has a table of its requests: `route` gives each one its rules
//! (who may, whether it changes saved state, whether recovery defers it) and its handler.

use weft_ipc::{Refusal, Request};

use super::call::{Call, Outcome};
use super::route::{Route, Routed};
use super::{
    Broker, captures, cm, devices, fabric, faults, groups, host_files, host_networks, ledgers, losses, packet_channels,
    paths, peers, slots, status, streams, umad,
};
use crate::host::Host;
use crate::refusal::{EOPNOTSUPP, refuse};

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
        .or_else(faults::route)
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
