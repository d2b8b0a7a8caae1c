//! Slots: who has which part of the QP number space. Slot 0 is the daemon's. A slot is reused as late as possible, so
//! that packets on their way to a dead process meet nobody, and never by another user: a program could have kept a
//! duplicate of the slot's sockets and would read the packets of whoever comes after it.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::limits::POOL_SLOTS_MAX;

/// Number of a client within the daemon; never used twice.
pub type ClientId = u64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The daemon's own.
    Daemon,
    /// Nobody's; the user who had it last, if any.
    Free { last_uid: Option<u32> },
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

/// What to do for a process that wants one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// This one can be had.
    Take(u32),
    /// None of the pool can be had: make the pool this large and ask again.
    GrowTo(u32),
    /// None, and the pool is as large as it can be.
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
                self.states.push(State::Free { last_uid: None });
                self.free.push_back(slot);
            }
        }
    }

    /// What can be had for a process of this user.
    pub fn choose(&self, uid: u32, initial: u32) -> Choice {
        let fits = |slot: &&u32| match self.states.get(**slot as usize) {
            // Root has no need to listen in on others.
            Some(State::Free { last_uid }) => last_uid.is_none_or(|last| last == uid || last == 0),
            _ => false,
        };
        match self.free.iter().find(fits) {
            Some(&slot) => Choice::Take(slot),
            None if self.len() >= POOL_SLOTS_MAX => Choice::Exhausted,
            None => Choice::GrowTo((self.len() * 2).clamp(initial, POOL_SLOTS_MAX)),
        }
    }

    /// Gives a slot to a process.
    pub fn own(&mut self, slot: u32, client: ClientId, uid: u32) {
        if let Some(state) = self.states.get_mut(slot as usize) {
            *state = State::Owned { client, uid };
            self.free.retain(|&other| other != slot);
        }
    }

    /// Takes it back.
    pub fn release(&mut self, slot: u32) {
        if let Some(state) = self.states.get_mut(slot as usize)
            && let State::Owned { uid, .. } | State::Waiting { uid } = *state
        {
            *state = State::Free { last_uid: Some(uid) };
            self.free.push_back(slot);
        }
    }

    /// Whether a process of this user that says it has this slot from a daemon that died may have it: it waits for the
    /// user, or it was taken back and nobody else had it since.
    pub fn may_come_back(&self, slot: u32, uid: u32) -> bool {
        match self.states.get(slot as usize) {
            Some(State::Waiting { uid: waiting }) => *waiting == uid,
            Some(State::Free { last_uid }) => *last_uid == Some(uid),
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
            State::Free { last_uid: Some(uid) } => Some(SavedSlot { slot, uid, owned: false }),
            State::Daemon | State::Free { last_uid: None } => None,
        };
        (0..).zip(&self.states).filter_map(saved).collect()
    }

    /// Goes on with a predecessor's pool of this size.
    pub fn restore(count: u32, saved: &[SavedSlot]) -> SlotTable {
        let mut table = SlotTable::default();
        table.grow_to(count);
        let by_slot: BTreeMap<u32, &SavedSlot> = saved.iter().map(|saved| (saved.slot, saved)).collect();
        for (&slot, saved) in by_slot.range(1..count.max(1)) {
            if let Some(state) = table.states.get_mut(slot as usize) {
                *state = match saved.owned {
                    true => State::Waiting { uid: saved.uid },
                    false => State::Free { last_uid: Some(saved.uid) },
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

#[cfg(test)]
mod tests {
    use super::*;

    fn take(table: &mut SlotTable, uid: u32) -> u32 {
        match table.choose(uid, 4) {
            Choice::Take(slot) => {
                table.own(slot, 1, uid);
                slot
            }
            Choice::GrowTo(count) => {
                table.grow_to(count);
                take(table, uid)
            }
            Choice::Exhausted => panic!("exhausted"),
        }
    }

    #[test]
    fn fresh_slots_first_then_the_one_longest_free() {
        let mut table = SlotTable::default();
        assert_eq!(table.choose(7, 4), Choice::GrowTo(4));
        assert_eq!([take(&mut table, 7), take(&mut table, 7)], [1, 2]);
        table.release(2);
        table.release(1);
        assert_eq!([take(&mut table, 7), take(&mut table, 7), take(&mut table, 7)], [3, 2, 1]);
        assert_eq!(table.in_use_by(7), 3);
        assert_eq!(table.choose(7, 4), Choice::GrowTo(8));
        assert_eq!(table.len(), 4);
    }

    #[test]
    fn no_slot_goes_from_one_user_to_another() {
        let mut table = SlotTable::default();
        table.grow_to(2);
        assert_eq!(take(&mut table, 7), 1);
        table.release(1);
        assert_eq!(table.choose(8, 2), Choice::GrowTo(4));
        assert_eq!(table.choose(0, 2), Choice::GrowTo(4));
        assert_eq!(table.choose(7, 2), Choice::Take(1));
        table.own(1, 1, 0);
        table.release(1);
        assert_eq!(table.choose(8, 2), Choice::Take(1));
    }

    #[test]
    fn the_pool_ends() {
        let mut table = SlotTable::default();
        for expected in 1..POOL_SLOTS_MAX {
            assert_eq!(take(&mut table, 7), expected);
        }
        assert_eq!(table.choose(7, 4), Choice::Exhausted);
        table.release(500);
        assert_eq!(table.choose(8, 4), Choice::Exhausted);
        assert_eq!(table.choose(7, 4), Choice::Take(500));
    }

    #[test]
    fn a_successor_goes_on() {
        let mut table = SlotTable::default();
        for _ in 0..5 {
            take(&mut table, 7);
        }
        table.release(2);
        let restored = SlotTable::restore(table.len(), &table.save());
        assert_eq!(restored.waiting(), [1, 3, 4, 5]);
        assert!(restored.may_come_back(3, 7));
        assert!(!restored.may_come_back(3, 8));
        assert!(!restored.may_come_back(0, 7));
        assert!(restored.may_come_back(2, 7), "freed by mistake, and not reused yet");
        // The fresh ones come before the one that was used.
        assert_eq!(restored.choose(7, 4), Choice::Take(6));
        assert!(SlotTable::restore(0, &table.save()).waiting().is_empty());
    }
}
