//! The network between the adapters: it gives every packet an arrival time, or none, or two.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::IpAddr;

use weft_verbs::{Duration, Instant};

use crate::rng::{Rng, mix};

/// Faults of the network; chances are per 10,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Lost.
    pub loss: u32,
    /// Held back so that later ones overtake.
    pub reorder: u32,
    /// Delivered twice.
    pub duplicate: u32,
    /// One to three bits flipped.
    pub corrupt: u32,
    /// Maximum extra delay.
    pub jitter: Duration,
    /// Time that a packet occupies the wire; with `queue`, packets beyond it are dropped.
    pub spacing: Duration,
    /// Maximum number of packets waiting for the wire; 0 means no limit.
    pub queue: u32,
    /// Outages: time is divided into periods of this length, and the wire is dead in one of this many (zero: never).
    pub outage: (Duration, u64),
    /// Only this sender's packets suffer.
    pub only_from: Option<IpAddr>,
}

impl Faults {
    /// A network without faults.
    pub const NONE: Faults = Faults {
        loss: 0,
        reorder: 0,
        duplicate: 0,
        corrupt: 0,
        jitter: Duration::ZERO,
        spacing: Duration::ZERO,
        queue: 0,
        outage: (Duration::ZERO, 0),
        only_from: None,
    };

    /// Returns whether packets can arrive twice or in another order.
    pub fn shuffles(&self) -> bool {
        self.reorder > 0 || self.duplicate > 0
    }
}

/// A packet under way: BTH to ICRC, between two addresses.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// Sender.
    pub src: IpAddr,
    /// Receiver, or a group.
    pub dst: IpAddr,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// BTH to ICRC.
    pub bytes: Vec<u8>,
}

/// An event at a certain time.
#[derive(Clone, Debug)]
pub enum Happening {
    /// A packet arrives.
    Arrival(Datagram),
    /// A wake-up that the test requested; the number is its own.
    Wake(u64),
    /// A process polls its rings from other processes of its machine.
    Look(usize),
}

struct Scheduled {
    at: Instant,
    order: u64,
    what: Happening,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Minimum latency of a packet.
const LATENCY: Duration = Duration::from_micros(2);
/// Time between packets of one sender if the faults specify none.
const SPACING: Duration = Duration::from_nanos(80);

/// Counts of the faults that packets suffered.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct NetStats {
    pub sent: u64,
    pub lost: u64,
    pub reordered: u64,
    pub duplicated: u64,
    pub corrupted: u64,
}

/// The network.
pub struct Net {
    /// Current faults; tests may change them at any time.
    pub faults: Faults,
    /// Counts of the faults.
    pub stats: NetStats,
    queue: BinaryHeap<Reverse<Scheduled>>,
    order: u64,
    /// Time at which each sender's wire is free again.
    free_at: BTreeMap<IpAddr, Instant>,
}

impl Net {
    /// Creates an empty network.
    pub fn new(faults: Faults) -> Net {
        Net { faults, stats: NetStats::default(), queue: BinaryHeap::new(), order: 0, free_at: BTreeMap::new() }
    }

    fn schedule(&mut self, at: Instant, what: Happening) {
        self.order += 1;
        self.queue.push(Reverse(Scheduled { at, order: self.order, what }));
    }

    /// Requests a wake-up.
    pub fn wake(&mut self, at: Instant, number: u64) {
        self.schedule(at, Happening::Wake(number));
    }

    /// Schedules a process's poll of its rings.
    pub fn look(&mut self, at: Instant, host: usize) {
        self.schedule(at, Happening::Look(host));
    }

    /// Delivers a packet at a given time, without faults.
    pub fn deliver_at(&mut self, at: Instant, datagram: Datagram) {
        self.schedule(at, Happening::Arrival(datagram));
    }

    /// Sends a packet, subject to all faults.
    pub fn send(&mut self, now: Instant, rng: &mut Rng, mut datagram: Datagram) {
        self.stats.sent += 1;
        let suffers = self.faults.only_from.is_none_or(|host| host == datagram.src);
        let faults = if suffers { self.faults } else { Faults::NONE };
        let spacing = if faults.spacing.is_zero() { SPACING } else { faults.spacing };
        let free = self.free_at.entry(datagram.src).or_default();
        let start = (*free).max(now);
        if faults.queue > 0 && start.since(now) > spacing * faults.queue {
            self.stats.lost += 1;
            return;
        }
        *free = start + spacing;
        let mut arrival = start + LATENCY;
        let piece = now.0.checked_div(faults.outage.0.as_nanos() as u64);
        let dead = piece.is_some_and(|piece| mix(piece).is_multiple_of(faults.outage.1.max(1)));
        if rng.chance(faults.loss.into(), 10_000) || dead {
            self.stats.lost += 1;
            return;
        }
        if rng.chance(faults.corrupt.into(), 10_000) {
            self.stats.corrupted += 1;
            for _ in 0..rng.range(1, 3) {
                let bit = rng.below(datagram.bytes.len() as u64 * 8);
                datagram.bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
            }
        }
        if rng.chance(faults.reorder.into(), 10_000) {
            self.stats.reordered += 1;
            arrival = arrival + Duration::from_nanos(rng.range(100, 20_000));
        }
        if !faults.jitter.is_zero() {
            arrival = arrival + Duration::from_nanos(rng.below(faults.jitter.as_nanos() as u64));
        }
        if rng.chance(faults.duplicate.into(), 10_000) {
            self.stats.duplicated += 1;
            let later = arrival + Duration::from_nanos(rng.range(50, 50_000));
            self.schedule(later, Happening::Arrival(datagram.clone()));
        }
        self.schedule(arrival, Happening::Arrival(datagram));
    }

    /// Returns the time of the next event.
    pub fn next_at(&self) -> Option<Instant> {
        self.queue.peek().map(|Reverse(next)| next.at)
    }

    /// Removes and returns the next event.
    pub fn pop(&mut self) -> Option<Happening> {
        self.queue.pop().map(|Reverse(next)| next.what)
    }
}
