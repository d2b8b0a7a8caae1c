//! Faults of one program on queue pair 1, which all programs share: drops, duplicates or delays datagrams for a program
//! that requests faults (`WEFT_FAULT`), and no other program's datagrams. A corrupted datagram counts as lost, since
//! its ICRC fails.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};
use std::collections::BTreeMap;
use std::time::Instant;

use weft_link::FaultSpec;
use weft_link::wrap::fault::LATE_MAX;
use weft_mad::{GmpAddress, MadBytes};

use crate::slots::ClientId;

/// Maximum number of datagrams held back; more are lost, as in a queue that overflows.
const HELD_MAX: usize = 4096;

/// Random generator of each program, and the datagrams held back.
#[derive(Debug, Default)]
pub struct SessionFaults {
    dice: BTreeMap<ClientId, SplitMix64>,
    /// By arrival time and sequence number.
    held: BTreeMap<(Instant, u64), (GmpAddress, MadBytes)>,
    number: u64,
}

impl SessionFaults {
    /// Takes in a datagram for this program; [`SessionFaults::poll`] returns what the faults leave of it.
    pub fn admit(&mut self, now: Instant, client: ClientId, spec: &FaultSpec, from: &GmpAddress, mad: &MadBytes) {
        let dice = self.dice.entry(client).or_insert_with(|| SplitMix64::from_seed(spec.seed.to_le_bytes()));
        let mut strikes = |ppm: u32| dice.next_u64() % 1_000_000 < u64::from(ppm);
        let (lost, damaged) = (strikes(spec.loss_ppm), strikes(spec.corrupt_ppm));
        let (doubled, late) = (strikes(spec.dup_ppm), strikes(spec.reorder_ppm));
        if lost || damaged {
            return;
        }
        let at = now + spec.delay + if late { LATE_MAX } else { std::time::Duration::ZERO };
        for _ in 0..=usize::from(doubled) {
            if self.held.len() < HELD_MAX {
                self.number += 1;
                self.held.insert((at, self.number), (*from, *mad));
            }
        }
    }

    /// Returns the next datagram that arrives by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<(GmpAddress, MadBytes)> {
        let first = self.held.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }

    /// Returns when [`SessionFaults::poll`] has a datagram.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.held.first_key_value().map(|((at, _), _)| *at)
    }

    /// Removes a program's state.
    pub fn forget(&mut self, client: ClientId) {
        self.dice.remove(&client);
    }
}
