//! Timers and datagrams in flight: links that train, nodes that boot, traps that no manager has repressed, datagrams on
//! cables with latency.

use crate::limits::IN_FLIGHT_MAX;
use crate::packet::Packet;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weft_verbs::Instant;

/// Timer. Its owner remembers the time for which it set the timer, and ignores outdated ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A cable's link finishes training.
    Train(u32),
    /// A flapping cable is plugged in again.
    Rejoin(u32),
    /// A node powers on again.
    Boot(u32),
    /// A node sends traps again.
    Traps(u32),
    /// A datagram arrives.
    Land(u32),
    /// A slow subnet management agent handles a datagram.
    Agent(u32),
    /// An agent's sampling begins or ends.
    Sample(u32),
}

/// Timers by time; those of one time in the order in which they were set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u64, Timer)>>,
    count: u64,
}

impl Timers {
    pub fn set(&mut self, at: Instant, timer: Timer) {
        self.count += 1;
        self.heap.push(Reverse((at, self.count, timer)));
    }

    pub fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    pub fn due(&mut self, now: Instant) -> Option<(Instant, Timer)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, timer))| (at, timer))
    }
}

/// A copy of a packet to a group, at a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replica {
    pub at: u32,
    pub hops: u8,
    pub latency_ns: u64,
    pub vl: u8,
}

/// Datagrams in flight, each with its destination port.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    slots: Vec<Option<(u32, Packet)>>,
    free: Vec<u32>,
}

impl Flight {
    /// Adds a departing datagram; `None` if too many are in flight.
    pub fn depart(&mut self, to: u32, packet: &Packet) -> Option<u32> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < IN_FLIGHT_MAX => {
                self.slots.push(None);
                self.slots.len() as u32 - 1
            }
            None => return None,
        };
        self.slots[slot as usize] = Some((to, packet.clone()));
        Some(slot)
    }

    /// Removes an arriving datagram.
    pub fn land(&mut self, slot: u32) -> Option<(u32, Packet)> {
        let landed = self.slots.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(landed)
    }
}
