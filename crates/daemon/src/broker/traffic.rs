//! Traffic of the fabric: the packets and management datagrams that the server moves between requests.

use std::time::Instant;

use weft_fabric::Delivery;

use super::Broker;
use super::shared::Shared;
use crate::hops::PacketChannels;
use crate::host::Host;
use crate::slots::ClientId;
use crate::umad::{Called, UmadService};

/// Packets that the daemon still carries for an ending program: as many of the smallest as its ring holds.
const LEFT_MAX: usize = 1 << 15;
/// Rounds of messages between connection managers in one turn of the loop. No conversation of theirs takes as many.
const ANSWERS_MAX: u32 = 1000;

/// Packet channels.
impl Broker {
    /// Returns the packet channels.
    pub fn packet_channels(&mut self) -> &mut PacketChannels {
        &mut self.packet_channels
    }

    /// Closes the packet channel of a program that is gone or can no longer call, after carrying the packets that it
    /// had sent.
    pub fn close_packet_channel(&mut self, now: Instant, id: ClientId, host: &mut impl Host) {
        if self.packet_channels.has(id) {
            self.packet_channels.stop_waiting(id);
            self.carry_packets(now, id, LEFT_MAX);
            self.packet_channels.disconnect(id);
            host.close_packet_channel(id);
        }
    }

    /// Carries at most `most` packets of a program; returns how many there were.
    pub fn carry_packets(&mut self, now: Instant, id: ClientId, most: usize) -> usize {
        let time = self.shared.fabric.time(now);
        let Some(running) = self.shared.fabric.running_mut() else { return 0 };
        self.packet_channels.carry(time, running.fabric_mut(), &self.groups, id, most)
    }

    /// Retries packets that wait for room.
    pub fn flush_packet_channels(&mut self, now: Instant) {
        let time = self.shared.fabric.time(now);
        if let Some(running) = self.shared.fabric.running_mut() {
            self.packet_channels.flush(time, running.fabric_mut());
        }
    }

    pub(super) fn handle_packet_channel_timeout(&mut self, now: Instant) {
        let time = self.shared.fabric.time(now);
        if self.packet_channels.poll_timeout().is_some_and(|at| at <= time)
            && let Some(running) = self.shared.fabric.running_mut()
        {
            self.packet_channels.handle_timeout(time, running.fabric_mut(), &self.groups);
        }
    }

    pub(super) fn poll_packet_channel_timeout(&self) -> Option<Instant> {
        self.packet_channels.poll_timeout().map(|at| self.shared.fabric.instant(at))
    }
}

/// Management datagrams.
impl Broker {
    /// Returns the management datagram service of virtual hosts.
    pub fn umad(&mut self) -> &mut UmadService {
        &mut self.datagrams.service
    }

    /// Closes a port that a program opened.
    pub fn close_umad(&mut self, handle: u32, host: &mut impl Host) {
        self.datagrams.close(handle, host);
    }

    /// Handles a packet from a program on the socket of a port that it opened.
    pub fn handle_umad_packet(&mut self, now: Instant, handle: u32, packet: &[u8]) -> Called {
        let time = self.shared.fabric.time(now);
        let Some(running) = self.shared.fabric.running_mut() else { return Called::No };
        self.datagrams.service.handle_packet(time, running.fabric_mut(), handle, packet)
    }

    /// Takes at most `most` datagrams from the ring of a port that a program opened; returns how many there were.
    pub fn handle_umad_ring(&mut self, now: Instant, handle: u32, most: usize) -> usize {
        let time = self.shared.fabric.time(now);
        let Some(running) = self.shared.fabric.running_mut() else { return 0 };
        self.datagrams.service.handle_ring(time, running.fabric_mut(), handle, most)
    }

    /// Delivers datagrams of the fabric to programs, and does what is due.
    pub fn carry_datagrams(&mut self, now: Instant, host: &mut impl Host) {
        self.follow_fabric(now, host);
        let time = self.shared.fabric.time(now);
        let Some(running) = self.shared.fabric.running_mut() else { return };
        let umad = &mut self.datagrams.service;
        umad.set_capabilities(time, running.fabric_mut());
        umad.pump(time, running.fabric_mut());
        if umad.poll_timeout().is_some_and(|at| at <= time) {
            umad.handle_timeout(time, running.fabric_mut());
        }
        self.networks.handle_timeout(&mut self.shared, now);
        let Some(running) = self.shared.fabric.running_mut() else { return };
        umad.pump(time, running.fabric_mut());
        // A connection manager's answers are under way immediately, and may be for another connection manager.
        for _ in 0..ANSWERS_MAX {
            let networks = &mut self.networks;
            let mut claim = |shared: &mut Shared, delivery: &Delivery| networks.claim(shared, now, delivery);
            if !self.cms.hosts.carry(&mut self.shared, umad, now, &mut claim) {
                return;
            }
            let Some(running) = self.shared.fabric.running_mut() else { return };
            umad.pump(time, running.fabric_mut());
        }
    }

    /// Returns when [`Broker::carry_datagrams`] is due.
    pub(super) fn poll_umad_timeout(&self) -> Option<Instant> {
        let due = [self.datagrams.service.poll_timeout(), self.networks.poll_timeout()];
        due.into_iter().flatten().min().map(|at| self.shared.fabric.instant(at))
    }

    /// Brings every feature up to date with the fabric: another one, or none, or its ports and paths changed.
    fn follow_fabric(&mut self, now: Instant, host: &mut impl Host) {
        let shared = &mut self.shared;
        if self.datagrams.follow(&shared.fabric, host) {
            super::packet_channels::follow(&mut self.packet_channels, shared);
            self.cms.hosts.end(now);
            self.ledgers.end_hosts();
            self.networks.end(host);
            self.host_files = super::host_files::HostFiles::default();
            self.captures.end(host);
            self.modules.end_hosts();
        }
        let changed = super::fabric::take_changed(&mut shared.fabric);
        if !changed.nodes.is_empty() {
            self.cms.hosts.follow_nodes(shared, now, &changed.nodes);
            self.networks.follow(shared, now, &changed);
            self.networks.follow_power(&shared.fabric, &changed.nodes, host);
            super::fabric::tell_ports(shared, &changed.nodes);
        }
        self.paths.follow(shared);
        self.groups.follow(shared);
    }
}
