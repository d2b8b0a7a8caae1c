//! Datagrams between two processes of one host: the packet as it would go over the wire, in a frame of a lane. Where the
//! lane is full, or the peer was not met yet, it goes over the wire: a datagram has no place in an order to lose.

use weft_transport::same_host::{Frame, FrameKind, Outgoing, PeerId};
use weft_transport::{Memory, Piece, RxPacket, TxBatch, TxPacket};
use weft_verbs::{Gid, GidType, Instant, QPN_INDEX_BITS};
use weft_wire::packet::{ICRC_LEN, pad_for};
use weft_wire::{MULTICAST_QPN, Packet, Service};

use crate::Hca;

/// Bytes of the two GIDs in front of the packet.
const GIDS_LEN: usize = 32;
/// The longest payload of a frame that holds a datagram: GIDs, headers, an MTU of payload, pad and ICRC.
const DATAGRAM_MAX: usize = 4096 + 256;

/// What a batch's datagrams pass through.
#[derive(Debug, Default)]
pub(crate) struct Diversion {
    scratch: Vec<u8>,
    /// The GID looked up last, and whether it is one of this host's.
    last: Option<(Gid, bool)>,
}

impl Diversion {
    /// The GID tables have changed.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }
}

impl<M: Memory> Hca<M> {
    /// Take the datagrams from `before` on that are for processes of this host out of the batch.
    pub(crate) fn divert(&mut self, tx: &mut TxBatch, before: usize) {
        let mut kept = before;
        for at in before..tx.packets.len() {
            if !self.passes_within(tx, at) {
                tx.packets.swap(kept, at);
                kept += 1;
            }
        }
        tx.packets.truncate(kept);
    }

    fn passes_within(&mut self, tx: &TxBatch, at: usize) -> bool {
        let packet = &tx.packets[at];
        if packet.dest_qpn == MULTICAST_QPN || !self.is_ours(packet.av.dgid) {
            return false;
        }
        let Some(peer) = self.world.memory.neighbour(packet.dest_qpn >> QPN_INDEX_BITS) else { return false };
        self.lanes = true;
        self.compose(tx, packet);
        let mut frame = Frame::new(FrameKind::Datagram, packet.src_qpn, packet.dest_qpn);
        frame.code = u8::from(packet.av.gid_type == GidType::IbOrRoceV1);
        frame.key = u32::from(packet.av.traffic_class) << 8 | u32::from(packet.av.hop_limit);
        self.world.memory.push(peer, &frame, Outgoing::Bytes(&self.diversion.scratch))
    }

    fn is_ours(&mut self, gid: Gid) -> bool {
        if let Some((last, ours)) = self.diversion.last
            && last == gid
        {
            return ours;
        }
        let ours = self.world.devices.values().any(|device| !device.gone && device.owns(gid));
        self.diversion.last = Some((gid, ours));
        ours
    }

    /// GIDs, headers, payload, and room for pad and ICRC.
    fn compose(&mut self, tx: &TxBatch, packet: &TxPacket) {
        let out = &mut self.diversion.scratch;
        out.clear();
        out.extend_from_slice(&packet.av.sgid.0);
        out.extend_from_slice(&packet.av.dgid.0);
        out.extend_from_slice(&tx.arena[packet.header.start as usize..packet.header.end as usize]);
        for piece in &tx.pieces[packet.pieces.start as usize..packet.pieces.end as usize] {
            match *piece {
                Piece::Host { addr, len } => {
                    let from = out.len();
                    out.resize(from + len as usize, 0);
                    self.world.memory.read(addr, &mut out[from..]);
                }
                Piece::Arena { start, len } => {
                    out.extend_from_slice(&tx.arena[start as usize..(start + len) as usize]);
                }
            }
        }
        out.resize(out.len() + pad_for(packet.payload_len as usize) + ICRC_LEN, 0);
    }

    /// A datagram from a process of this host: the current frame of its lane.
    pub(crate) fn handle_datagram(&mut self, now: Instant, _peer: PeerId, frame: &Frame) {
        let mut bytes = [0; DATAGRAM_MAX];
        let Some(bytes) = bytes.get_mut(..frame.bytes as usize).filter(|bytes| bytes.len() > GIDS_LEN) else { return };
        self.world.memory.peek(0, bytes);
        let (gids, ib) = bytes.split_at(GIDS_LEN);
        let gid = |from: usize| Gid(std::array::from_fn(|i| gids[from + i]));
        let (sgid, dgid) = (gid(0), gid(16));
        let Ok(packet) = Packet::parse(ib) else { return };
        if packet.info.service != Service::Ud || packet.bth.dest_qp() != frame.dest_qpn {
            return;
        }
        // As the kernel would see to: nobody sends in the name of another host, or to one.
        if !self.is_ours(sgid) || !self.is_ours(dgid) {
            return;
        }
        let [.., traffic_class, hop_limit] = frame.key.to_be_bytes();
        let gid_type = if frame.code == 0 { GidType::RoceV2 } else { GidType::IbOrRoceV1 };
        self.handle_packet(now, &RxPacket { packet, sgid, dgid, traffic_class, hop_limit, ifindex: 0, gid_type });
    }
}
