//! Packets of the IPoIB interfaces of virtual hosts: from the kernels to the fabric, and back.

use std::time::Instant;

use weft_ipoib::Frame;

use super::Broker;
use crate::ipoib::Effect;

/// Packets of interfaces in one turn, against endless talk.
const STEPS_MAX: u32 = 4096;

/// An action for the server: the network, its interface, and a packet for the kernel or the state of the link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NetworkEffect {
    /// Hand the kernel the packet of a frame.
    Deliver(Frame),
    /// The link has this MTU, or there is none.
    Link(Option<u32>),
}

impl Broker {
    /// Handles a packet that the kernel of a virtual host sends. `None`: it is malformed, and the port counts it as
    /// discarded.
    pub fn handle_ip_packet(&mut self, now: Instant, network: u32, interface: usize, frame: Option<Frame>) {
        let Some(id) = self.networks.at(network, interface) else { return };
        let time = self.shared.fabric.time(now);
        let Some(running) = self.shared.fabric.running_mut() else { return };
        match frame {
            Some(frame) => self.networks.interfaces.handle_packet(time, running.fabric_mut(), id, frame),
            None => running.fabric_mut().refuse(id.port),
        }
    }

    /// Carries the packets of interfaces, and takes those for them, on a fabric where every packet travels hop by hop.
    pub fn carry_interface_packets(&mut self, now: Instant) {
        let interfaces = &mut self.networks.interfaces;
        if interfaces.is_empty() {
            return;
        }
        let time = self.shared.fabric.time(now);
        let Some(running) = self.shared.fabric.running_mut() else { return };
        for _ in 0..STEPS_MAX {
            // Copies of one packet are taken before the next one leaves: the queue of those that wait is bounded.
            let sent = interfaces.poll_packet();
            let is_last = sent.is_none();
            if let Some((from, mut packet)) = sent {
                self.packet_channels.send(time, running.fabric_mut(), &self.groups, from, &mut packet);
            }
            while let Some((port, packet)) = self.packet_channels.take_for_daemon() {
                interfaces.handle_link_packet(time, running.fabric_mut(), port, &packet);
            }
            if is_last {
                return;
            }
        }
    }

    /// Takes the next action for the interfaces of virtual hosts.
    pub fn poll_network_effect(&mut self) -> Option<(u32, usize, NetworkEffect)> {
        loop {
            let (id, effect) = match self.networks.interfaces.poll_effect()? {
                Effect::Deliver(id, frame) => (id, NetworkEffect::Deliver(frame)),
                Effect::Link(id, mtu) => (id, NetworkEffect::Link(mtu)),
            };
            if let Some((network, interface)) = self.networks.places.get(&id) {
                return Some((*network, *interface, effect));
            }
        }
    }
}
