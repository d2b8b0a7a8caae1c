//! From a packet to its queue pair. Here a packet is dropped, and counted, that names no queue pair, comes from another
//! partition, was sent to an address that is not the device's, or pretends to come from a peer that it does not
//! come from.

use weft_transport::{Memory, RxPacket};
use weft_verbs::{DEFAULT_PKEY, Gid, Instant, QP_MAX, QPN_INDEX_BITS, QpId, QpType};
use weft_wire::MULTICAST_QPN;

use crate::Hca;
use crate::device::PORT;
use crate::violation::{self, RefusedKey};

/// Bit of a P_Key that says full member.
const PKEY_FULL: u16 = 0x8000;

/// Whether a packet's P_Key matches the table's one (IBA 10.9.3): the same partition, and one of the two a full member.
fn pkey_matches(packet: u16, table: u16) -> bool {
    let partition = !PKEY_FULL;
    packet & partition == table & partition && (packet | table) & PKEY_FULL != 0
}

/// What became of a packet for one queue pair.
enum Verdict {
    Deliver,
    BadPkey,
    BadAddress,
}

impl<M: Memory> Hca<M> {
    /// Hand a packet to the queue pair it is for.
    pub fn handle_packet(&mut self, now: Instant, rx: &RxPacket<'_>) {
        let qpn = rx.packet.bth.dest_qp();
        if qpn == MULTICAST_QPN {
            self.handle_multicast(now, rx);
            return;
        }
        let found =
            (qpn >> QPN_INDEX_BITS == self.slot).then(|| self.by_qpn.get(&(qpn & (QP_MAX - 1))).copied()).flatten();
        match found {
            Some(id) => self.deliver(now, id, rx, false),
            None => self.count_unknown(rx.dgid),
        }
    }

    /// A copy for each queue pair of the group, on the device that the packet came in by.
    fn handle_multicast(&mut self, now: Instant, rx: &RxPacket<'_>) {
        let mut members: Vec<QpId> = Vec::new();
        for (device, of_device) in self.groups.members(rx.dgid) {
            let Ok(device) = self.world.present(device) else { continue };
            if rx.ifindex == 0 || device.attr.ifindex == rx.ifindex {
                members.extend_from_slice(of_device);
            }
        }
        for id in members {
            // What the queue pair itself sent to the group does not come back to it (IBA 10.5.2.1).
            let own = self.qps.get(id).is_ok_and(|entry| {
                let from = rx.packet.ext.deth.map(|deth| deth.src_qp());
                from == Some(entry.qp.qpn())
                    && self.world.devices.get(&entry.device).is_some_and(|device| device.owns(rx.sgid))
            });
            if !own {
                self.deliver(now, id, rx, true);
            }
        }
    }

    fn deliver(&mut self, now: Instant, id: QpId, rx: &RxPacket<'_>, multicast: bool) {
        let Ok(entry) = self.qps.get_mut(id) else { return };
        let Some(device) = self.world.devices.get_mut(&entry.device) else { return };
        let mut qkey = None;
        let pkey = match device.fabric() {
            Some(_) => {
                let attr = entry.qp.query();
                qkey = (entry.qp.qp_type() == QpType::Ud).then_some(attr.qkey);
                device.pkey(attr.pkey_index)
            }
            None => DEFAULT_PKEY,
        };
        let verdict = if !pkey_matches(rx.packet.bth.pkey(), pkey) {
            Verdict::BadPkey
        } else if rx.local.is_some() != device.fabric().is_some() {
            Verdict::BadAddress
        } else if let Some(peer) = entry.peer {
            let from_peer = rx.sgid == peer.dgid && rx.dgid == peer.sgid && rx.gid_type == peer.gid_type;
            if from_peer { Verdict::Deliver } else { Verdict::BadAddress }
        } else if multicast || (entry.qp.qp_type() == QpType::Ud && device.accepts_datagram(rx)) {
            Verdict::Deliver
        } else {
            // A connected queue pair that has no peer yet listens to nobody.
            Verdict::BadAddress
        };
        match verdict {
            Verdict::Deliver => {
                device.counters.on_received(rx, multicast);
                let sent = rx.packet.ext.deth.map(|deth| deth.qkey());
                if let (Some(own), Some(sent)) = (qkey, sent)
                    && own != sent
                {
                    let at = (entry.device, PORT, entry.qp.qpn());
                    violation::keep(&mut self.key_violations, at, rx, RefusedKey::Qkey(sent));
                }
                self.world.act(entry.device, now);
                entry.qp.handle_packet(now, rx, &mut self.world);
                self.settle(id, now);
            }
            Verdict::BadPkey => {
                device.counters.bad_pkey += 1;
                let at = (entry.device, PORT, entry.qp.qpn());
                violation::keep(&mut self.key_violations, at, rx, RefusedKey::Pkey(rx.packet.bth.pkey()));
            }
            Verdict::BadAddress => device.counters.bad_address += 1,
        }
    }

    fn count_unknown(&mut self, dgid: Gid) {
        let device = self.world.devices.values_mut().find(|device| device.owns(dgid));
        if let Some(device) = device {
            device.counters.bad_qpn += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_limited_members_do_not_talk() {
        assert!(pkey_matches(0xffff, 0xffff));
        assert!(pkey_matches(0x7fff, 0xffff));
        assert!(!pkey_matches(0x7fff, 0x7fff));
        assert!(!pkey_matches(0x8001, 0xffff));
    }
}
