//! Index of each P_Key in a port's table, chosen as OpenSM does, so that no key moves when the other manager takes
//! over.

use super::config::DEFAULT_KEY;

/// The full-membership bit.
pub const FULL: u16 = 0x8000;

/// A port's P_Key table, and the former indexes of keys.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Keys {
    /// P_Keys by index; 0 for none.
    pub table: Vec<u16>,
    /// Keys with an index now or earlier, each with its index: a returning key gets its own index again, and a new key
    /// gets none of these.
    pub history: Vec<(u16, u16)>,
    /// Keys without room in the table.
    pub left_out: Vec<u16>,
}

/// Wanted content of a port's table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// The keys with their membership bit, in the order of placement.
    pub keys: &'a [u16],
    /// The key for index 0 in place of the default key; 0: none.
    pub index0: u16,
    /// Number of table entries.
    pub room: u16,
    /// Full and limited keys of a partition are distinct.
    pub both: bool,
}

/// Places keys in a table whose present content is `present`.
pub(super) fn place(wanted: Wanted<'_>, present: &[u16], history: &[(u16, u16)]) -> Keys {
    let mut placing = Placing { wanted, keys: Keys { history: history.to_vec(), ..Keys::default() } };
    let mut new: std::collections::VecDeque<u16> = std::collections::VecDeque::new();
    for key in wanted.keys {
        match placing.present_at(*key, present) {
            Some(index) if placing.stays(*key, index) => {
                placing.put(*key, index);
                placing.remember(*key, index);
            }
            at => {
                at.into_iter().for_each(|index| placing.forget(index));
                new.push_back(*key);
            }
        }
    }
    while let Some(key) = new.pop_front() {
        match placing.remembered(key) {
            Some(index) if placing.is_first(key) || index == 0 => {
                placing.forget(index);
                new.push_back(key);
            }
            Some(index) => placing.put(key, index),
            None => placing.put_new(key),
        }
    }
    placing.keys
}

struct Placing<'a> {
    wanted: Wanted<'a>,
    keys: Keys,
}

impl Placing<'_> {
    fn same(&self, a: u16, b: u16) -> bool {
        if self.wanted.both { a == b } else { a & !FULL == b & !FULL }
    }

    /// Whether a key belongs at index 0.
    fn is_first(&self, key: u16) -> bool {
        match self.wanted.index0 {
            0 => self.is_default(key),
            first => self.same(key, first),
        }
    }

    /// Whether a key is the default key: of two, the full one.
    fn is_default(&self, key: u16) -> bool {
        if self.wanted.both { key == DEFAULT_KEY | FULL } else { key & !FULL == DEFAULT_KEY }
    }

    /// Returns the present index of a key: of several matches the full key, of equal ones the first.
    fn present_at(&self, key: u16, present: &[u16]) -> Option<u16> {
        let room = usize::from(self.wanted.room);
        let found = (0u16..).zip(present.iter().take(room)).filter(|(_, there)| **there & !FULL != 0);
        let found = found.filter(|(_, there)| self.same(**there, key));
        found.max_by_key(|(index, there)| (**there, std::cmp::Reverse(*index))).map(|(index, _)| index)
    }

    fn stays(&self, key: u16, index: u16) -> bool {
        match self.wanted.index0 {
            // Index 0 is reserved for the default partition, and its full key for index 0.
            0 if index == 0 => key & !FULL == DEFAULT_KEY,
            0 => !self.is_default(key),
            first => self.same(key, first) == (index == 0),
        }
    }

    fn put_new(&mut self, key: u16) {
        let mut index = match (self.is_first(key), self.last()) {
            (true, _) => 0,
            (false, last) => last.map_or(1, |last| last.saturating_add(1)),
        };
        if index >= self.wanted.room {
            match self.free() {
                Some(free) if !self.is_default(key) => index = free,
                _ => return self.keys.left_out.push(key),
            }
            self.forget(index);
        }
        self.put(key, index);
        self.remember(key, index);
    }

    /// Returns the first free index after 0.
    fn free(&self) -> Option<u16> {
        let at = |index: u16| self.keys.table.get(usize::from(index)).copied().unwrap_or(0);
        (1..self.wanted.room).find(|index| at(*index) & !FULL == 0)
    }

    fn put(&mut self, key: u16, index: u16) {
        let at = usize::from(index);
        if self.keys.table.len() <= at {
            self.keys.table.resize(at + 1, 0);
        }
        if let Some(entry) = self.keys.table.get_mut(at) {
            *entry = key;
        }
    }

    fn remember(&mut self, key: u16, index: u16) {
        self.keys.history.retain(|(known, _)| *known != key);
        self.keys.history.push((key, index));
    }

    fn remembered(&self, key: u16) -> Option<u16> {
        self.keys.history.iter().find(|(known, _)| *known == key).map(|(_, index)| *index)
    }

    fn forget(&mut self, index: u16) {
        self.keys.history.retain(|(_, known)| *known != index);
    }

    fn last(&self) -> Option<u16> {
        self.keys.history.iter().map(|(_, index)| *index).max()
    }
}
