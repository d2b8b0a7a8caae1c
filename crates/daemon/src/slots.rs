//! Slots: parts of the QP number space, and the processes that own them. Slot 0 is the daemon's.
//!
//! The table reuses a slot as late as possible, so that packets on their way to a dead process reach no other process.
//! A slot changes its user only after a quarantine, and only once its last process is dead: the sockets outlive the
//! connection, and a program of that user could still read them. A user's share counts slots in use and in quarantine
//! alike, so that many short processes of a few users cannot lock out others; the last slots are for root alone.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::limits::{POOL_SLOTS_MAX, POOL_SLOTS_RESTED, SLOTS_FAIR_MAX, SLOTS_FOR_ROOT};

/// Number of a client within the daemon; never reused.
pub type ClientId = u64;

/// Last user of a free slot, and since when it is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Last {
    uid: u32,
    since: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The daemon's own slot.
    Daemon,
    /// A slot without a process.
    Free { last: Option<Last> },
    /// A slot of a process.
    Owned { client: ClientId, uid: u32 },
    /// A slot of a process that outlived the last daemon and has not returned yet.
    Waiting { uid: u32 },
}

/// A slot as saved for a successor of this daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedSlot {
    /// Slot number.
    pub slot: u32,
    /// Its user, or its last one.
    pub uid: u32,
    /// Whether a process has it.
    pub owned: bool,
}

/// Rules for allocating slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotRules {
    /// Initial slots of the pool.
    pub initial: u32,
    /// Slots that one user may have; root may have all.
    pub per_user_max: u32,
    /// How long a free slot stays reserved for its last user.
    pub quarantine: Duration,
    /// How long a slot rests before its own user gets it again, as long as the pool is small and can grow instead.
    pub rest: Duration,
}

/// Choice for a process that wants a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Take this slot.
    Take(u32),
    /// No slot of the pool is available: grow the pool to this size and ask again.
    GrowTo(u32),
    /// No slot: the rest is for other users, or in quarantine after them, or the pool has its maximum size.
    Exhausted,
}

/// All slots of the pool.
#[derive(Clone, Debug, Default)]
pub struct SlotTable {
    states: Vec<State>,
    /// Free slots, longest free first.
    free: VecDeque<u32>,
}

impl SlotTable {
    /// Returns the number of slots.
    pub fn len(&self) -> u32 {
        self.states.len() as u32
    }

    /// Returns whether there is no pool yet.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Returns how many slots processes own or may reclaim.
    pub fn in_use(&self) -> u32 {
        self.states.iter().filter(|state| matches!(state, State::Owned { .. } | State::Waiting { .. })).count() as u32
    }

    /// Returns how many slots the processes of this user own.
    pub fn in_use_by(&self, uid: u32) -> u32 {
        let theirs = |state: &&State| matches!(state, State::Owned { uid: other, .. } | State::Waiting { uid: other } if *other == uid);
        self.states.iter().filter(theirs).count() as u32
    }

    /// Notes that the pool now has this many slots.
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

    /// Chooses a slot for a process of this user. `abandoned` returns whether the last process of a slot is dead.
    pub fn choose(&self, now: Instant, uid: u32, rules: &SlotRules, abandoned: impl Fn(u32) -> bool) -> Choice {
        let may_spread = self.may_spread(now, uid, rules);
        let is_small = self.len() < POOL_SLOTS_RESTED;
        let free_for = |last: Last| now.saturating_duration_since(last.since);
        let fits = |slot: &&u32| match self.states.get(**slot as usize) {
            Some(State::Free { last: Some(last) }) if last.uid == uid => {
                let rested = !(is_small && may_spread) || free_for(*last) >= rules.rest;
                rested && (may_spread || is_quarantined(*last, now, rules))
            }
            // Root has no reason to eavesdrop on other users.
            Some(State::Free { last: Some(last) }) if last.uid == 0 => may_spread,
            Some(State::Free { last: Some(last) }) => {
                may_spread && !is_quarantined(*last, now, rules) && abandoned(**slot)
            }
            _ => false,
        };
        // Slots never used come first, including those added by later growth.
        let is_fresh = |slot: &&u32| matches!(self.states.get(**slot as usize), Some(State::Free { last: None }));
        let fresh = self.free.iter().filter(is_fresh).find(|_| may_spread);
        match fresh.or_else(|| self.free.iter().find(fits)) {
            Some(&slot) => Choice::Take(slot),
            None if !may_spread || self.len() >= POOL_SLOTS_MAX => Choice::Exhausted,
            None => Choice::GrowTo((self.len() * 2).clamp(rules.initial, POOL_SLOTS_MAX)),
        }
    }

    /// Returns whether a user may take one more slot: its slots in use and in quarantine stay below its quota, below
    /// the share left to all others, and out of root's reserve.
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
        // An administrator who sets a larger quota than that wants it to apply.
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

    /// Takes a slot back from its process.
    pub fn release(&mut self, now: Instant, slot: u32) {
        if let Some(state) = self.states.get_mut(slot as usize)
            && let State::Owned { uid, .. } | State::Waiting { uid } = *state
        {
            *state = State::Free { last: Some(Last { uid, since: now }) };
            self.free.push_back(slot);
        }
    }

    /// Returns whether a process of this user may reclaim a slot from a dead daemon: the slot waits for the user, or it
    /// was freed and no other user has had it since.
    pub fn may_come_back(&self, slot: u32, uid: u32) -> bool {
        match self.states.get(slot as usize) {
            Some(State::Waiting { uid: waiting }) => *waiting == uid,
            Some(State::Free { last }) => last.is_some_and(|last| last.uid == uid),
            _ => false,
        }
    }

    /// Returns the slots that wait for their process.
    pub fn waiting(&self) -> Vec<u32> {
        (0..)
            .zip(&self.states)
            .filter_map(|(slot, state)| matches!(state, State::Waiting { .. }).then_some(slot))
            .collect()
    }

    /// Returns the state for a successor.
    pub fn save(&self) -> Vec<SavedSlot> {
        let saved = |(slot, state): (u32, &State)| match *state {
            State::Owned { uid, .. } | State::Waiting { uid } => Some(SavedSlot { slot, uid, owned: true }),
            State::Free { last: Some(Last { uid, .. }) } => Some(SavedSlot { slot, uid, owned: false }),
            State::Daemon | State::Free { last: None } => None,
        };
        (0..).zip(&self.states).filter_map(saved).collect()
    }

    /// Restores a predecessor's pool of this size; quarantines start over.
    pub fn restore(now: Instant, count: u32, saved: &[SavedSlot]) -> SlotTable {
        let mut table = SlotTable::default();
        table.grow_to(count);
        // A slot listed twice counts as owned if either entry says so: its sockets may be open.
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

/// Returns whether a free slot is still reserved for its last user. Root's slots need no quarantine.
fn is_quarantined(last: Last, now: Instant, rules: &SlotRules) -> bool {
    last.uid != 0 && now.saturating_duration_since(last.since) < rules.quarantine
}

#[cfg(test)]
mod tests;
