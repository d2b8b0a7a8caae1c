//! LIDs of multicast groups: the lowest free one, or a shared one when the switches' tables are full.

use std::collections::BTreeMap;

/// The first multicast LID.
pub const MLID_FIRST: u16 = 0xc000;
/// The last one; 0xffff is the permissive LID.
pub const MLID_LAST: u16 = 0xfffe;

/// MGIDs of the groups that share a LID.
type Mgids = Vec<[u8; 16]>;

/// Assignment of multicast LIDs to groups.
#[derive(Clone, Debug)]
pub struct Mlids {
    used: BTreeMap<u16, Mgids>,
    /// The last LID for which every switch has a table entry.
    top: u16,
    /// No LID below this one is free.
    hint: u16,
}

impl Default for Mlids {
    fn default() -> Mlids {
        Mlids { used: BTreeMap::new(), top: MLID_LAST, hint: MLID_FIRST }
    }
}

impl Mlids {
    /// Sets the number of multicast table entries that every switch has.
    pub fn set_capacity(&mut self, entries: u16) {
        self.top = MLID_FIRST.saturating_add(entries.saturating_sub(1)).min(MLID_LAST);
    }

    /// The last LID that can be assigned.
    pub fn top(&self) -> u16 {
        self.top
    }

    /// Groups that have this LID.
    pub fn groups(&self, mlid: u16) -> &[[u8; 16]] {
        self.used.get(&mlid).map_or(&[], Vec::as_slice)
    }

    /// Assigned LIDs, in order.
    pub fn used(&self) -> impl Iterator<Item = u16> + '_ {
        self.used.keys().copied()
    }

    /// Whether the LID can be assigned and no group has it.
    pub fn is_free(&self, mlid: u16) -> bool {
        (MLID_FIRST..=self.top).contains(&mlid) && !self.used.contains_key(&mlid)
    }

    /// The lowest free LID.
    pub fn free(&mut self) -> Option<u16> {
        let mut next = self.hint;
        for used in self.used.range(self.hint..).map(|(mlid, _)| *mlid) {
            if used != next {
                break;
            }
            next += 1;
        }
        self.hint = next;
        (next <= self.top).then_some(next)
    }

    /// The LID with the fewest groups among those whose groups all pass `fits`.
    pub fn least_shared(&self, fits: impl Fn(&[u8; 16]) -> bool) -> Option<u16> {
        let fitting = self.used.iter().filter(|(_, groups)| groups.iter().all(&fits));
        fitting.min_by_key(|(_, groups)| groups.len()).map(|(mlid, _)| *mlid)
    }

    /// Assigns the LID to a group.
    pub fn take(&mut self, mlid: u16, mgid: [u8; 16]) {
        self.used.entry(mlid).or_default().push(mgid);
    }

    /// Takes the LID from a group.
    pub fn release(&mut self, mlid: u16, mgid: &[u8; 16]) {
        if let Some(groups) = self.used.get_mut(&mlid) {
            groups.retain(|group| group != mgid);
            if groups.is_empty() {
                self.used.remove(&mlid);
                self.hint = self.hint.min(mlid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_is_given_and_what_is_released_is_given_again() {
        let mut mlids = Mlids::default();
        mlids.set_capacity(3);
        for (number, expected) in (0..3).zip(0xc000..) {
            assert_eq!(mlids.free(), Some(expected));
            mlids.take(expected, [number; 16]);
        }
        assert_eq!((mlids.free(), mlids.is_free(0xc003), mlids.top()), (None, false, 0xc002));
        mlids.release(0xc001, &[1; 16]);
        assert_eq!(mlids.free(), Some(0xc001));
        mlids.take(0xc001, [1; 16]);
        mlids.take(0xc001, [9; 16]);
        mlids.take(0xc002, [8; 16]);
        assert_eq!(mlids.least_shared(|_| true), Some(0xc000));
        assert_eq!(mlids.least_shared(|group| group[0] != 0 && group[0] != 9), Some(0xc002));
        mlids.release(0xc001, &[1; 16]);
        assert_eq!(mlids.groups(0xc001), [[9; 16]]);
    }
}
