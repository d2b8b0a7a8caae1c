//! Fault injection: `WEFT_FAULT="loss=1%,reorder=2%,dup=1%,corrupt=0.1%,delay=1ms,seed=7"`. Random numbers decide which
//! received packets are lost, damaged, duplicated or delayed. They depend only on the seed and on the number of packets
//! before, so a run can be repeated as far as its packets come in the same order. Damage happens before the ICRC check,
//! so that it tests the check.

mod spec;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weft_verbs::{Duration, Instant};

use crate::datagram::Datagram;
pub use spec::{FaultSpec, FaultSpecError};

/// Maximum number of delayed bytes; packets beyond it are lost, as in a queue that overflows.
pub const HELD_BYTES_MAX: usize = 64 << 20;
/// Maximum number of packets that overtake a late one.
pub const OVERTAKEN_BY_MAX: u64 = 8;
/// A late packet arrives after this time even if nothing overtakes it.
pub const LATE_MAX: Duration = Duration::from_micros(500);

/// How often each fault was injected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultStats {
    /// Packets lost.
    pub lost: u64,
    /// Packets damaged.
    pub corrupted: u64,
    /// Packets duplicated.
    pub doubled: u64,
    /// Packets made late.
    pub reordered: u64,
    /// Packets lost because too many were delayed.
    pub overflowed: u64,
}

#[derive(Debug)]
struct Owned {
    ib: Vec<u8>,
    like: Datagram<'static>,
}

impl Owned {
    fn of(datagram: &Datagram<'_>, ib: Vec<u8>) -> Owned {
        Owned { ib, like: Datagram { ib: &[], ..*datagram } }
    }

    fn datagram(&self) -> Datagram<'_> {
        Datagram { ib: &self.ib, ..self.like }
    }
}

/// A delayed packet, ordered by its time and then by its number.
#[derive(Debug)]
struct Held {
    at: Instant,
    number: u64,
    packet: Owned,
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}
impl Eq for Held {}
impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Held {
    fn cmp(&self, other: &Held) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A packet waiting to be overtaken.
#[derive(Debug)]
struct Late {
    until: Instant,
    overtaken_by: u64,
    packet: Owned,
}

/// The fault injector.
#[derive(Debug)]
pub struct Fault {
    spec: FaultSpec,
    dice: SplitMix64,
    number: u64,
    held: BinaryHeap<Reverse<Held>>,
    late: Vec<Late>,
    held_bytes: usize,
    /// Counters.
    pub stats: FaultStats,
}

impl Fault {
    /// Makes an injector for a specification.
    pub fn new(spec: FaultSpec) -> Fault {
        Fault {
            spec,
            dice: SplitMix64::from_seed(spec.seed.to_le_bytes()),
            number: 0,
            held: BinaryHeap::new(),
            late: Vec::new(),
            held_bytes: 0,
            stats: FaultStats::default(),
        }
    }

    /// Returns the next random number.
    fn roll(&mut self) -> u64 {
        self.dice.next_u64()
    }

    fn strikes(&mut self, ppm: u32) -> bool {
        // Draw a number regardless of the rate, so that one fault's rate does not affect another's draws.
        self.roll() % 1_000_000 < u64::from(ppm)
    }

    /// Handles a received packet: `deliver` gets the packets that result now, and those that it overtook.
    pub fn admit(&mut self, now: Instant, datagram: &Datagram<'_>, deliver: &mut impl FnMut(&Datagram<'_>)) {
        let spec = self.spec;
        let (lost, corrupt) = (self.strikes(spec.loss_ppm), self.strikes(spec.corrupt_ppm));
        let (double, late) = (self.strikes(spec.dup_ppm), self.strikes(spec.late_ppm(datagram.ib)));
        let (bit, distance) = (self.roll(), self.roll() % OVERTAKEN_BY_MAX + 1);
        if lost {
            self.stats.lost += 1;
            return;
        }
        let mut ib = Vec::new();
        let mut datagram = *datagram;
        if corrupt && !datagram.ib.is_empty() {
            self.stats.corrupted += 1;
            ib.extend_from_slice(datagram.ib);
            let bit = bit % (ib.len() as u64 * 8);
            ib[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        if !ib.is_empty() {
            datagram.ib = &ib;
        }
        if late {
            self.stats.reordered += 1;
            let until = now + spec.delay + LATE_MAX;
            if self.room_for(&datagram) {
                self.late.push(Late {
                    until,
                    overtaken_by: distance,
                    packet: Owned::of(&datagram, datagram.ib.to_vec()),
                });
            }
        } else {
            self.pass(now, &datagram, deliver);
        }
        if double {
            self.stats.doubled += 1;
            self.pass(now, &datagram, deliver);
        }
    }

    /// Delivers packets that are due by `now`.
    pub fn release(&mut self, now: Instant, deliver: &mut impl FnMut(&Datagram<'_>)) {
        while self.held.peek().is_some_and(|h| h.0.at <= now) {
            if let Some(Reverse(held)) = self.held.pop() {
                self.held_bytes -= held.packet.ib.len();
                deliver(&held.packet.datagram());
                self.overtake(now, deliver);
            }
        }
        let mut index = 0;
        while index < self.late.len() {
            if self.late[index].until <= now {
                self.arrive(index, deliver);
            } else {
                index += 1;
            }
        }
    }

    /// Returns when [`Fault::release`] has work.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let held = self.held.peek().map(|h| h.0.at);
        let late = self.late.iter().map(|l| l.until).min();
        held.into_iter().chain(late).min()
    }

    fn room_for(&mut self, datagram: &Datagram<'_>) -> bool {
        let fits = self.held_bytes + datagram.ib.len() <= HELD_BYTES_MAX;
        match fits {
            true => self.held_bytes += datagram.ib.len(),
            false => self.stats.overflowed += 1,
        }
        fits
    }

    fn pass(&mut self, now: Instant, datagram: &Datagram<'_>, deliver: &mut impl FnMut(&Datagram<'_>)) {
        if self.spec.delay.is_zero() {
            deliver(datagram);
            self.overtake(now, deliver);
        } else if self.room_for(datagram) {
            self.number += 1;
            self.held.push(Reverse(Held {
                at: now + self.spec.delay,
                number: self.number,
                packet: Owned::of(datagram, datagram.ib.to_vec()),
            }));
        }
    }

    /// Counts a delivered packet towards the release of those waiting to be overtaken.
    fn overtake(&mut self, _now: Instant, deliver: &mut impl FnMut(&Datagram<'_>)) {
        let mut index = 0;
        while index < self.late.len() {
            self.late[index].overtaken_by -= 1;
            if self.late[index].overtaken_by == 0 {
                self.arrive(index, deliver);
            } else {
                index += 1;
            }
        }
    }

    fn arrive(&mut self, index: usize, deliver: &mut impl FnMut(&Datagram<'_>)) {
        let late = self.late.remove(index);
        self.held_bytes -= late.packet.ib.len();
        deliver(&late.packet.datagram());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn datagram(ib: &[u8]) -> Datagram<'_> {
        Datagram {
            ib,
            src: IpAddr::from([10, 0, 0, 1]),
            sport: 50_000,
            dst: IpAddr::from([10, 0, 0, 2]),
            ifindex: 1,
            traffic_class: 0,
            hop_limit: 64,
            segment: 0,
            grh: None,
        }
    }

    fn run(spec: &str, packets: u32) -> (Vec<Vec<u8>>, FaultStats) {
        let mut fault = Fault::new(FaultSpec::parse(spec).unwrap());
        let mut out = Vec::new();
        for i in 0..packets {
            let now = Instant(u64::from(i) * 1000);
            let bytes = i.to_be_bytes();
            fault.release(now, &mut |d| out.push(d.ib.to_vec()));
            fault.admit(now, &datagram(&bytes), &mut |d| out.push(d.ib.to_vec()));
        }
        while let Some(at) = fault.poll_timeout() {
            fault.release(at, &mut |d| out.push(d.ib.to_vec()));
        }
        assert_eq!(fault.held_bytes, 0);
        (out, fault.stats)
    }

    #[test]
    fn the_same_seed_strikes_the_same_packets() {
        let spec = "loss=5%,reorder=5%,dup=5%,corrupt=5%,seed=7";
        assert_eq!(run(spec, 2000), run(spec, 2000));
        assert_ne!(run(spec, 2000).0, run("loss=5%,seed=8", 2000).0);
    }

    #[test]
    fn faults_strike_as_often_as_asked() {
        let (out, stats) = run("loss=10%,dup=1%,seed=3", 100_000);
        assert!((9_500..10_500).contains(&stats.lost), "{stats:?}");
        assert!((800..1_100).contains(&stats.doubled), "{stats:?}");
        assert_eq!(out.len() as u64, 100_000 - stats.lost + stats.doubled);
    }

    #[test]
    fn reordering_and_delay_lose_nothing() {
        for spec in ["reorder=20%,seed=1", "delay=1ms", "delay=20us,reorder=20%"] {
            let (mut out, stats) = run(spec, 5000);
            let sorted = out.is_sorted();
            assert_eq!(sorted, stats.reordered == 0, "{spec}");
            out.sort();
            let all: Vec<_> = (0..5000u32).map(|i| i.to_be_bytes().to_vec()).collect();
            assert_eq!(out, all, "{spec}");
        }
    }

    #[test]
    fn corruption_flips_one_bit() {
        let (out, stats) = run("corrupt=100%", 50);
        assert_eq!(stats.corrupted, 50);
        for (i, ib) in out.iter().enumerate() {
            let got = u32::from_be_bytes(ib[..].try_into().unwrap());
            assert_eq!((got ^ i as u32).count_ones(), 1);
        }
    }
}
