//! Packets of hosts on their way to the tap.

use crate::datagram::{Delivery, GlobalRoute};
use crate::limits::TAPPED_MAX;
use crate::packet::Packet;
use crate::tap::{Direction, Tap, Tapped};
use crate::{Fabric, PortRef};
use weft_verbs::Instant;
use weft_wire::Psn;
use weft_wire::link_packet::{Datagram, DatagramRoute};
use weft_wire::lrh::{LID_PERMISSIVE, VL_MANAGEMENT};
use weft_wire::mad::{GSI_QKEY, Mad, SMI_QPN};
use zerocopy::IntoBytes;

/// P_Key of SMPs: they belong to no partition, and carry the default one.
const SMP_PKEY: u16 = 0xffff;

impl Fabric {
    /// Opens or closes the tap. A closed one forgets what was not fetched.
    pub fn set_tapped(&mut self, is_open: bool) {
        if !is_open || !self.tap.is_open {
            self.tap = Tap { is_open, ..Tap::default() };
        }
    }

    /// Returns whether the tap is open.
    pub fn is_tapped(&self) -> bool {
        self.tap.is_open
    }

    /// Adds a packet that a host sends or receives, if the tap is open.
    pub fn tap(&mut self, at: Instant, port: PortRef, direction: Direction, packet: impl FnOnce() -> Vec<u8>) {
        if !self.tap.is_open {
            return;
        }
        if self.tap.queue.len() < TAPPED_MAX {
            self.tap.queue.push_back(Tapped { at, port, direction, packet: packet() });
        } else {
            self.tap.dropped += 1;
        }
    }

    /// Returns the next packet that passed the tap.
    pub fn poll_tapped(&mut self) -> Option<Tapped> {
        self.tap.queue.pop_front()
    }

    /// Returns how many packets did not fit since the last call.
    pub fn take_tap_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.tap.dropped)
    }

    /// Adds a datagram that a host sends.
    pub(crate) fn tap_sent(&mut self, from: PortRef, packet: &Packet) {
        let head = &packet.head;
        // A directed route has no LIDs, from its start on.
        let slid = if head.dlid == LID_PERMISSIVE { LID_PERMISSIVE } else { head.slid };
        let addresses = ([slid, head.dlid], head.sl, head.pkey);
        let qps = [head.src_qp, head.dest_qp];
        self.tap(self.now, from, Direction::Sent, || write(addresses, qps, packet.qkey, packet.grh, &packet.mad));
    }

    /// Adds a datagram that a host receives.
    pub(crate) fn tap_received(&mut self, delivery: &Delivery) {
        let Some(port) = self.place(delivery.port).map(|place| &self.ports[place as usize]) else { return };
        let dlid = match delivery.slid {
            LID_PERMISSIVE => LID_PERMISSIVE,
            _ => port.info.lid | u16::from(delivery.path_bits),
        };
        let addresses = ([delivery.slid, dlid], delivery.sl, delivery.pkey);
        let qps = [delivery.src_qp, delivery.dest_qp];
        self.tap(self.now, delivery.port, Direction::Received, || {
            write(addresses, qps, GSI_QKEY, delivery.grh, &delivery.mad)
        });
    }
}

/// Writes a datagram as a packet. SMPs travel on VL15, without a Q_Key.
fn write(
    (lids, sl, pkey): ([u16; 2], u8, u16),
    qps: [u32; 2],
    qkey: u32,
    grh: Option<GlobalRoute>,
    mad: &Mad,
) -> Vec<u8> {
    let is_smp = qps[1] == SMI_QPN;
    let route = grh.map(|grh| DatagramRoute {
        class: grh.traffic_class,
        flow_label: grh.flow_label,
        hop_limit: grh.hop_limit,
        gids: [grh.sgid, grh.dgid],
    });
    let (vl, pkey, qkey) = if is_smp { (VL_MANAGEMENT, SMP_PKEY, 0) } else { (0, pkey, qkey) };
    Datagram { vl, sl, lids, route, pkey, psn: Psn::new(0), qps, qkey }.write(mad.as_bytes())
}
