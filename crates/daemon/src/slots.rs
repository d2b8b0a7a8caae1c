//! Slots: the parts of the QP number space, and the processes that have them. Slot 0 is the daemon's.
//!
//! The table reuses a slot as late as possible, so that packets on their way to a dead process reach no other. A slot
//! changes its user only after a quarantine, and only once the process that had it is dead: its sockets outlive it, and a
//! program of that user could still read them. A user's share counts slots in use and in quarantine alike, so that many
//! short processes of a few users cannot lock out the others; the last slots are root's alone.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::limits::{POOL_SLOTS_MAX, POOL_SLOTS_RESTED, SLOTS_FAIR_MAX, SLOTS_FOR_ROOT};

/// Number of a client within the daemon; never used twice.
pub type ClientId = u64;

/// The user that a free slot belonged to, and since when it is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Last {
    uid: u32,
    since: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The daemon's own.
    Daemon,
    /// Without a process.
    Free { last: Option<Last> },
    /// A process's.
    Owned { client: ClientId, uid: u32 },
    /// Of a process that outlived the last daemon and has not shown up yet.
    Waiting { uid: u32 },
}

/// A slot as a successor of this daemon needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedSlot {
    /// Number.
    pub slot: u32,
    /// Its user, or the last one.
    pub uid: u32,
    /// Whether a process has it.
    pub owned: bool,
}

/// The rules by which slots are given out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotRules {
    /// Slots of the pool at first.
    pub initial: u32,
    /// Slots that one user may have; root may have all.
    pub per_user_max: u32,
    /// How long a free slot stays its last user's.
    pub quarantine: Duration,
    /// How long a slot rests before its own user gets it again, as long as the pool is small and can grow instead.
    pub rest: Duration,
}

/// What to do for a process that wants one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// This one can be had.
    Take(u32),
    /// None of the pool can be had: make the pool this large and ask again.
    GrowTo(u32),
    /// None: the rest is for other users, or in quarantine after them, or the pool is as large as it can be.
    Exhausted,
}

/// All slots of the pool.
#[derive(Clone, Debug, Default)]
pub struct SlotTable {
    states: Vec<State>,
    /// The free ones, the one that is free for longest first.
    free: VecDeque<u32>,
}

impl SlotTable {
    /// Number of slots.
    pub fn len(&self) -> u32 {
        self.states.len() as u32
    }

    /// Whether there is no pool yet.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Slots that processes have or may come back for.
    pub fn in_use(&self) -> u32 {
        self.states.iter().filter(|state| matches!(state, State::Owned { .. } | State::Waiting { .. })).count() as u32
    }

    /// Slots that processes of this user have.
    pub fn in_use_by(&self, uid: u32) -> u32 {
        let theirs = |state: &&State| matches!(state, State::Owned { uid: other, .. } | State::Waiting { uid: other } if *other == uid);
        self.states.iter().filter(theirs).count() as u32
    }

    /// The pool has this many slots now.
    pub fn grow_to(&mut self, count: u32) {
        for slot in self.len()..count.min(POOL_SLOTS_MAX) {
            if slot == 0 {
                self.states.push(State::Daemon);
            } else {
                self.states.push(State::Free { last: None });
                self.free.push_back(slot);
            }
        }
    }

    /// Chooses a slot for a process of this user. `abandoned` tells whether the process that had a slot last is dead.
    pub fn choose(&self, now: Instant, uid: u32, rules: &SlotRules, abandoned: impl Fn(u32) -> bool) -> Choice {
        let may_spread = self.may_spread(now, uid, rules);
        let is_small = self.len() < POOL_SLOTS_RESTED;
        let free_for = |last: Last| now.saturating_duration_since(last.since);
        let fits = |slot: &&u32| match self.states.get(**slot as usize) {
            Some(State::Free { last: Some(last) }) if last.uid == uid => {
                let rested = !(is_small && may_spread) || free_for(*last) >= rules.rest;
                rested && (may_spread || is_quarantined(*last, now, rules))
            }
            // Root has no need to listen in on others.
            Some(State::Free { last: Some(last) }) if last.uid == 0 => may_spread,
            Some(State::Free { last: Some(last) }) => {
                may_spread && !is_quarantined(*last, now, rules) && abandoned(**slot)
            }
            _ => false,
        };
        // Slots never used come first, also those that the pool grew by later.
        let is_fresh = |slot: &&u32| matches!(self.states.get(**slot as usize), Some(State::Free { last: None }));
        let fresh = self.free.iter().filter(is_fresh).find(|_| may_spread);
        match fresh.or_else(|| self.free.iter().find(fits)) {
            Some(&slot) => Choice::Take(slot),
            None if !may_spread || self.len() >= POOL_SLOTS_MAX => Choice::Exhausted,
            None => Choice::GrowTo((self.len() * 2).clamp(rules.initial, POOL_SLOTS_MAX)),
        }
    }

    /// Whether a user may have one slot more than those that it uses and those in quarantine after it: it stays below its
    /// quota, below what is left to all others, and out of root's reserve.
    fn may_spread(&self, now: Instant, uid: u32, rules: &SlotRules) -> bool {
        if uid == 0 {
            return true;
        }
        let mut taken: BTreeMap<u32, u32> = BTreeMap::new();
        for state in &self.states {
            match *state {
                State::Owned { uid, .. } | State::Waiting { uid } => *taken.entry(uid).or_default() += 1,
                State::Free { last: Some(last) } if is_quarantined(last, now, rules) => {
                    *taken.entry(last.uid).or_default() += 1;
                }
                _ => {}
            }
        }
        let own = taken.get(&uid).copied().unwrap_or(0);
        let left = (POOL_SLOTS_MAX - 1).saturating_sub(taken.values().sum()).saturating_sub(SLOTS_FOR_ROOT);
        // An administrator who lets one user have more than that means it.
        let share = if rules.per_user_max > SLOTS_FAIR_MAX { u32::MAX } else { left };
        left > 0 && own < rules.per_user_max.max(SLOTS_FAIR_MAX).min(share)
    }

    /// Gives a slot to a process.
    pub fn own(&mut self, slot: u32, client: ClientId, uid: u32) {
        if let Some(state) = self.states.get_mut(slot as usize) {
            *state = State::Owned { client, uid };
            self.free.retain(|&other| other != slot);
        }
    }

    /// Takes it back.
    pub fn release(&mut self, now: Instant, slot: u32) {
        if let Some(state) = self.states.get_mut(slot as usize)
            && let State::Owned { uid, .. } | State::Waiting { uid } = *state
        {
            *state = State::Free { last: Some(Last { uid, since: now }) };
            self.free.push_back(slot);
        }
    }

    /// Whether a process of this user that says it has this slot from a daemon that died may have it: it waits for the
    /// user, or it was taken back and nobody else had it since.
    pub fn may_come_back(&self, slot: u32, uid: u32) -> bool {
        match self.states.get(slot as usize) {
            Some(State::Waiting { uid: waiting }) => *waiting == uid,
            Some(State::Free { last }) => last.is_some_and(|last| last.uid == uid),
            _ => false,
        }
    }

    /// Slots that wait for their process.
    pub fn waiting(&self) -> Vec<u32> {
        (0..)
            .zip(&self.states)
            .filter_map(|(slot, state)| matches!(state, State::Waiting { .. }).then_some(slot))
            .collect()
    }

    /// What a successor needs.
    pub fn save(&self) -> Vec<SavedSlot> {
        let saved = |(slot, state): (u32, &State)| match *state {
            State::Owned { uid, .. } | State::Waiting { uid } => Some(SavedSlot { slot, uid, owned: true }),
            State::Free { last: Some(Last { uid, .. }) } => Some(SavedSlot { slot, uid, owned: false }),
            State::Daemon | State::Free { last: None } => None,
        };
        (0..).zip(&self.states).filter_map(saved).collect()
    }

    /// Goes on with a predecessor's pool of this size; quarantines begin anew.
    pub fn restore(now: Instant, count: u32, saved: &[SavedSlot]) -> SlotTable {
        let mut table = SlotTable::default();
        table.grow_to(count);
        // A slot that is named twice is taken for owned if one of them says so: its sockets may be open.
        let mut by_slot: BTreeMap<u32, &SavedSlot> = BTreeMap::new();
        for saved in saved {
            let known = by_slot.entry(saved.slot).or_insert(saved);
            if saved.owned {
                *known = saved;
            }
        }
        for (&slot, saved) in by_slot.range(1..count.max(1)) {
            if let Some(state) = table.states.get_mut(slot as usize) {
                *state = match saved.owned {
                    true => State::Waiting { uid: saved.uid },
                    false => State::Free { last: Some(Last { uid: saved.uid, since: now }) },
                };
            }
            table.free.retain(|&other| other != slot);
            if !saved.owned {
                table.free.push_back(slot);
            }
        }
        table
    }
}

/// Whether a free slot is still its last user's. Root's slots need no quarantine.
fn is_quarantined(last: Last, now: Instant, rules: &SlotRules) -> bool {
    last.uid != 0 && now.saturating_duration_since(last.since) < rules.quarantine
}

#[cfg(test)]
mod tests;
