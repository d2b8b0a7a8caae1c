//! Fault injection: `WEFT_FAULT="loss=1%,reorder=2%,dup=1%,corrupt=0.1%,delay=1ms,seed=7"`. Random numbers decide which
//! packets are lost, damaged, duplicated or delayed: of those that arrive, or of those that leave. They depend only on the
//! seed and on the number of packets before, so a run can be repeated as far as its packets come in the same order. Damage
//! happens before the receiver's ICRC check, so that it tests the check. Several specifications may apply at a time, each
//! with random numbers of its own.

mod dice;
mod held;
mod leaving;
mod plan;
mod received;
mod scope;
mod spec;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weft_verbs::{Duration, Instant};

pub use dice::{Dice, Effects, OVERTAKEN_BY_MAX};
pub use held::Kept;
use held::{Held, Late};
pub use leaving::{Batches, Leaving, LeavingCopy};
pub use plan::{FAULTS_BYTES_MAX, FAULTS_MAX, FaultPlan, FaultPlanError};
pub use received::Received;
pub use scope::{Flow, FlowSet, PacketKinds, Scope};
pub use spec::{FaultSpec, FaultSpecError};

/// Maximum number of bytes held back; packets beyond it are lost, as in a queue that overflows.
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
    /// Packets marked as having met congestion.
    pub marked: u64,
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

/// The fault injector of one direction.
#[derive(Debug)]
pub struct Fault<K> {
    /// At most one for each bit of [`Concerned`].
    parts: Vec<Part>,
    number: u64,
    held: BinaryHeap<Reverse<Held<K>>>,
    late: Vec<Late<K>>,
    held_bytes: usize,
    /// Counters.
    pub stats: FaultStats,
}

impl<K> Default for Fault<K> {
    fn default() -> Fault<K> {
        let (parts, held, late) = (Vec::new(), BinaryHeap::new(), Vec::new());
        Fault { parts, number: 0, held, late, held_bytes: 0, stats: FaultStats::default() }
    }
}

impl<K: Kept> Fault<K> {
    /// Makes an injector for numbered specifications.
    pub fn new(specs: &[(u32, FaultSpec)]) -> Fault<K> {
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

    /// Whether no specification is in force, and no packet held back.
    pub fn is_idle(&self) -> bool {
        self.parts.is_empty() && self.held.is_empty() && self.late.is_empty()
    }

    /// Draws the effects of all specifications on a packet; `None` if none concerns it.
    fn roll(&mut self, now: Instant, packet: &K::View<'_>) -> Option<(Effects, Concerned)> {
        let flow = K::flow(packet);
        let (mut all, mut concerned) = (Effects::default(), 0);
        for (place, part) in self.parts.iter_mut().enumerate() {
            let Some(effects) = part.dice.roll(now, &flow, K::bytes(packet)) else { continue };
            part.struck += u64::from(effects != Effects::default() || part.bits_per_second > 0);
            all = all.and(effects);
            concerned |= 1 << place;
        }
        (concerned != 0).then_some((all, concerned))
    }

    /// Handles a packet: `deliver` gets the packets that result now, and those that it overtook.
    pub fn admit(&mut self, now: Instant, packet: &K::View<'_>, deliver: &mut impl FnMut(&K::View<'_>)) {
        let Some((effects, concerned)) = self.roll(now, packet) else {
            deliver(packet);
            self.overtake(deliver);
            return;
        };
        if effects.lost {
            self.stats.lost += 1;
            return;
        }
        if effects.flipped_bit.is_none() && !effects.marked {
            return self.carry(now, &effects, concerned, packet, deliver);
        }
        let mut changed = K::of(packet);
        self.stats.corrupted += u64::from(effects.flipped_bit.is_some_and(|bit| changed.flip(bit)));
        if effects.marked {
            self.stats.marked += 1;
            changed.mark();
        }
        self.carry(now, &effects, concerned, &changed.view(), deliver);
    }

    /// Delivers a packet as its effects say, once or twice, now or later.
    fn carry(
        &mut self,
        now: Instant,
        effects: &Effects,
        concerned: Concerned,
        packet: &K::View<'_>,
        deliver: &mut impl FnMut(&K::View<'_>),
    ) {
        if let Some(overtaken_by) = effects.overtaken_by {
            self.stats.reordered += 1;
            let until = now + effects.delay + LATE_MAX;
            if self.room_for(packet) {
                self.late.push(Late { until, overtaken_by, packet: K::of(packet) });
            }
        } else {
            self.pass(now, (effects.delay, concerned), packet, deliver);
        }
        if effects.doubled {
            self.stats.doubled += 1;
            self.pass(now, (effects.delay, concerned), packet, deliver);
        }
    }

    /// Delivers packets that are due by `now`, about so many at most. Returns whether it delivered all.
    pub fn release_some(&mut self, now: Instant, max: usize, deliver: &mut impl FnMut(&K::View<'_>)) -> bool {
        let mut room = max;
        let mut has_room = || {
            let before = room;
            room = room.saturating_sub(1);
            before > 0
        };
        self.release_while(now, &mut has_room, deliver);
        self.poll_timeout().is_none_or(|at| at > now)
    }

    /// Delivers packets that are due by `now`.
    pub fn release(&mut self, now: Instant, deliver: &mut impl FnMut(&K::View<'_>)) {
        self.release_while(now, || true, deliver);
    }

    fn release_while(
        &mut self,
        now: Instant,
        mut has_room: impl FnMut() -> bool,
        deliver: &mut impl FnMut(&K::View<'_>),
    ) {
        while self.held.peek().is_some_and(|h| h.0.at <= now) && has_room() {
            if let Some(Reverse(held)) = self.held.pop() {
                self.held_bytes -= cost::<K>(&held.packet.view());
                deliver(&held.packet.view());
                self.overtake(deliver);
            }
        }
        let mut index = 0;
        while index < self.late.len() {
            if self.late[index].until <= now && has_room() {
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

    fn room_for(&mut self, packet: &K::View<'_>) -> bool {
        let fits = self.held_bytes + cost::<K>(packet) <= HELD_BYTES_MAX;
        match fits {
            true => self.held_bytes += cost::<K>(packet),
            false => self.stats.overflowed += 1,
        }
        fits
    }

    fn pass(
        &mut self,
        now: Instant,
        (delay, concerned): (Duration, Concerned),
        packet: &K::View<'_>,
        deliver: &mut impl FnMut(&K::View<'_>),
    ) {
        let at = self.carried_at(now, K::len(packet), concerned) + delay;
        if at <= now {
            deliver(packet);
            self.overtake(deliver);
        } else if self.room_for(packet) {
            self.number += 1;
            self.held.push(Reverse(Held { at, number: self.number, packet: K::of(packet) }));
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
    fn overtake(&mut self, deliver: &mut impl FnMut(&K::View<'_>)) {
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

    fn arrive(&mut self, index: usize, deliver: &mut impl FnMut(&K::View<'_>)) {
        let late = self.late.remove(index);
        self.held_bytes -= cost::<K>(&late.packet.view());
        deliver(&late.packet.view());
    }
}

/// Returns the bytes that a packet takes while it is held back.
fn cost<K: Kept>(packet: &K::View<'_>) -> usize {
    size_of::<K>() + K::len(packet)
}

#[cfg(test)]
mod tests;
