//! Transfer of datagrams from programs to the fabric and back, and timeouts.

use weft_fabric::{Delivery, Fabric, MadOut, PortRef};
use weft_ipc::umad::{UMAD_HEAD_BYTES, UMAD_PACKET_BYTES_MAX, UmadHead};
use weft_ipc::umad_ring::{UMAD_BELL, UMAD_NO_RING, UMAD_RING_ME, UMAD_SLOT_BYTES};
use weft_mad::is_response;
use weft_mad::rmpp::first_mad;
use weft_verbs::{Duration, Instant};
use weft_wire::mad::{Class, Mad};
use zerocopy::FromBytes;

use super::{HostPeer, UmadService};

/// Shortest datagram accepted; one shorter than a full MAD is padded with zeroes.
const MAD_BYTES_MIN: usize = 36;

/// Status of an unanswered datagram.
const ETIMEDOUT: u32 = 110;

/// Datagrams of the connection manager's class that wait for it.
const UNCLAIMED_MAX: usize = 1 << 12;

/// Request in a program's packet besides datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Called {
    /// None.
    No,
    /// Poll the ring: it may hold requests.
    Look,
    /// Ring the program.
    Ring,
}

/// Decodes the first packet of a datagram. Only if the packet has the maximum length does the datagram continue in the
/// next packet. So a program may send a datagram with a plain write, and its length field counts as little as in Linux.
fn first_packet(packet: &[u8]) -> Option<(UmadHead, &[u8])> {
    if packet.len() == UMAD_PACKET_BYTES_MAX {
        return UmadHead::decode(packet);
    }
    let (head, mad) = UmadHead::read_from_prefix(packet).ok()?;
    Some((UmadHead { length: packet.len() as u32, ..head }, mad))
}

impl UmadService {
    /// Handles a packet from a program, on the socket of this open port. Drops packets that Weft's library never sends.
    pub fn handle_packet(&mut self, now: Instant, fabric: &mut Fabric, handle: u32, packet: &[u8]) -> Called {
        let Some(open) = self.open.get_mut(&handle) else { return Called::No };
        let (head, mad) = match (open.partial.take(), packet) {
            (Some((head, mut mad)), _) => {
                mad.extend_from_slice(packet);
                (head, mad)
            }
            (None, UMAD_BELL) => return Called::Look,
            (None, UMAD_RING_ME) => return Called::Ring,
            (None, UMAD_NO_RING) => {
                open.outbox.leave_ring();
                return Called::No;
            }
            (None, _) => match first_packet(packet) {
                Some((head, mad)) => (head, mad.to_vec()),
                None => return Called::No,
            },
        };
        if UMAD_HEAD_BYTES + mad.len() < head.length as usize {
            open.partial = Some((head, mad));
        } else {
            self.send(now, fabric, handle, &head, mad);
        }
        Called::No
    }

    /// Takes at most `most` datagrams from the ring of an open port; returns how many there were.
    pub fn handle_ring(&mut self, now: Instant, fabric: &mut Fabric, handle: u32, most: usize) -> usize {
        let mut slot = [0; UMAD_SLOT_BYTES];
        for count in 0..most {
            let Some(open) = self.open.get_mut(&handle).filter(|open| !open.outbox.is_crowded()) else { return count };
            if !open.outbox.ring().is_some_and(|ring| ring.pop(&mut slot)) {
                return count;
            }
            if let Some((head, mad)) = UmadHead::read_from_prefix(&slot).ok().map(|(head, mad)| (head, mad.to_vec())) {
                self.send(now, fabric, handle, &head, mad);
            }
        }
        most
    }

    fn send(&mut self, now: Instant, fabric: &mut Fabric, handle: u32, head: &UmadHead, bytes: Vec<u8>) {
        let Some(open) = self.open.get(&handle) else { return };
        let at = open.port;
        let Some(agent) = open.agents.get(head.agent as usize).copied().flatten() else { return };
        let Some(port) = self.ports.get_mut(&at) else { return };
        let Some(owner) = port.owners.get(&agent) else { return };
        if bytes.len() < MAD_BYTES_MIN {
            return;
        }
        let peer = HostPeer::of_head(fabric, at, owner.qpn, head);
        let timeout = Duration::from_millis(u64::from(head.timeout_ms));
        let send = weft_mad::Send { agent, peer, bytes, timeout, retries: head.retries };
        // The kernel would refuse an unsendable datagram; here the program has already seen its send succeed.
        if port.mad.send(now, send).is_ok() {
            self.busy.push(at);
            self.pump(now, fabric);
        }
    }

    /// Carries datagrams between the fabric and the agents until there is nothing left to carry.
    pub fn pump(&mut self, now: Instant, fabric: &mut Fabric) {
        loop {
            while let Some(at) = self.busy.pop() {
                self.serve(now, fabric, at);
            }
            let Some(delivery) = fabric.poll_delivery() else { return };
            self.deliver(now, fabric, delivery);
        }
    }

    /// Sends and delivers the pending datagrams of a port.
    fn serve(&mut self, now: Instant, fabric: &mut Fabric, at: PortRef) {
        let Some(port) = self.ports.get_mut(&at) else { return };
        while let Some((peer, mad)) = port.mad.poll_transmit() {
            // A datagram that the fabric does not take is as good as lost on the way.
            let _ = fabric.send(now, at, &MadOut { to: peer.to, mad });
        }
        while let Some(delivery) = port.mad.poll_delivery() {
            let Some(owner) = port.owners.get(&delivery.agent) else { continue };
            let Some(open) = self.open.get_mut(&owner.handle) else { continue };
            let status = if delivery.timed_out { ETIMEDOUT } else { 0 };
            // A program that does not read loses unsolicited datagrams.
            if status == 0 && open.outbox.is_full() && !is_response(&first_mad(&delivery.bytes).header) {
                continue;
            }
            open.outbox.push(delivery.peer.head(owner.number, status), &delivery.bytes);
            if !std::mem::replace(&mut open.is_ready, true) {
                self.ready.push(owner.handle);
            }
        }
    }

    /// Gives a datagram from the fabric to the agents of its port.
    fn deliver(&mut self, now: Instant, fabric: &mut Fabric, delivery: Delivery) {
        let peer = HostPeer::of_delivery(&delivery);
        if let Some(port) = self.ports.get_mut(&delivery.port)
            && port.mad.handle(now, peer, &delivery.mad)
        {
            self.busy.push(delivery.port);
        } else if is_of_connection_manager(&delivery.mad) {
            if self.unclaimed.len() < UNCLAIMED_MAX {
                self.unclaimed.push_back(delivery);
            }
        } else if let Some(mad) = weft_fabric::unmatched(&delivery.mad) {
            let _ = fabric.send(now, delivery.port, &MadOut { to: peer.to, mad });
        }
    }

    /// Returns when [`UmadService::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.ports.values().filter_map(|port| port.mad.poll_timeout()).min()
    }

    /// Retransmits datagrams without a timely answer, or returns them as unanswered.
    pub fn handle_timeout(&mut self, now: Instant, fabric: &mut Fabric) {
        for (&at, port) in &mut self.ports {
            if port.mad.poll_timeout().is_some_and(|due| due <= now) {
                port.mad.handle_timeout(now);
                self.busy.push(at);
            }
        }
        self.pump(now, fabric);
    }
}

/// Returns whether a datagram is a connection manager's: messages of connections, and answers of the subnet
/// administration that no agent waits for.
fn is_of_connection_manager(mad: &Mad) -> bool {
    let (class, method) = (mad.header.class(), mad.header.method());
    class == Class::CM || (class == Class::SUBN_ADM && method.is_response())
}
