//! Undeliverable packets: the fabric's ports count them, and its traps report them to the subnet manager, as if each
//! packet had crossed the fabric.

use weft_fabric::{BadQkey, Fabric, GlobalRoute, PacketInfo, PortRef};
use weft_ipc::{
    FABRIC_PATHS_PER_MESSAGE_MAX, KEY_VIOLATIONS_PER_MESSAGE_MAX, KeyViolation, LostPackets, PathRequest, Refusal,
    Request, Response,
};
use weft_verbs::Instant as FabricInstant;

use super::call::{Call, Outcome};
use super::paths::{HEADERS_BYTES, Paths};
use super::route::{Routed, Rules};
use super::shared::Shared;
use crate::host::Host;

/// The requests of this feature.
pub(super) fn route<H: Host>(request: Request) -> Routed<H> {
    Routed::Here(match request {
        Request::LostPackets(lost) => {
            Rules::PLAIN.to(move |broker, call| Ok(lose(&mut broker.shared, &broker.paths, &call, &lost)))
        }
        Request::KeyViolations(violations) => {
            Rules::PLAIN.to(move |broker, call| report(&mut broker.shared, &call, &violations))
        }
        other => return Routed::Elsewhere(other),
    })
}

/// Packets of one queue pair that one report sends over the fabric. Further packets lost between two reports are not
/// counted.
const LOST_PACKETS_MAX: u64 = 256;
/// A P_Key without its full-membership bit: no packet has 0 in these bits.
const PARTITION: u16 = 0x7fff;

fn carry(fabric: &mut Fabric, now: FabricInstant, from: PortRef, way: &PathRequest, lost: &LostPackets) {
    if way.pkey & PARTITION == 0 {
        return;
    }
    let payload = (lost.bytes / lost.packets.max(1)).min(way.mtu.into());
    let packet = PacketInfo {
        dlid: way.dlid,
        path_bits: 0,
        sl: way.sl,
        pkey: way.pkey,
        src_qp: lost.src_qp,
        dest_qp: lost.dest_qp,
        payload: payload as u32,
        words: (payload + HEADERS_BYTES).div_ceil(4) as u32,
    };
    for _ in 0..lost.packets.min(LOST_PACKETS_MAX) {
        // The drop is expected: the point is to count it.
        let _ = fabric.transmit(now, from, &packet, |_| {});
    }
}

fn lose(shared: &mut Shared, paths: &Paths, call: &Call<'_, impl Host>, lost: &[LostPackets]) -> Outcome {
    let time = shared.fabric.time(call.now);
    if let Some(running) = shared.fabric.running_mut() {
        for lost in lost.iter().take(FABRIC_PATHS_PER_MESSAGE_MAX) {
            if let Some((from, way)) = paths.closed(call.id, lost.path) {
                carry(running.fabric_mut(), time, from, &way, lost);
            }
        }
    }
    Response::Done.into()
}

fn report(shared: &mut Shared, call: &Call<'_, impl Host>, violations: &[KeyViolation]) -> Result<Outcome, Refusal> {
    let time = shared.fabric.time(call.now);
    for violation in violations.iter().take(KEY_VIOLATIONS_PER_MESSAGE_MAX) {
        let port = shared.host_port(call.id, violation.device, violation.port)?;
        let fabric = shared.fabric.required()?.fabric_mut();
        let bad = BadQkey {
            slid: violation.slid,
            dlid: violation.dlid,
            sl: violation.sl,
            qkey: violation.key,
            src_qp: violation.src_qp,
            dest_qp: violation.dest_qp,
            grh: violation.gids.map(|[sgid, dgid]| GlobalRoute { sgid, dgid, ..GlobalRoute::default() }),
        };
        match violation.is_qkey {
            true => fabric.report_bad_qkey(time, port, &bad),
            false => fabric.report_bad_pkey(time, port, &bad),
        }
    }
    Ok(Response::Done.into())
}
