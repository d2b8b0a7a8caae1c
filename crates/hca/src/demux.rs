//! Finds the queue pair of a packet. A packet is dropped, and counted, if it names no queue pair, comes from another
//! partition, was sent to an address that the device does not have, or claims a peer that did not send it.

use weft_transport::RxPacket;
use weft_verbs::{AddressVector, DEFAULT_PKEY, Gid, IbPortAttr, Instant, QP_MAX, QPN_INDEX_BITS, QpId, QpType};
use weft_wire::MULTICAST_QPN;
use weft_wire::lrh::LID_MULTICAST_FIRST;

use crate::violation::{self, RefusedKey};
use crate::{Hca, HostInterface};

/// The full-member bit of a P_Key.
const PKEY_FULL: u16 = 0x8000;

/// Whether a packet's P_Key matches the table's one (IBA 10.9.3): the same partition, and at least one of the two a
/// full member.
fn pkey_matches(packet: u16, table: u16) -> bool {
    let partition = !PKEY_FULL;
    packet & partition == table & partition && (packet | table) & PKEY_FULL != 0
}

/// Whether a packet came from the peer of a connected queue pair: within a subnet by its LID, with a GRH exactly where
/// the path has one (IBA 9.6.1.5).
fn is_from(rx: &RxPacket<'_>, peer: &AddressVector) -> bool {
    let gids = rx.sgid == peer.dgid && rx.dgid == peer.sgid && rx.gid_type == peer.gid_type;
    match rx.local {
        Some(local) => local.slid == peer.dlid && local.global == peer.is_global && (gids || !local.global),
        None => gids,
    }
}

/// Whether the program that sent a packet owns the queue pair that it claims as its source: the one in its DETH, or the
/// peer that the receiver knows. Programs of one host share its LID, and a program can write any headers.
fn is_senders_own(rx: &RxPacket<'_>, peer_qpn: Option<u32>) -> bool {
    let claimed = rx.packet.ext.deth.map(|deth| deth.src_qp()).or(peer_qpn);
    match (rx.local.and_then(|local| local.sender), claimed) {
        (Some(slot), Some(qpn)) => qpn >> QPN_INDEX_BITS == slot,
        _ => true,
    }
}

/// Returns a packet that crossed the fabric hop by hop with only those path bits of its destination LID that the port's
/// LMC covers.
fn with_path_bits<'a>(rx: &RxPacket<'a>, port: Option<&IbPortAttr>) -> RxPacket<'a> {
    let mut rx = *rx;
    if let (Some(local), Some(port)) = (&mut rx.local, port) {
        let mask = (1_u16 << port.lmc.min(7)) - 1;
        local.path_bits = if local.dlid < LID_MULTICAST_FIRST { (local.dlid & mask) as u8 } else { 0 };
    }
    rx
}

/// Decision on a received packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Screening {
    /// Its queue pair gets it. Packets to a group count as delivered.
    Deliver,
    /// No queue pair has its number.
    UnknownQpn,
    /// Its P_Key is of another partition.
    BadPkey,
    /// It is not from the queue pair's peer, or not to the queue pair's address.
    BadAddress,
}

impl<H: HostInterface> Hca<H> {
    /// Delivers a packet to its queue pair, and returns whether it did.
    pub fn handle_packet(&mut self, now: Instant, rx: &RxPacket<'_>) -> Screening {
        let qpn = rx.packet.bth.dest_qp();
        if qpn == MULTICAST_QPN {
            self.handle_multicast(now, rx);
            return Screening::Deliver;
        }
        let found =
            (qpn >> QPN_INDEX_BITS == self.slot).then(|| self.by_qpn.get(&(qpn & (QP_MAX - 1))).copied()).flatten();
        match found {
            Some(id) => self.deliver(now, id, rx, false),
            None => {
                self.count_unknown(rx.dgid);
                Screening::UnknownQpn
            }
        }
    }

    /// Delivers a copy to each queue pair of the group, on the device that received the packet.
    fn handle_multicast(&mut self, now: Instant, rx: &RxPacket<'_>) {
        let mut members: Vec<QpId> = Vec::new();
        for (of, of_device) in self.groups.members(rx.dgid) {
            let Ok(device) = self.context.present(of) else { continue };
            let came_to = rx.local.and_then(|local| local.came_to);
            if came_to.map_or(rx.ifindex == 0 || device.attr.ifindex == rx.ifindex, |(id, _)| id == of) {
                members.extend_from_slice(of_device);
            }
        }
        for id in members {
            // A queue pair's own packets to the group do not come back to it (IBA 10.5.2.1).
            let own = self.qps.get(id).is_ok_and(|entry| {
                let from = rx.packet.ext.deth.map(|deth| deth.src_qp());
                from == Some(entry.qp.qpn())
                    && self.context.devices.get(&entry.device).is_some_and(|device| device.owns(rx.sgid))
            });
            if !own {
                self.deliver(now, id, rx, true);
            }
        }
    }

    fn deliver(&mut self, now: Instant, id: QpId, rx: &RxPacket<'_>, multicast: bool) -> Screening {
        let Ok(entry) = self.qps.get_mut(id) else { return Screening::UnknownQpn };
        let Some(device) = self.context.devices.get_mut(&entry.device) else { return Screening::UnknownQpn };
        let (mut qkey, mut port, mut pkey, mut peer_qpn) = (None, 1, DEFAULT_PKEY, None);
        let attr = entry.qp.query();
        if device.on_fabric() {
            port = attr.port_num.max(1);
        }
        let over_fabric = device.on_fabric() && !device.is_ethernet(port);
        if over_fabric {
            qkey = (entry.qp.qp_type() == QpType::Ud).then_some(attr.qkey);
            pkey = entry.qp.pkey();
            peer_qpn = entry.peer.map(|_| attr.dest_qpn);
        }
        let came_to = rx.local.and_then(|local| local.came_to);
        let verdict = if came_to.is_some_and(|to| to != (entry.device, port)) || !is_senders_own(rx, peer_qpn) {
            Screening::BadAddress
        } else if !pkey_matches(rx.packet.bth.pkey(), pkey) {
            Screening::BadPkey
        } else if rx.local.is_some() != over_fabric {
            Screening::BadAddress
        } else if let Some(peer) = entry.peer {
            if is_from(rx, &peer) { Screening::Deliver } else { Screening::BadAddress }
        } else if multicast || (entry.qp.qp_type() == QpType::Ud && device.accepts_datagram(port, rx)) {
            Screening::Deliver
        } else {
            // A connected queue pair without a peer yet accepts no packets.
            Screening::BadAddress
        };
        match verdict {
            Screening::Deliver => {
                let named = came_to.map(|_| with_path_bits(rx, device.fabric_port(port)));
                let rx = named.as_ref().unwrap_or(rx);
                device.counters.on_received(rx, multicast);
                let sent = rx.packet.ext.deth.map(|deth| deth.qkey());
                if let (Some(own), Some(sent)) = (qkey, sent)
                    && own != sent
                {
                    let at = (entry.device, port, entry.qp.qpn());
                    violation::keep(&mut self.key_violations, at, rx, RefusedKey::Qkey(sent));
                }
                self.context.act(entry.device, now);
                entry.qp.handle_packet(now, rx, &mut self.context);
                self.settle(id, now);
            }
            Screening::BadPkey => {
                device.counters.bad_pkey += 1;
                let at = (entry.device, port, entry.qp.qpn());
                violation::keep(&mut self.key_violations, at, rx, RefusedKey::Pkey(rx.packet.bth.pkey()));
            }
            Screening::BadAddress => device.counters.bad_address += 1,
            Screening::UnknownQpn => {}
        }
        verdict
    }

    fn count_unknown(&mut self, dgid: Gid) {
        let device = self.context.devices.values_mut().find(|device| device.owns(dgid));
        if let Some(device) = device {
            device.counters.bad_qpn += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_transport::LocalRoute;
    use weft_verbs::{DeviceId, GidType};
    use weft_wire::ext::Deth;
    use weft_wire::packet::{HeaderBuf, ICRC_LEN};
    use weft_wire::{Bth, Headers, Opcode, Packet, Psn};

    const RC_SEND: u8 = 4;
    const UD_SEND: u8 = 0x64;

    fn judge(headers: &Headers, opcode: u8, sender: Option<u32>, peer_qpn: Option<u32>) -> bool {
        let mut bytes =
            HeaderBuf::write(Bth::new(Opcode(opcode), DEFAULT_PKEY, 7, Psn::new(1)), headers, 0).as_slice().to_vec();
        bytes.extend_from_slice(&[0; ICRC_LEN]);
        let local = LocalRoute {
            slid: 1,
            dlid: 2,
            sl: 0,
            path_bits: 0,
            global: false,
            came_to: Some((DeviceId(1), 1)),
            sender,
        };
        let rx = RxPacket {
            packet: Packet::parse(&bytes).expect("a packet"),
            sgid: Gid::ZERO,
            dgid: Gid::ZERO,
            traffic_class: 0,
            hop_limit: 0,
            ifindex: 0,
            gid_type: GidType::IbOrRoceV1,
            local: Some(local),
        };
        is_senders_own(&rx, peer_qpn)
    }

    #[test]
    fn nobody_speaks_as_a_queue_pair_of_another_program_on_its_host() {
        let of = |slot: u32| slot << QPN_INDEX_BITS | 9;
        let connected = |sender| judge(&Headers::default(), RC_SEND, sender, Some(of(3)));
        assert_eq!((connected(Some(3)), connected(Some(4))), (true, false), "the peer's program, and another");
        let datagram = Headers { deth: Some(Deth::new(5, of(3))), ..Headers::default() };
        let from = |sender| judge(&datagram, UD_SEND, sender, None);
        assert_eq!((from(Some(3)), from(Some(4))), (true, false), "a source that is its own, and another's");
        assert!(connected(None), "where no packets pass the sender is known otherwise");
    }

    #[test]
    fn two_limited_members_do_not_talk() {
        assert!(pkey_matches(0xffff, 0xffff));
        assert!(pkey_matches(0x7fff, 0xffff));
        assert!(!pkey_matches(0x7fff, 0x7fff));
        assert!(!pkey_matches(0x8001, 0xffff));
    }
}
