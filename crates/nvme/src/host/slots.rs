//! Slots of a queue: each command in progress has one. Its identifier is the slot's index and the slot's generation, so that a
//! completion of an earlier command, or a forged one, names no command in progress.
//!
//! ```text
//! | generation (9 bits) | index (7 bits) |
//! ```

use std::collections::VecDeque;

use crate::limits::QUEUE_ENTRIES_MAX;

const INDEX_BITS: u32 = 7;
const INDEX_MASK: u16 = (1 << INDEX_BITS) - 1;

const _: () = assert!(QUEUE_ENTRIES_MAX <= 1 << INDEX_BITS);

#[derive(Clone, Debug)]
struct Slot<T> {
    generation: u16,
    command: Option<T>,
}

/// Slots with the commands in progress.
#[derive(Clone, Debug)]
pub struct Slots<T> {
    slots: Vec<Slot<T>>,
    /// Unused slots, the longest unused one first: an identifier comes back as late as possible.
    free: VecDeque<u16>,
}

impl<T> Slots<T> {
    /// Creates slots for a queue of so many entries: one entry stays empty, so that a full queue differs from an empty one
    /// (NVM Express 1.4 §4.1.2).
    pub fn new(entries: u16) -> Slots<T> {
        let count = entries.clamp(2, QUEUE_ENTRIES_MAX) - 1;
        Slots { slots: (0..count).map(|_| Slot { generation: 0, command: None }).collect(), free: (0..count).collect() }
    }

    /// Number of commands in progress.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether another command fits.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Puts a command into a slot, and returns its identifier. `None`: all slots are in use.
    pub fn put(&mut self, command: T) -> Option<u16> {
        let index = self.free.pop_front()?;
        let slot = self.slots.get_mut(usize::from(index))?;
        slot.command = Some(command);
        Some(slot.generation << INDEX_BITS | index)
    }

    /// Returns a command in progress.
    pub fn get_mut(&mut self, id: u16) -> Option<&mut T> {
        self.find(id)?.command.as_mut()
    }

    /// Ends a command.
    pub fn take(&mut self, id: u16) -> Option<T> {
        let slot = self.find(id)?;
        let command = slot.command.take()?;
        slot.generation = slot.generation.wrapping_add(1) & (u16::MAX >> INDEX_BITS);
        self.free.push_back(id & INDEX_MASK);
        Some(command)
    }

    fn find(&mut self, id: u16) -> Option<&mut Slot<T>> {
        self.slots.get_mut(usize::from(id & INDEX_MASK)).filter(|slot| slot.generation == id >> INDEX_BITS)
    }

    /// Returns the commands in progress.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.command.as_ref())
    }

    /// Ends all commands.
    pub fn drain(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().filter_map(|slot| slot.command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_names_one_command_only() {
        let mut slots = Slots::new(3);
        let (first, second) = (slots.put('a').expect("room"), slots.put('b').expect("room"));
        assert_eq!((slots.put('c'), slots.len(), slots.has_room()), (None, 2, false));
        assert_eq!((slots.take(first), slots.take(first)), (Some('a'), None));
        let third = slots.put('c').expect("room");
        // The same index, another generation.
        assert_eq!((third & INDEX_MASK, third != first), (first & INDEX_MASK, true));
        assert_eq!([first, second].map(|id| slots.get_mut(id).copied()), [None, Some('b')]);
        assert_eq!([5, 0xffff].map(|id| slots.get_mut(id).copied()), [None, None]);
        assert_eq!(slots.drain().collect::<String>(), "cb");
    }

    #[test]
    fn generations_wrap_around() {
        let mut slots = Slots::new(2);
        let ids: Vec<u16> = (0..513)
            .map(|n| {
                let id = slots.put(n).expect("room");
                assert_eq!(slots.take(id), Some(n));
                id
            })
            .collect();
        assert_eq!((ids[0], ids[511], ids[512]), (0, 511 << 7, 0));
    }
}
