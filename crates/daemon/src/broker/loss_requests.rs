//! Undeliverable packets: the fabric's ports count them, and its traps report them to the subnet manager, as if each
//! packet had crossed the fabric.

use std::time::Instant;

use weft_fabric::{BadQkey, Fabric, GlobalRoute, PacketInfo, PortRef};
use weft_ipc::{
    FABRIC_PATHS_PER_MESSAGE_MAX, KEY_VIOLATIONS_PER_MESSAGE_MAX, KeyViolation, LostPackets, PathRequest, Refusal,
    Response,
};
use weft_verbs::Instant as FabricInstant;

use super::Broker;
use super::path_requests::HEADERS_BYTES;
use super::session::Outcome;
use crate::slots::ClientId;

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

impl Broker {
    pub(super) fn lost_packets(&mut self, now: Instant, id: ClientId, lost: &[LostPackets]) -> Outcome {
        let time = self.fabric.time(now);
        if let Some(running) = self.fabric.running_mut() {
            for lost in lost.iter().take(FABRIC_PATHS_PER_MESSAGE_MAX) {
                if let Some((from, way)) = self.paths.closed(id, lost.path) {
                    carry(running.fabric_mut(), time, from, &way, lost);
                }
            }
        }
        Response::Done.into()
    }

    pub(super) fn key_violations(
        &mut self,
        now: Instant,
        id: ClientId,
        violations: &[KeyViolation],
    ) -> Result<Outcome, Refusal> {
        let time = self.fabric.time(now);
        for violation in violations.iter().take(KEY_VIOLATIONS_PER_MESSAGE_MAX) {
            let port = self.host_port(id, violation.device, violation.port)?;
            let fabric = self.fabric.required()?.fabric_mut();
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
}
