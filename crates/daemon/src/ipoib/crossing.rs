//! Datagrams of interfaces across the fabric: by verdicts, or as packets that travel hop by hop.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::Rng as _;
use weft_fabric::{Direction, Fabric, PortRef, pkeys_match};
use weft_ipoib::{Destination, Frame, Run, Sender};
use weft_verbs::{Duration, Instant};
use weft_wire::lrh::is_multicast;

use super::packets::{self, Arrived};
use super::route::Route;
use super::{Bound, InterfaceId, Interfaces};

/// Bytes of a datagram's headers, LRH to DETH and ICRC and VCRC, for the ports' counters.
const OVERHEAD_BYTES: usize = 8 + 12 + 8 + 4 + 2;

impl Interfaces {
    /// Carries a frame to the interfaces at the ports where it arrives: as it is, or as the datagrams that it becomes
    /// wherever each of them counts.
    pub(super) fn carry(
        &mut self,
        now: Instant,
        fabric: &mut Fabric,
        from: InterfaceId,
        to: &Destination,
        frame: Frame,
    ) {
        if frame.is_plain() || self.crosses_whole(fabric, from, to) {
            return self.carry_datagram(now, fabric, from, to, frame);
        }
        for datagram in frame.into_plain() {
            self.carry_datagram(now, fabric, from, to, datagram);
        }
    }

    /// Returns whether a frame may cross as it is: no packet of it is captured, lost or delayed by itself.
    fn crosses_whole(&mut self, fabric: &Fabric, from: InterfaceId, to: &Destination) -> bool {
        let is_free = |route: &Route| route.loss_ppm == 0 && route.latency == Duration::default();
        !self.hop_by_hop && !fabric.is_tapped() && self.route(fabric, from, to).is_none_or(is_free)
    }

    /// Returns the fabric's verdict on an interface's datagrams, from the cache; `None` if nothing arrives.
    fn route(&mut self, fabric: &Fabric, from: InterfaceId, to: &Destination) -> Option<&Route> {
        let pkey = self.of.get(&from)?.pkey?;
        if std::mem::replace(&mut self.generation, fabric.generation()) != fabric.generation() {
            self.routes.clear();
        }
        let find = || Route::find(fabric, from.port, to, pkey);
        self.routes.entry((from, to.dlid, to.sl)).or_insert_with(find).as_ref()
    }

    fn carry_datagram(&mut self, now: Instant, fabric: &mut Fabric, from: InterfaceId, to: &Destination, frame: Frame) {
        let Some(bound) = self.of.get_mut(&from) else { return };
        let (Some(pkey), sender) = (bound.pkey, Sender { qpn: bound.qpn }) else { return };
        let Some(port) = bound.interface.port() else { return };
        bound.psn = bound.psn.next();
        let psn = bound.psn;
        let encode = || packets::encode(&port, pkey, psn, to, frame.bytes());
        if self.hop_by_hop {
            let packet = encode();
            fabric.tap(now, from.port, Direction::Sent, || packet.clone());
            self.packets.push_back((from.port, packet));
            return;
        }
        fabric.tap(now, from.port, Direction::Sent, encode);
        let Some(route) = self.route(fabric, from, to) else { return };
        let (packets, words) = counted(&frame);
        match is_multicast(to.dlid) {
            true => fabric.account_group(&route.path, packets, words),
            false => fabric.account(&route.path, packets, words),
        }
        let (ports, latency, loss_ppm) = (route.to.clone(), route.latency, route.loss_ppm);
        if self.damage.as_mut().is_some_and(|rng| is_lost(loss_ppm, rng)) {
            return;
        }
        if latency > Duration::default() {
            let packet = encode();
            for at in ports {
                // A cable that is full loses the packet.
                let _ = self.transit.depart(now + latency, at, 0, &packet);
            }
            return;
        }
        let mut receivers = Vec::new();
        for at in ports {
            if self.of.range(InterfaceId::range(at)).next().is_some() {
                fabric.tap(now, at, Direction::Received, encode);
            }
            receivers.extend(self.receivers(at, to.group.as_ref(), to.qpn, pkey));
        }
        let count = receivers.len();
        for (id, frame) in receivers.into_iter().zip(std::iter::repeat_n(frame, count)) {
            let Some(bound) = self.of.get_mut(&id) else { continue };
            bound.interface.handle_datagram(now, sender, frame, &mut self.out);
            self.perform(now, fabric, id);
        }
    }

    /// Returns the interfaces of a port that receive a datagram, by their groups or queue pairs, and P_Keys.
    fn receivers(&self, port: PortRef, group: Option<&[u8; 16]>, dest_qp: u32, pkey: u16) -> Vec<InterfaceId> {
        let receives = |bound: &Bound| {
            let addressed = match group {
                Some(mgid) => bound.interface.receives(mgid),
                None => bound.qpn == dest_qp,
            };
            addressed && bound.pkey.is_some_and(|own| pkeys_match(own, pkey))
        };
        self.of.range(InterfaceId::range(port)).filter(|(_, bound)| receives(bound)).map(|(id, _)| *id).collect()
    }

    /// Takes the next packet, LRH to VCRC, that travels hop by hop, and the port that sends it.
    pub fn poll_packet(&mut self) -> Option<(PortRef, Vec<u8>)> {
        self.packets.pop_front()
    }

    /// Delivers packets whose latency is over.
    pub(super) fn land(&mut self, now: Instant, fabric: &mut Fabric) {
        while let Some((at, _, packet)) = self.transit.arrive(now) {
            self.handle_link_packet(now, fabric, at, &packet);
        }
    }

    /// Handles a packet that arrived at a port.
    pub fn handle_link_packet(&mut self, now: Instant, fabric: &mut Fabric, at: PortRef, packet: &[u8]) {
        let Some(Arrived { slid, src_qp, dest_qp, qkey, pkey, group, frame }) = packets::decode(packet) else { return };
        let returns = |bound: &Bound| bound.interface.port().is_some_and(|own| own.lid == slid && own.qpn == src_qp);
        let mut all = self.of.range(InterfaceId::range(at)).peekable();
        if all.peek().is_some() && !all.any(|(_, bound)| returns(bound)) {
            fabric.tap(now, at, Direction::Received, || packet.to_vec());
        }
        for id in self.receivers(at, group.as_ref(), dest_qp, pkey) {
            let Some(bound) = self.of.get(&id) else { continue };
            let has_key = bound.interface.broadcast().is_some_and(|group| group.qkey == qkey);
            // Its own packets to a group come back to it.
            let is_own = bound.interface.port().is_none_or(|own| own.lid == slid && own.qpn == src_qp);
            if has_key && !is_own {
                self.act(now, fabric, id, |interface, out| {
                    interface.handle_datagram(now, Sender { qpn: src_qp }, frame.to_vec().into(), out);
                });
            }
        }
    }
}

/// Returns the number of datagrams that a frame becomes, and their length in words, as ports count them.
fn counted(frame: &Frame) -> (u64, u64) {
    let words = |run: Run| run.count * (run.len + OVERHEAD_BYTES).div_ceil(4);
    let [first, last] = frame.runs();
    ((first.count + last.count) as u64, (words(first) + words(last)) as u64)
}

fn is_lost(loss_ppm: u32, rng: &mut SplitMix64) -> bool {
    loss_ppm > 0 && rng.next_u64() % 1_000_000 < u64::from(loss_ppm)
}
