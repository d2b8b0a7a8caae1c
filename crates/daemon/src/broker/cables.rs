//! Cables of programs to the fabric's switches, in packet mode (every packet travels hop by hop).

use weft_ipc::{Refusal, Request, Response};

use super::Attach;
use super::dispatch::{Call, Outcome, Routed, Rules};
use super::shared::Shared;
use crate::hops::Cables;
use crate::host::Host;
use crate::refusal::{EALREADY, EINVAL, refuse};
use crate::umad;

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    Routed::Here(match request {
        Request::OpenCable => Rules::PLAIN.to(|broker, call| open(&mut broker.cables, &broker.shared, call)),
        other => return Routed::Elsewhere(other),
    })
}

fn open(cables: &mut Cables, shared: &Shared, call: Call<'_, impl Host>) -> Result<Outcome, Refusal> {
    let id = call.id;
    let client = shared.sessions.get(id).filter(|client| client.is_on_host());
    let (Some(client), Some(running)) = (client, shared.fabric.running().filter(|running| running.packets())) else {
        return Ok(Response::Cable { packets: false }.into());
    };
    let slot = client.slot.ok_or_else(|| refuse(EINVAL, "a cable needs a slot: ask for a slot first"))?;
    let adapters = running.adapters(&client.host).unwrap_or_default();
    let ports = umad::ports_of(running.fabric(), shared.fabric.generation(), adapters);
    // The existing cable may hold waiting packets, and other cables' packets may wait for it.
    if cables.has(id) {
        return Err(refuse(EALREADY, "a program has one cable"));
    }
    let end = call.host.open_cable(id)?;
    if let Some(end) = end {
        cables.connect(id, slot, ports, end);
    }
    let attach = Attach { cable: Some(id), ..Attach::default() };
    Ok(Outcome::with(Response::Cable { packets: true }, attach))
}

/// Resets the cables after the fabric changed or went down.
pub(super) fn follow(cables: &mut Cables, shared: &Shared) {
    let generation = shared.fabric.generation();
    let running = shared.fabric.running().filter(|running| running.packets());
    cables.start_anew(|id| {
        let adapters = shared.sessions.get(id).and_then(|client| running?.adapters(&client.host)).unwrap_or_default();
        running.map_or(Vec::new(), |running| umad::ports_of(running.fabric(), generation, adapters))
    });
}
