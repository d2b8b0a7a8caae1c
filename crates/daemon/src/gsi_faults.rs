//! Faults of one program on queue pair 1, which all programs share: drops, duplicates or delays datagrams for or of a
//! program that requests faults (`WEFT_FAULT`), and no other program's datagrams. A corrupted datagram counts as lost,
//! since its ICRC fails.

use std::collections::BTreeMap;
use std::time::Instant;

use weft_link::FaultSpec;
use weft_link::wrap::fault::{Dice, Effects, Flow, LATE_MAX};
use weft_mad::{GmpAddress, MadBytes};
use weft_wire::mad::GSI_QPN;
use weft_wire::opcode::{Kind, Opcode, Service};
use weft_wire::pcapng::Direction;

use crate::slots::ClientId;

/// Maximum number of datagrams of one program held back; more are lost, as in a queue that overflows.
const HELD_MAX: usize = 4096;

/// A program's faults, and the random numbers of those in one direction since its first datagram.
#[derive(Debug)]
struct Draws {
    begun: Instant,
    faults: Vec<(u32, FaultSpec)>,
    dice: Vec<Dice>,
    /// Its datagrams that are held back.
    held: usize,
}

impl Draws {
    fn new(now: Instant, direction: Direction, faults: &[(u32, FaultSpec)]) -> Draws {
        let strike_here = faults.iter().filter(|(_, fault)| fault.scope.direction == direction);
        let dice = strike_here.map(|(_, fault)| Dice::new(*fault)).collect();
        Draws { begun: now, faults: faults.to_vec(), dice, held: 0 }
    }
}

/// Random numbers of each program in one direction, and the datagrams held back.
#[derive(Debug)]
pub struct SessionFaults {
    direction: Direction,
    draws: BTreeMap<ClientId, Draws>,
    /// By arrival time and sequence number.
    held: BTreeMap<(Instant, u64), (ClientId, GmpAddress, MadBytes)>,
    number: u64,
}

impl SessionFaults {
    /// Makes the faults of datagrams that arrive, or of those that leave.
    pub fn new(direction: Direction) -> SessionFaults {
        SessionFaults { direction, draws: BTreeMap::new(), held: BTreeMap::new(), number: 0 }
    }

    /// Takes in a datagram of this program and the address of its other end; [`SessionFaults::poll`] returns what the faults
    /// leave of it. No line limits its rate.
    pub fn admit(
        &mut self,
        now: Instant,
        client: ClientId,
        faults: &[(u32, FaultSpec)],
        peer: &GmpAddress,
        mad: &MadBytes,
    ) {
        let draws = self.draws.entry(client).or_insert_with(|| Draws::new(now, self.direction, faults));
        if draws.faults != faults {
            *draws = Draws::new(now, self.direction, faults);
        }
        let nanoseconds = u64::try_from(now.duration_since(draws.begun).as_nanos()).unwrap_or(u64::MAX);
        let opcode = Opcode::of(Service::Ud, Kind::SendOnly).map(|opcode| opcode.0);
        let at = weft_verbs::Instant(nanoseconds);
        let flow = Flow { peer: peer.dgid.ip(), local: peer.sgid.ip(), qpn: Some(GSI_QPN) };
        let rolled = draws.dice.iter_mut().filter_map(|dice| dice.roll(at, &flow, opcode.as_slice()));
        let effects = rolled.fold(Effects::default(), Effects::and);
        if effects.lost || effects.flipped_bit.is_some() {
            return;
        }
        let late = if effects.overtaken_by.is_some() { LATE_MAX } else { std::time::Duration::ZERO };
        for _ in 0..=usize::from(effects.doubled) {
            if draws.held < HELD_MAX {
                draws.held += 1;
                self.number += 1;
                self.held.insert((now + effects.delay + late, self.number), (client, *peer, *mad));
            }
        }
    }

    /// Returns the next datagram that is due by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<(GmpAddress, MadBytes)> {
        let first = self.held.first_entry().filter(|first| first.key().0 <= now)?;
        let (client, peer, mad) = first.remove();
        if let Some(draws) = self.draws.get_mut(&client) {
            draws.held = draws.held.saturating_sub(1);
        }
        Some((peer, mad))
    }

    /// Returns when [`SessionFaults::poll`] has a datagram.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.held.first_key_value().map(|((at, _), _)| *at)
    }

    /// Removes a program's state.
    pub fn forget(&mut self, client: ClientId) {
        self.draws.remove(&client);
    }
}
