//! Packet channels of programs to the fabric's switches, in packet mode (every packet travels hop by hop).

use weft_ipc::{Refusal, Request, Response};

use super::Attach;
use super::call::{Call, Outcome};
use super::route::{Routed, Rules};
use super::shared::Shared;
use crate::hops::PacketChannels;
use crate::host::Host;
use crate::refusal::{EALREADY, EINVAL, refuse};
use crate::umad;

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    Routed::Here(match request {
        Request::OpenPacketChannel => {
            Rules::PLAIN.to(|broker, call| open(&mut broker.packet_channels, &broker.shared, call))
        }
        other => return Routed::Elsewhere(other),
    })
}

fn open(packet_channels: &mut PacketChannels, shared: &Shared, call: Call<'_, impl Host>) -> Result<Outcome, Refusal> {
    let id = call.id;
    let client = shared.sessions.get(id).filter(|client| client.is_on_host());
    let (Some(client), Some(running)) = (client, shared.fabric.running().filter(|running| running.packets())) else {
        return Ok(Response::PacketChannel { packets: false }.into());
    };
    let slot = client.slot.ok_or_else(|| refuse(EINVAL, "a packet channel needs a slot: ask for a slot first"))?;
    let adapters = running.adapters(&client.host).unwrap_or_default();
    let ports = umad::ports_of(running.fabric(), shared.fabric.generation(), adapters);
    // The existing packet channel may hold waiting packets, and other packet channels' packets may wait for it.
    if packet_channels.has(id) {
        return Err(refuse(EALREADY, "a program has one packet channel"));
    }
    let end = call.host.open_packet_channel(id)?;
    if let Some(end) = end {
        packet_channels.connect(id, slot, ports, end);
    }
    let attach = Attach { packet_channel: Some(id), ..Attach::default() };
    Ok(Outcome::with(Response::PacketChannel { packets: true }, attach))
}

/// Resets the packet channels after the fabric changed or went down.
pub(super) fn follow(packet_channels: &mut PacketChannels, shared: &Shared) {
    let generation = shared.fabric.generation();
    let running = shared.fabric.running().filter(|running| running.packets());
    packet_channels.start_anew(|id| {
        let adapters = shared.sessions.get(id).and_then(|client| running?.adapters(&client.host)).unwrap_or_default();
        running.map_or(Vec::new(), |running| umad::ports_of(running.fabric(), generation, adapters))
    });
}
