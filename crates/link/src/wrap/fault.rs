//! Fault injection: `WEFT_FAULT="loss=1%,reorder=2%,dup=1%,corrupt=0.1%,delay=1ms,seed=7"`. Random numbers decide which
//! received packets are lost, damaged, duplicated or delayed. They depend only on the seed and on the number of packets
//! before, so a run can be repeated as far as its packets come in the same order. Damage happens before the ICRC check,
//! so that it tests the check. Several specifications may apply at a time, each with random numbers of its own.

mod dice;
mod held;
mod plan;
mod scope;
mod spec;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weft_verbs::{Duration, Instant};

use crate::datagram::Datagram;
pub use dice::{Dice, Effects, OVERTAKEN_BY_MAX};
use held::{Held, Late, Owned};
pub use plan::{FAULTS_BYTES_MAX, FAULTS_MAX, FaultPlan, FaultPlanError};
pub use scope::{Flow, FlowSet, PacketKinds, Scope};
pub use spec::{FaultSpec, FaultSpecError};

/// Maximum number of delayed bytes; packets beyond it are lost, as in a queue that overflows.
pub const HELD_BYTES_MAX: usize = 64 << 20;
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

/// One specification in force.
#[derive(Debug)]
struct Part {
    /// Its number among the process's faults.
    number: u32,
    dice: Dice,
    bits_per_second: u64,
    /// When the limited line has carried all packets so far.
    line_free_at: Instant,
    /// Packets affected.
    struck: u64,
}

/// Specifications that concern a packet: a bit for each, by its place.
type Concerned = u32;

/// The fault injector.
#[derive(Debug, Default)]
pub struct Fault {
    /// At most one for each bit of [`Concerned`].
    parts: Vec<Part>,
    number: u64,
    held: BinaryHeap<Reverse<Held>>,
    late: Vec<Late>,
    held_bytes: usize,
    /// Counters.
    pub stats: FaultStats,
}

impl Fault {
    /// Makes an injector for numbered specifications.
    pub fn new(specs: &[(u32, FaultSpec)]) -> Fault {
        let mut fault = Fault::default();
        specs.iter().for_each(|(number, spec)| fault.add(*number, *spec));
        fault
    }

    /// Adds a specification; one too many is ignored.
    pub fn add(&mut self, number: u32, spec: FaultSpec) {
        if self.parts.len() < Concerned::BITS as usize {
            let (dice, line_free_at) = (Dice::new(spec), Instant(0));
            self.parts.push(Part { number, dice, bits_per_second: spec.bits_per_second, line_free_at, struck: 0 });
        }
    }

    /// Removes the specification with a number. Packets that it delays arrive at their time.
    pub fn remove(&mut self, number: u32) {
        self.parts.retain(|part| part.number != number);
    }

    /// Returns how many packets each specification affected, by its number.
    pub fn strikes(&self) -> impl Iterator<Item = (u32, u64)> {
        self.parts.iter().map(|part| (part.number, part.struck))
    }

    /// Draws the effects of all specifications on a packet; `None` if none concerns it.
    fn roll(&mut self, now: Instant, datagram: &Datagram<'_>) -> Option<(Effects, Concerned)> {
        let flow = Flow { source: datagram.src, destination: datagram.dst };
        let (mut all, mut concerned) = (Effects::default(), 0);
        for (place, part) in self.parts.iter_mut().enumerate() {
            let Some(effects) = part.dice.roll(now, &flow, datagram.ib) else { continue };
            part.struck += u64::from(effects != Effects::default() || part.bits_per_second > 0);
            all = all.and(effects);
            concerned |= 1 << place;
        }
        (concerned != 0).then_some((all, concerned))
    }

    /// Handles a received packet: `deliver` gets the packets that result now, and those that it overtook.
    pub fn admit(&mut self, now: Instant, datagram: &Datagram<'_>, deliver: &mut impl FnMut(&Datagram<'_>)) {
        let Some((effects, concerned)) = self.roll(now, datagram) else {
            deliver(datagram);
            self.overtake(deliver);
            return;
        };
        if effects.lost {
            self.stats.lost += 1;
            return;
        }
        let damaged = effects.flipped_bit.and_then(|bit| flipped(datagram.ib, bit));
        self.stats.corrupted += u64::from(damaged.is_some());
        let datagram = Datagram { ib: damaged.as_deref().unwrap_or(datagram.ib), ..*datagram };
        if let Some(overtaken_by) = effects.overtaken_by {
            self.stats.reordered += 1;
            let until = now + effects.delay + LATE_MAX;
            if self.room_for(&datagram) {
                self.late.push(Late { until, overtaken_by, packet: Owned::of(&datagram, datagram.ib.to_vec()) });
            }
        } else {
            self.pass(now, (effects.delay, concerned), &datagram, deliver);
        }
        if effects.doubled {
            self.stats.doubled += 1;
            self.pass(now, (effects.delay, concerned), &datagram, deliver);
        }
    }

    /// Delivers packets that are due by `now`.
    pub fn release(&mut self, now: Instant, deliver: &mut impl FnMut(&Datagram<'_>)) {
        while self.held.peek().is_some_and(|h| h.0.at <= now) {
            if let Some(Reverse(held)) = self.held.pop() {
                self.held_bytes -= held.packet.ib.len();
                deliver(&held.packet.datagram());
                self.overtake(deliver);
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

    fn pass(
        &mut self,
        now: Instant,
        (delay, concerned): (Duration, Concerned),
        datagram: &Datagram<'_>,
        deliver: &mut impl FnMut(&Datagram<'_>),
    ) {
        let at = self.carried_at(now, datagram.ib.len(), concerned) + delay;
        if at <= now {
            deliver(datagram);
            self.overtake(deliver);
        } else if self.room_for(datagram) {
            self.number += 1;
            let packet = Owned::of(datagram, datagram.ib.to_vec());
            self.held.push(Reverse(Held { at, number: self.number, packet }));
        }
    }

    /// Returns when the lines of the requested rates, one after another, have carried these bytes after all before them.
    fn carried_at(&mut self, now: Instant, bytes: usize, concerned: Concerned) -> Instant {
        let limited = |(place, part): &(usize, &mut Part)| concerned & 1 << place != 0 && part.bits_per_second > 0;
        self.parts.iter_mut().enumerate().filter(limited).fold(now, |at, (_, part)| {
            let nanoseconds = u128::from(bytes as u64) * 8 * 1_000_000_000 / u128::from(part.bits_per_second);
            let lasts = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
            part.line_free_at = part.line_free_at.max(at) + lasts;
            part.line_free_at
        })
    }

    /// Counts a delivered packet towards the release of those waiting to be overtaken.
    fn overtake(&mut self, deliver: &mut impl FnMut(&Datagram<'_>)) {
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

/// Returns a copy with one bit changed; `bit` may be any number. An empty packet has none.
fn flipped(ib: &[u8], bit: u64) -> Option<Vec<u8>> {
    let bit = bit.checked_rem(ib.len() as u64 * 8)?;
    let mut ib = ib.to_vec();
    *ib.get_mut((bit / 8) as usize)? ^= 1 << (bit % 8);
    Some(ib)
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
        let mut fault = Fault::new(&FaultPlan::parse(spec).unwrap().packets);
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

    #[test]
    fn losses_in_bursts_are_as_many_and_come_in_runs() {
        let (out, stats) = run("loss=10%,burst=20,seed=3", 200_000);
        assert!((16_000..24_000).contains(&stats.lost), "{stats:?}");
        let arrived: Vec<u32> = out.iter().map(|ib| u32::from_be_bytes(ib[..].try_into().unwrap())).collect();
        let runs = arrived.windows(2).filter(|pair| pair[1] != pair[0] + 1).count() as u64;
        assert!((15..25).contains(&(stats.lost / runs)), "{} losses in {runs} runs", stats.lost);
        assert_eq!(run("loss=100%,burst=5", 50).1.lost, 50);
    }

    #[test]
    fn packets_are_struck_by_number_and_by_time() {
        let numbers = |spec| -> Vec<u32> {
            let (out, _) = run(spec, 10);
            let arrived: Vec<u32> = out.iter().map(|ib| u32::from_be_bytes(ib[..].try_into().unwrap())).collect();
            (0..10).filter(|number| !arrived.contains(number)).collect()
        };
        assert_eq!(numbers("loss=100%,from=3,count=2"), [2, 3]);
        assert_eq!(numbers("loss=100%,from=9"), [8, 9]);
        assert_eq!(numbers("loss=100%,count=1"), [0]);
        // A packet comes each microsecond.
        assert_eq!(numbers("loss=100%,after=4us,for=3us"), [4, 5, 6]);
        assert_eq!(numbers("loss=100%,for=2us"), [0, 1]);
        assert_eq!(numbers("loss=100%,after=8us"), [8, 9]);
    }

    #[test]
    fn kinds_of_packets_are_struck_and_counted_alone() {
        let acknowledge = 0x11;
        let mut fault = Fault::new(&FaultPlan::parse("loss=100%,only=ack,from=2,count=1").unwrap().packets);
        let mut arrived = Vec::new();
        for (number, opcode) in [0x04, acknowledge, 0x0c, acknowledge, acknowledge, 0x64].into_iter().enumerate() {
            fault.admit(Instant(0), &datagram(&[opcode, number as u8]), &mut |d| arrived.push(d.ib[1]));
        }
        assert_eq!(arrived, [0, 1, 2, 4, 5], "the second acknowledgement is lost");
    }

    #[test]
    fn flows_are_struck_and_counted_alone() {
        let mut fault = Fault::new(&FaultPlan::parse("loss=100%,peer=10.0.0.9,from=2,count=1").unwrap().packets);
        let mut arrived = Vec::new();
        for (number, sender) in [9, 1, 9, 9, 1].into_iter().enumerate() {
            let ib = [4, number as u8];
            let from_sender = Datagram { src: IpAddr::from([10, 0, 0, sender]), ..datagram(&ib) };
            fault.admit(Instant(0), &from_sender, &mut |d| arrived.push(d.ib[1]));
        }
        assert_eq!(arrived, [0, 1, 3, 4], "the second packet of the peer is lost");
    }

    #[test]
    fn a_line_carries_bits_at_its_rate() {
        let mut fault = Fault::new(&FaultPlan::parse("rate=8Mbit,delay=1ms").unwrap().packets);
        let mut arrivals = Vec::new();
        for _ in 0..3 {
            fault.admit(Instant(0), &datagram(&[0; 1000]), &mut |_| panic!("it takes time"));
        }
        while let Some(at) = fault.poll_timeout() {
            fault.release(at, &mut |_| arrivals.push(at.0));
        }
        assert_eq!(arrivals, [2_000_000, 3_000_000, 4_000_000]);
        // An idle line is free at once.
        fault.admit(Instant(50_000_000), &datagram(&[0; 1000]), &mut |_| panic!("it takes time"));
        assert_eq!(fault.poll_timeout(), Some(Instant(52_000_000)));
    }

    #[test]
    fn several_faults_add_up_and_leave_each_other_alone() {
        let alone = run("loss=10%,seed=3", 1000).0;
        let with_others = run("dup=0%,corrupt=100%,only=ack;loss=10%,seed=3;delay=1us", 1000).0;
        assert_eq!(alone, with_others, "the draws of one do not depend on the others");
        let (out, _) = run("loss=100%,from=1,count=1;loss=100%,from=5,count=2", 10);
        let arrived: Vec<u32> = out.iter().map(|ib| u32::from_be_bytes(ib[..].try_into().unwrap())).collect();
        assert_eq!(arrived, [1, 2, 3, 6, 7, 8, 9]);
        // Two lines, one after the other: 1 ms and 2 ms.
        let mut fault = Fault::new(&FaultPlan::parse("rate=8Mbit;rate=4Mbit").unwrap().packets);
        fault.admit(Instant(0), &datagram(&[0; 1000]), &mut |_| panic!("it takes time"));
        assert_eq!(fault.poll_timeout(), Some(Instant(3_000_000)));
        fault.remove(1);
        fault.admit(Instant(50_000_000), &datagram(&[0; 1000]), &mut |_| panic!("it takes time"));
        assert_eq!(fault.strikes().collect::<Vec<_>>(), [(2, 2)]);
    }

    #[test]
    fn jitter_delays_each_packet_by_another_time() {
        let mut fault = Fault::new(&FaultPlan::parse("delay=1ms,jitter=1ms,seed=4").unwrap().packets);
        for number in 0..100u8 {
            fault.admit(Instant(0), &datagram(&[number]), &mut |_| panic!("it takes time"));
        }
        let (mut times, mut order) = (Vec::new(), Vec::new());
        while let Some(at) = fault.poll_timeout() {
            fault.release(at, &mut |d| order.push(d.ib[0]));
            times.push(at.0);
        }
        assert!(times.iter().all(|at| (1_000_000..=2_000_000).contains(at)) && times.len() > 90, "{times:?}");
        assert!(!order.is_sorted() && order.len() == 100, "packets overtake each other");
    }
}
