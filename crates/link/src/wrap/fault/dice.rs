//! The faults' random numbers: what happens to each packet.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

use weft_verbs::{Duration, Instant};

use super::scope::{Flow, Struck};
use super::spec::FaultSpec;
use crate::units::PPM_MAX;

/// Maximum number of packets that overtake a late one.
pub const OVERTAKEN_BY_MAX: u64 = 8;

/// Effects of the faults on one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Effects {
    /// It is lost; then nothing else happens to it.
    pub lost: bool,
    /// A bit of it changes: a random number that selects one.
    pub flipped_bit: Option<u64>,
    /// A switch marks it: it met congestion (ECN).
    pub marked: bool,
    /// It arrives twice.
    pub doubled: bool,
    /// It arrives after this many later ones.
    pub overtaken_by: Option<u64>,
    /// It arrives this much later.
    pub delay: Duration,
}

impl Effects {
    /// Adds the effects of another specification.
    #[must_use]
    pub fn and(self, other: Effects) -> Effects {
        Effects {
            lost: self.lost || other.lost,
            flipped_bit: self.flipped_bit.or(other.flipped_bit),
            marked: self.marked || other.marked,
            doubled: self.doubled || other.doubled,
            overtaken_by: self.overtaken_by.max(other.overtaken_by),
            delay: self.delay + other.delay,
        }
    }
}

/// Draws the effects on packet after packet. They depend only on the seed and on the packets before.
#[derive(Debug)]
pub struct Dice {
    spec: FaultSpec,
    numbers: SplitMix64,
    /// Those of congestion marks, apart: a seed still strikes the same packets as before there were marks.
    marks: SplitMix64,
    struck: Struck,
    /// Whether packets are being lost in a row.
    in_burst: bool,
}

impl Dice {
    /// Creates the dice of a specification.
    pub fn new(spec: FaultSpec) -> Dice {
        let numbers = SplitMix64::from_seed(spec.seed.to_le_bytes());
        let marks = SplitMix64::from_seed((!spec.seed).to_le_bytes());
        Dice { spec, numbers, marks, struck: Struck::default(), in_burst: false }
    }

    /// Returns the effects on a packet (BTH first); `None` if the faults do not concern it.
    pub fn roll(&mut self, now: Instant, flow: &Flow, ib: &[u8]) -> Option<Effects> {
        if !self.struck.includes(&self.spec.scope, now, flow, ib) {
            return None;
        }
        // Every number is drawn for every packet, so that one fault's rate does not affect another's draws.
        let spec = self.spec;
        let (lost, corrupt) = (self.is_lost(), self.strikes(spec.corrupt_ppm));
        let (doubled, late) = (self.strikes(spec.dup_ppm), self.strikes(spec.late_ppm(ib)));
        let (bit, distance) = (self.numbers.next_u64(), self.numbers.next_u64() % OVERTAKEN_BY_MAX + 1);
        let marked = self.marks.next_u64() % u64::from(PPM_MAX) < u64::from(spec.ecn_ppm);
        let jitter = self.numbers.next_u64() % (nanoseconds(spec.jitter) + 1);
        Some(Effects {
            lost,
            flipped_bit: corrupt.then_some(bit),
            marked,
            doubled,
            overtaken_by: late.then_some(distance),
            delay: spec.delay + Duration::from_nanos(jitter),
        })
    }

    /// Whether a packet is lost: with bursts, by Gilbert's model, whose two states last so long that the share of lost
    /// packets and the mean length of their runs are as requested.
    fn is_lost(&mut self) -> bool {
        let (loss, burst) = (u64::from(self.spec.loss_ppm), u64::from(self.spec.burst.max(1)));
        let all = u64::from(PPM_MAX);
        let number = self.numbers.next_u64() % all;
        if burst == 1 || loss == all {
            return number < loss;
        }
        self.in_burst = match self.in_burst {
            // It ends with probability 1 / burst.
            true => number * burst >= all,
            // It begins with probability loss / (1 - loss) / burst.
            false => number * burst * (all - loss) < loss * all,
        };
        self.in_burst
    }

    fn strikes(&mut self, ppm: u32) -> bool {
        self.numbers.next_u64() % u64::from(PPM_MAX) < u64::from(ppm)
    }
}

/// Returns a time that [`super::spec::DELAY_MAX`] bounds.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(0)
}
