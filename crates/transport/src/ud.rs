//! Unreliable datagrams: one packet per message, to any queue pair that an address handle and a Q_Key reach. The first
//! 40 bytes of each receive hold the network header of the datagram (IBA 11.4.1.2, RoCE A17.4.5.1).

use std::net::IpAddr;

use weft_verbs::{GidType, Instant, QpState, SendFlags, SendOp, VENDOR_ERR_INJECTED, WcFlags, WcOpcode, WcStatus};
use weft_wire::ext::{Deth, ImmDt};
use weft_wire::grh::Grh;
use weft_wire::packet::{ICRC_LEN, pad_for};
use weft_wire::{Bth, Headers, Kind, Opcode, Psn, Service};
use zerocopy::IntoBytes;

use crate::batch::TX_BURST_PACKETS;
use crate::core::{Core, Fault};
use crate::pace::Pace;
use crate::progress;
use crate::rq::RecvQueue;
use crate::segment::{self, Payload};
use crate::sge_list;
use crate::sq::SendQueue;
use crate::{Datagram, Env, RecvWqe, RxPacket, TxBatch};

/// Bytes of the network header in front of the payload.
const GRH_LEN: usize = 40;
/// A Q_Key with this bit set in a work request means the sender's own (IBA 10.2.5).
const CONTROLLED_QKEY: u32 = 0x8000_0000;
/// Next header and protocol value of UDP.
const UDP: u8 = 17;
/// Bytes of a UDP header.
const UDP_LEN: usize = 8;

/// State of a UD queue pair.
#[derive(Debug, Default)]
pub(crate) struct Ud {
    next: Psn,
    pace: Pace,
    recv: RecvWqe,
}

impl Ud {
    pub fn start_requester(&mut self, psn: u32) {
        self.next = Psn::new(psn);
    }

    pub fn wants_transmit(&self, core: &Core, sq: &SendQueue, now: Instant) -> bool {
        core.state() == QpState::Rts && !sq.is_empty() && self.pace.is_open(now)
    }

    /// Returns when a send delayed by pacing may continue.
    pub fn poll_timeout(&self, core: &Core, sq: &SendQueue) -> Option<Instant> {
        (core.state() == QpState::Rts && !sq.is_empty()).then(|| self.pace.opens_at())
    }

    pub fn poll_transmit<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, tx: &mut TxBatch, env: &mut E) {
        for _ in 0..TX_BURST_PACKETS {
            if !tx.has_room() || core.fault.is_some() || !self.wants_transmit(core, sq, core.now) {
                return;
            }
            let at = sq.head();
            let status = match self.send(core, sq, at, tx, env) {
                Ok(()) => WcStatus::Success,
                Err(status) => {
                    core.fault = Some(Fault::SendError);
                    status
                }
            };
            progress::complete_oldest(core, sq, status, env);
        }
    }

    fn send<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &SendQueue,
        at: u64,
        tx: &mut TxBatch,
        env: &mut E,
    ) -> Result<(), WcStatus> {
        let wqe = sq.get(at);
        if wqe.status != WcStatus::Success {
            return Err(wqe.status);
        }
        let target = sq.target(at).ok_or(WcStatus::LocQpOpErr)?;
        // The port's MTU may have shrunk since the request was posted.
        if wqe.length > core.port_mtu.bytes() as u64 {
            return Err(WcStatus::LocLenErr);
        }
        let len = wqe.length as u32;
        let payload = Payload::of(env, core.pd(), wqe, 0, len)?;
        self.pace.spend(core.now, len);
        let (kind, imm) = match wqe.op {
            SendOp::SendImm(imm) => (Kind::SendOnlyImm, Some(ImmDt::new(u32::from_be(imm)))),
            _ => (Kind::SendOnly, None),
        };
        let opcode = Opcode::of(Service::Ud, kind).ok_or(WcStatus::LocQpOpErr)?;
        let qkey = if target.remote_qkey & CONTROLLED_QKEY != 0 { core.attr.qkey } else { target.remote_qkey };
        let mut bth = Bth::new(opcode, core.pkey, target.remote_qpn, self.next);
        bth.set_solicited(wqe.flags.contains(SendFlags::SOLICITED));
        let ext = &Headers { deth: Some(Deth::new(qkey, core.qpn)), imm, ..Headers::default() };
        let (src_qpn, port_num) = (core.qpn, core.attr.port_num.max(1));
        let datagram = Datagram { src_qpn, port_num, target: &target, bth, ext, payload: payload.source(wqe) };
        if !env.send_within_host(&datagram) {
            tx.begin(target.av, target.remote_qpn, core.qpn, datagram.header().as_slice());
            payload.add(wqe, tx);
            // UD has no retransmission to replace a damaged packet.
            tx.copy_before_send();
        }
        self.next = self.next.next();
        core.stats.tx_packets += 1;
        core.stats.tx_bytes += u64::from(len);
        Ok(())
    }

    pub fn handle_packet<E: Env>(&mut self, core: &mut Core, rq: &mut RecvQueue, rx: &RxPacket<'_>, env: &mut E) {
        let packet = &rx.packet;
        let Some(deth) = packet.ext.deth else {
            core.stats.dropped += 1;
            return;
        };
        if deth.qkey() != core.attr.qkey {
            core.stats.qkey_violations += 1;
            return;
        }
        let taken = match core.init.srq {
            Some(srq) => env.srq_take(srq).map(|recv| self.recv = recv).is_some(),
            None => rq.pop_into(&mut self.recv),
        };
        if !taken {
            core.stats.dropped += 1;
            return;
        }
        let pd = core.pd();
        let bytes = GRH_LEN + packet.payload.len();
        let stored = if self.recv.injected != WcStatus::Success {
            Err(self.recv.injected)
        } else if bytes as u64 > sge_list::total(&self.recv.sges) {
            Err(WcStatus::LocLenErr)
        } else {
            let header = if rx.local.is_some_and(|local| !local.global) { [0; GRH_LEN] } else { network_header(rx) };
            let sges = &self.recv.sges;
            segment::scatter_datagram(env, pd, sges, 0, &header)
                .and_then(|()| segment::scatter_datagram(env, pd, sges, GRH_LEN as u64, packet.payload))
        };
        let mut wc = core.wc(self.recv.wr_id, stored.err().unwrap_or_default(), WcOpcode::Recv);
        if self.recv.injected != WcStatus::Success {
            wc.vendor_err = VENDOR_ERR_INJECTED;
        }
        wc.byte_len = bytes as u32;
        wc.src_qp = deth.src_qp();
        match rx.local {
            Some(local) => {
                (wc.slid, wc.sl, wc.dlid_path_bits) = (local.slid, local.sl, local.path_bits);
                wc.pkey_index = core.attr.pkey_index;
                wc.flags.set(WcFlags::GRH, local.global);
            }
            None => (wc.flags, wc.sl) = (WcFlags::GRH, header_kind(rx)),
        }
        wc.solicited |= packet.bth.solicited();
        if let Some(imm) = packet.ext.imm {
            wc.imm_data = imm.value().to_be();
            wc.flags |= WcFlags::WITH_IMM;
        }
        core.complete_recv(env, None, wc);
    }
}

/// Bit of [`header_kind`]: the packet had a UDP header (RoCE v2).
const KIND_UDP: u8 = 8;
const KIND_GRH: u8 = 0;
const KIND_IPV6: u8 = 1;
const KIND_IPV4: u8 = 2;

/// Returns the kind of the network header in front of the payload, which is reported in place of the service level,
/// because Ethernet has none. Annex 17 of IBA (A17.4.5.1) requires a completion to report it, but the verbs have no
/// field for it; ConnectX reports it here, and programs read it: without it UCX before 1.18 takes the IPv4 header for a
/// GRH and drops every datagram.
fn header_kind(rx: &RxPacket<'_>) -> u8 {
    match (rx.gid_type, rx.sgid.ip(), rx.dgid.ip()) {
        (GidType::IbOrRoceV1, ..) => KIND_GRH,
        (_, IpAddr::V4(_), IpAddr::V4(_)) => KIND_UDP | KIND_IPV4,
        _ => KIND_UDP | KIND_IPV6,
    }
}

/// Builds the 40 bytes in front of the payload: RoCE v1's GRH, the IPv6 header, or 20 bytes of zeros and the IPv4
/// header. Fields that a UDP socket does not report (identification, flow label) have the values that RoCE senders use.
fn network_header(rx: &RxPacket<'_>) -> [u8; GRH_LEN] {
    let payload = rx.packet.payload.len();
    let ib = rx.packet.info.header_len + payload + pad_for(payload) + ICRC_LEN;
    let transport = UDP_LEN + ib;
    let mut out = [0; GRH_LEN];
    if rx.gid_type == GidType::IbOrRoceV1 {
        let (gids, iba) = ([rx.sgid.0, rx.dgid.0], Grh::NEXT_HEADER_IBA);
        out.copy_from_slice(Grh::new(rx.traffic_class, 0, ib as u16, iba, rx.hop_limit, gids).as_bytes());
        return out;
    }
    let (IpAddr::V4(from), IpAddr::V4(to)) = (rx.sgid.ip(), rx.dgid.ip()) else {
        let gids = [rx.sgid.0, rx.dgid.0];
        let grh = Grh::new(rx.traffic_class, 0, transport as u16, UDP, rx.hop_limit, gids);
        out.copy_from_slice(grh.as_bytes());
        return out;
    };
    let ip = &mut out[20..];
    ip[0] = 0x45;
    ip[1] = rx.traffic_class;
    ip[2..4].copy_from_slice(&((20 + transport) as u16).to_be_bytes());
    ip[6] = 0x40; // Don't fragment.
    ip[8] = rx.hop_limit;
    ip[9] = UDP;
    ip[12..16].copy_from_slice(&from.octets());
    ip[16..20].copy_from_slice(&to.octets());
    let sum: u32 = ip.chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use weft_verbs::{QpType, SendWr, UdTarget};

    use super::*;
    use crate::testing::{BASE, Pair, RECV_CQ, SEND_CQ, av, init, sge};

    #[test]
    fn ud_puts_the_network_header_first() {
        let mut p = Pair::new(QpType::Ud);
        p.recv(1, 1, &[sge(0x1000, 40), sge(0x2000, 100)]);
        p.send(0, 1, SendOp::SendImm(6), &[sge(0, 33)]);
        p.finish();
        assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::Success, 33)]);
        let wc = p.worlds[1].take_wcs(RECV_CQ)[0];
        assert_eq!((wc.byte_len, wc.src_qp, wc.imm_data), (73, 0x10, 6));
        assert_eq!((wc.flags, wc.sl), (WcFlags::GRH | WcFlags::WITH_IMM, KIND_UDP | KIND_IPV4));
        let grh = p.worlds[1].memory.at(BASE + 0x1000, 40).to_vec();
        assert_eq!(grh[..20], [0; 20]);
        // Version, length of IP, UDP, BTH, DETH, ImmDt, payload, pad and ICRC, and the addresses.
        assert_eq!((grh[20], u16::from_be_bytes([grh[22], grh[23]])), (0x45, 20 + 8 + 12 + 8 + 4 + 33 + 3 + 4));
        assert_eq!(grh[32..], [10, 77, 0, 1, 10, 77, 0, 2]);
        let sum: u32 = grh[20..].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the checksum holds");
        let sent = p.worlds[0].memory.at(BASE, 33).to_vec();
        assert_eq!(p.worlds[1].memory.at(BASE + 0x2000, 33), sent);
    }

    #[test]
    fn ud_checks_the_qkey_and_the_room() {
        let inits = [init(QpType::Ud), init(QpType::Ud)];
        let mut p = Pair::with(inits, |side, a| a.qkey = if side == 0 { 0x8000_0001 } else { 0x1111_1111 });
        p.recv(1, 1, &[sge(0, 50)]);
        let mut ud = UdTarget {
            av: av(0),
            remote_qpn: 0x11,
            remote_qkey: 0xffff_ffff, // Means the sender's own.
        };
        let flags = SendFlags::SIGNALED;
        let list = [sge(0, 33)];
        let wr = |ud| SendWr { wr_id: 1, flags, op: SendOp::Send, sges: &list, ud: Some(ud), xrc_srqn: None };
        p.qps[0].post_send(p.now, &wr(ud), &mut p.worlds[0]).unwrap();
        p.finish();
        assert!(p.worlds[1].wcs.is_empty());
        assert_eq!(p.qps[1].stats().qkey_violations, 1);
        ud.remote_qkey = 0x1111_1111;
        p.qps[0].post_send(p.now, &wr(ud), &mut p.worlds[0]).unwrap();
        p.finish();
        assert_eq!(p.worlds[1].take_wcs(RECV_CQ)[0].status, WcStatus::LocLenErr);
    }
}
