//! One program's packet channel, and the packets that wait at the last switch for room in it.

use std::collections::VecDeque;

use weft_fabric::{PortRef, lane_of};
use weft_link::hops::{PortName, SwitchEnd};
use weft_verbs::{Duration, Instant};

use crate::limits::{CHANNEL_QUEUE_BYTES_MAX, CHANNEL_QUEUE_PACKETS_MAX};
use crate::slots::ClientId;

/// A waiting packet: its port, as its program and as the fabric names it, and the slot of its sender.
type Waiting = (PortName, PortRef, u32, Box<[u8]>);

/// From when to when a packet waited, at which port, and on which virtual lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stall {
    pub to: PortRef,
    pub vl: u8,
    pub since: Instant,
    pub until: Instant,
}

/// The packet channel of one program.
#[derive(Debug)]
pub(super) struct PacketChannel {
    pub end: SwitchEnd,
    pub slot: u32,
    /// Ports of its host, with their devices.
    ports: Vec<(u32, PortRef)>,
    queue: VecDeque<Waiting>,
    queued_bytes: usize,
    /// When the first waiting packet is dropped.
    pub deadline: Option<Instant>,
    /// The current stall, while nothing moves.
    stall: Option<Stall>,
    /// A past stall that is not counted yet.
    pub waited: Option<Stall>,
    /// A packet waited too long, and there has been no room since: further packets are dropped immediately.
    stalled: bool,
    /// The client that the last packet from here waits for.
    pub blocked_by: Option<ClientId>,
    /// Its program is ending: the daemon reads it without waiting for receivers.
    pub leaves: bool,
    /// Its program broke the ring's rules: the daemon reads no more from it.
    broken: bool,
}

/// Result of delivering a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Put {
    /// The packet is in the ring.
    There,
    /// The packet waits for room.
    Waits,
    /// The packet is lost: there is no room even to wait.
    Lost,
    /// The port does not belong to its host.
    Elsewhere,
}

impl PacketChannel {
    pub fn new(end: SwitchEnd, slot: u32, ports: Vec<(u32, PortRef)>) -> PacketChannel {
        let queue = VecDeque::new();
        let (deadline, stall, waited, blocked_by) = (None, None, None, None);
        let (stalled, leaves, broken) = (false, false, false);
        PacketChannel {
            end,
            slot,
            ports,
            queue,
            queued_bytes: 0,
            deadline,
            stall,
            waited,
            stalled,
            blocked_by,
            leaves,
            broken,
        }
    }

    /// Returns whether the daemon must not read from it now.
    pub fn is_blocked(&self) -> bool {
        self.broken || self.blocked_by.is_some() && !self.leaves
    }

    /// Takes the next packet, and returns the sending port, if the program has such a port.
    pub fn take(&mut self, room: &mut Vec<u8>) -> Option<Option<PortRef>> {
        match self.end.pop(room) {
            Ok(found) => {
                let (device, number) = found?;
                let named = |(of, port): &&(u32, PortRef)| *of == device && port.port == number;
                Some(self.ports.iter().find(named).map(|(_, port)| *port))
            }
            Err(_) => {
                self.broken = true;
                None
            }
        }
    }

    /// Delivers a packet to a port, from the program with the slot `sender`.
    pub fn put(&mut self, now: Instant, to: PortRef, sender: u32, packet: &[u8]) -> Put {
        let Some((device, _)) = self.ports.iter().find(|(_, port)| *port == to) else { return Put::Elsewhere };
        let name = (*device, to.port);
        if self.queue.is_empty() && self.end.push(name, sender, packet) {
            self.stalled = false;
            return Put::There;
        }
        let full =
            self.queue.len() >= CHANNEL_QUEUE_PACKETS_MAX || self.queued_bytes + packet.len() > CHANNEL_QUEUE_BYTES_MAX;
        if self.stalled || full {
            return Put::Lost;
        }
        self.queued_bytes += packet.len();
        self.queue.push_back((name, to, sender, packet.into()));
        if !self.end.want_room() {
            self.flush(now);
        }
        if self.queue.is_empty() { Put::There } else { Put::Waits }
    }

    /// Returns the port at which the first packet waits, if any does.
    pub fn waits_at(&self) -> Option<PortRef> {
        self.queue.front().map(|(_, to, ..)| *to)
    }

    /// Starts the wait of the first packet, for at most `patience`.
    pub fn wait(&mut self, now: Instant, patience: Duration) {
        self.deadline = Some(now + patience);
        let first = self.queue.front();
        self.stall = first.map(|(_, to, _, packet)| Stall { to: *to, vl: lane_of(packet), since: now, until: now });
    }

    /// Delivers as many waiting packets as there is room for now; returns how many.
    pub fn flush(&mut self, now: Instant) -> usize {
        let mut put = self.push_waiting();
        // A program that took everything before the request to call back does not call.
        if !self.queue.is_empty() && !self.end.want_room() {
            put += self.push_waiting();
        }
        if put > 0 {
            self.end_stall(now);
        }
        if self.queue.is_empty() {
            self.deadline = None;
        }
        put
    }

    fn push_waiting(&mut self) -> usize {
        let mut put = 0;
        while let Some((name, _, sender, packet)) = self.queue.front()
            && self.end.push(*name, *sender, packet)
        {
            self.queued_bytes -= packet.len();
            self.queue.pop_front();
            put += 1;
        }
        put
    }

    fn end_stall(&mut self, now: Instant) {
        if let Some(stall) = self.stall.take() {
            self.waited = Some(Stall { until: now, ..stall });
        }
    }

    /// Drops all waiting packets, since the first has waited too long and the others would too.
    pub fn give_up(&mut self, now: Instant, mut dropped: impl FnMut(PortRef, &[u8], bool)) {
        self.end_stall(now);
        self.queue.drain(..).for_each(|(_, to, _, packet)| dropped(to, &packet, true));
        (self.queued_bytes, self.deadline, self.stalled) = (0, None, true);
    }

    /// Drops all state, and takes the new ports of its host.
    pub fn start_anew(&mut self, ports: Vec<(u32, PortRef)>) {
        self.ports = ports;
        self.queue.clear();
        (self.queued_bytes, self.deadline, self.stall, self.waited) = (0, None, None, None);
        (self.stalled, self.blocked_by) = (false, None);
    }
}
