//! Packet channels between the programs of virtual hosts and the fabric's switches, in packet mode: the daemon takes
//! packets from the sender, the fabric carries them hop by hop, and the daemon delivers them. A fabric has credits:
//! while a receiver has no room its packets wait at the last switch, and the daemon does not read from the senders of
//! waiting packets. A packet that waits longer than that switch allows is dropped there, and counted.

mod descriptors;
mod packet_channel;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_fabric::{Arrival, Fabric, PortRef, Transit};
use weft_link::hops::SwitchEnd;
use weft_sys::bell::Heard;
use weft_verbs::{Duration, Instant, QPN_INDEX_BITS};
use weft_wire::MULTICAST_QPN;
use weft_wire::link_packet::{LINK_PACKET_MAX, LinkPacket};

use crate::limits::DAEMON_QUEUE_PACKETS_MAX;
use crate::slots::ClientId;
pub use descriptors::PacketChannelFds;
use packet_channel::{PacketChannel, Put};

/// Listeners to a group at a port, by the group's LID.
pub trait Listeners {
    /// Returns the clients.
    fn at(&self, port: PortRef, mlid: u16) -> Vec<ClientId>;
}

/// Slot of the daemon's own queue pairs.
const DAEMON_SLOT: u32 = 0;

/// A packet that found no room.
type Lost = (PortRef, Box<[u8]>);

/// The packet channels of all programs.
#[derive(Debug, Default)]
pub struct PacketChannels {
    channels: BTreeMap<ClientId, PacketChannel>,
    by_slot: BTreeMap<u32, ClientId>,
    transit: Transit,
    room: Vec<u8>,
    /// Packet channels that received packets since their programs were last rung.
    touched: Vec<ClientId>,
    /// Packet channels that the daemon may read again.
    released: Vec<ClientId>,
    lost: Vec<Lost>,
    /// Packets may be waiting for room.
    waiting: bool,
    /// Ports whose packets for slot 0 and for groups the daemon takes, too.
    daemon_ports: BTreeSet<PortRef>,
    /// Such packets.
    for_daemon: VecDeque<(PortRef, Box<[u8]>)>,
}

impl PacketChannels {
    /// Adds a program's packet channel. `ports` are those of its host, each with its device.
    pub fn connect(&mut self, client: ClientId, slot: u32, ports: Vec<(u32, PortRef)>, end: SwitchEnd) {
        self.channels.insert(client, PacketChannel::new(end, slot, ports));
        self.by_slot.insert(slot, client);
    }

    /// Removes the packet channel of a program.
    pub fn disconnect(&mut self, client: ClientId) {
        if let Some(channel) = self.channels.remove(&client) {
            if self.by_slot.get(&channel.slot) == Some(&client) {
                self.by_slot.remove(&channel.slot);
            }
            self.release(client);
        }
    }

    /// Takes packets for slot 0, the daemon's, and for groups at these ports from now on.
    pub fn set_daemon_ports(&mut self, ports: BTreeSet<PortRef>) {
        self.daemon_ports = ports;
    }

    /// Takes the next packet for the daemon, and its port.
    pub fn take_for_daemon(&mut self) -> Option<(PortRef, Box<[u8]>)> {
        self.for_daemon.pop_front()
    }

    /// Carries a packet that the daemon sends from a port.
    pub fn send(
        &mut self,
        now: Instant,
        fabric: &mut Fabric,
        groups: &impl Listeners,
        from: PortRef,
        packet: &mut [u8],
    ) {
        // The daemon does not wait for receivers: a packet without room waits at the last switch, or is dropped there.
        let _ = self.forward(now, fabric, groups, (DAEMON_SLOT, from), packet);
        self.announce();
    }

    /// Returns whether a program has a packet channel.
    pub fn has(&self, client: ClientId) -> bool {
        self.channels.contains_key(&client)
    }

    /// Returns whether there are no packet channels.
    pub fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    /// Resets all packet channels after the fabric changed or went down: drops packets under way, and takes ports from
    /// `ports`.
    pub fn start_anew(&mut self, ports: impl Fn(ClientId) -> Vec<(u32, PortRef)>) {
        self.transit.clear();
        self.daemon_ports.clear();
        self.for_daemon.clear();
        for (client, channel) in &mut self.channels {
            channel.start_anew(ports(*client));
            self.released.push(*client);
        }
    }

    /// Returns whether packets may be waiting for room.
    pub fn has_waiting(&self) -> bool {
        self.waiting
    }

    /// Announces that the daemon polls from now on. Returns `false` if the program can no longer call.
    pub fn attend(&mut self, client: ClientId) -> bool {
        self.channels.get(&client).is_none_or(|channel| channel.end.attend() == Heard::Rung)
    }

    /// Carries an ending program's packets even to receivers without room, where they wait, or are dropped and counted.
    pub fn stop_waiting(&mut self, client: ClientId) {
        if let Some(channel) = self.channels.get_mut(&client) {
            channel.leaves = true;
        }
    }

    /// Announces that the program has to call from now on. Returns `false` if a packet waits: poll once more.
    pub fn sleep(&mut self, client: ClientId) -> bool {
        self.channels.get_mut(&client).is_none_or(|channel| channel.end.sleep() || channel.is_blocked())
    }

    /// Carries at most `most` packets of a program; returns how many there were.
    pub fn carry(
        &mut self,
        now: Instant,
        fabric: &mut Fabric,
        groups: &impl Listeners,
        client: ClientId,
        most: usize,
    ) -> usize {
        let mut room = std::mem::take(&mut self.room);
        room.reserve(LINK_PACKET_MAX);
        let mut carried = 0;
        while carried < most {
            let Some(channel) = self.channels.get_mut(&client).filter(|channel| !channel.is_blocked()) else { break };
            let Some(from) = channel.take(&mut room) else { break };
            carried += 1;
            let slot = channel.slot;
            if let Some(from) = from {
                let blocked = self.forward(now, fabric, groups, (slot, from), &mut room);
                if let Some(channel) = self.channels.get_mut(&client).filter(|_| blocked.is_some()) {
                    channel.blocked_by = blocked.filter(|by| *by != client);
                }
            }
        }
        self.room = room;
        self.announce();
        carried
    }

    /// Carries a packet from a port. Returns the client that it waits for, if one has no room.
    fn forward(
        &mut self,
        now: Instant,
        fabric: &mut Fabric,
        groups: &impl Listeners,
        (sender, from): (u32, PortRef),
        packet: &mut [u8],
    ) -> Option<ClientId> {
        let mut blocked = None;
        let sent = fabric.forward(now, from, packet, |arrival: Arrival, bytes| {
            if arrival.latency_ns > 0 {
                let until = now + Duration::from_nanos(arrival.latency_ns);
                if !self.transit.depart(until, arrival.port, sender, bytes) {
                    self.lost.push((arrival.port, bytes.into()));
                }
            } else {
                blocked = blocked.or(self.hand_over(now, groups, arrival.port, sender, bytes));
            }
        });
        // A copy for a group stays at the sender's own port, too (IBA 10.5.2.1).
        if sent.is_ok() && for_group(packet) {
            blocked = blocked.or(self.hand_over(now, groups, from, sender, packet));
        }
        if blocked.is_some() || !self.lost.is_empty() {
            self.settle(now, fabric);
        }
        blocked
    }

    /// Delivers a packet that reached its port. Returns the client that it waits for, if one has no room.
    fn hand_over(
        &mut self,
        now: Instant,
        groups: &impl Listeners,
        to: PortRef,
        sender: u32,
        packet: &[u8],
    ) -> Option<ClientId> {
        let parsed = LinkPacket::parse(packet).ok()?;
        let qpn = parsed.bth()?.dest_qp();
        let for_daemon = qpn == MULTICAST_QPN || qpn >> QPN_INDEX_BITS == DAEMON_SLOT;
        if for_daemon && self.daemon_ports.contains(&to) && self.for_daemon.len() < DAEMON_QUEUE_PACKETS_MAX {
            self.for_daemon.push_back((to, packet.into()));
        }
        if qpn != MULTICAST_QPN {
            let client = *self.by_slot.get(&(qpn >> QPN_INDEX_BITS))?;
            return self.put(now, client, to, sender, packet);
        }
        let mut blocked = None;
        for client in groups.at(to, parsed.lrh.dlid()) {
            blocked = blocked.or(self.put(now, client, to, sender, packet));
        }
        blocked
    }

    fn put(&mut self, now: Instant, client: ClientId, to: PortRef, sender: u32, packet: &[u8]) -> Option<ClientId> {
        let channel = self.channels.get_mut(&client)?;
        match channel.put(now, to, sender, packet) {
            Put::Elsewhere => None,
            Put::There => {
                if self.touched.last() != Some(&client) {
                    self.touched.push(client);
                }
                None
            }
            Put::Waits => {
                self.waiting = true;
                Some(client)
            }
            Put::Lost => {
                self.lost.push((to, packet.into()));
                None
            }
        }
    }

    /// Counts dropped packets and finished stalls, and starts the timeouts of newly waiting packets.
    fn settle(&mut self, now: Instant, fabric: &mut Fabric) {
        for (to, packet) in self.lost.drain(..) {
            fabric.discard(to, &packet, false);
        }
        for channel in self.channels.values_mut() {
            if let Some(stall) = channel.waited.take() {
                fabric.waited(stall.to, stall.vl, stall.since, stall.until);
            }
            if let Some(to) = channel.waits_at().filter(|_| channel.deadline.is_none()) {
                channel.wait(now, fabric.patience(to));
            }
        }
    }

    /// Delivers packets whose latency is over, and retries those that wait for room.
    pub fn handle_timeout(&mut self, now: Instant, fabric: &mut Fabric, groups: &impl Listeners) {
        while let Some((to, sender, packet)) = self.transit.arrive(now) {
            self.hand_over(now, groups, to, sender, &packet);
        }
        self.flush(now, fabric);
    }

    /// Delivers waiting packets where there is room now, and drops those that waited too long.
    pub fn flush(&mut self, now: Instant, fabric: &mut Fabric) {
        let mut free = Vec::new();
        for (client, channel) in self.channels.iter_mut().filter(|(_, channel)| channel.waits_at().is_some()) {
            if channel.flush(now) > 0 {
                channel.deadline = None;
                self.touched.push(*client);
            }
            if channel.deadline.is_some_and(|at| at <= now) {
                channel.give_up(now, |to, packet, late| fabric.discard(to, packet, late));
            }
            if channel.waits_at().is_none() {
                free.push(*client);
            }
        }
        self.waiting = self.channels.values().any(|channel| channel.waits_at().is_some());
        free.into_iter().for_each(|client| self.release(client));
        self.settle(now, fabric);
        self.announce();
    }

    /// Unblocks the packet channels whose packets waited for this client.
    fn release(&mut self, client: ClientId) {
        for (other, channel) in self.channels.iter_mut().filter(|(_, channel)| channel.blocked_by == Some(client)) {
            channel.blocked_by = None;
            self.released.push(*other);
        }
    }

    /// Takes the packet channels that the daemon may read again.
    pub fn take_released(&mut self) -> Vec<ClientId> {
        std::mem::take(&mut self.released)
    }

    /// Rings the programs that sleep.
    fn announce(&mut self) {
        for client in self.touched.drain(..) {
            if let Some(channel) = self.channels.get(&client) {
                channel.end.announce();
            }
        }
    }

    /// Returns when [`PacketChannels::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let waits = self.channels.values().filter_map(|channel| channel.deadline);
        waits.chain(self.transit.poll_timeout()).min()
    }
}

fn for_group(packet: &[u8]) -> bool {
    LinkPacket::parse(packet).ok().and_then(|parsed| parsed.bth()).is_some_and(|bth| bth.dest_qp() == MULTICAST_QPN)
}
