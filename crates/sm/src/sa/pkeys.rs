//! Partitions that ports share. Ports with the same P_Key table form a class; the result for two classes is cached.

use rustc_hash::FxHashMap;

/// The full membership bit.
const FULL: u16 = 0x8000;
/// P_Key of a port whose table is unknown.
const DEFAULT: u16 = 0xffff;
/// Cached pairs of classes.
const PAIRS_MAX: usize = 1 << 20;

/// A P_Key without the membership bit.
fn base(pkey: u16) -> u16 {
    pkey & !FULL
}

/// Whether two P_Keys match: the same partition, and at least one is a full member's.
pub(super) fn matches(a: u16, b: u16) -> bool {
    base(a) == base(b) && (a | b) & FULL != 0 && base(a) != 0
}

/// Sorts a table in the search order for shared P_Keys: by number with its last byte first, which is OpenSM's order on
/// little-endian machines.
fn sorted(pkeys: &[u16]) -> Vec<u16> {
    let mut sorted: Vec<u16> = pkeys.iter().copied().filter(|pkey| base(*pkey) != 0).collect();
    sorted.sort_unstable_by_key(|pkey| (base(*pkey).swap_bytes(), std::cmp::Reverse(pkey & FULL)));
    sorted.dedup();
    sorted
}

/// The first P_Key of `a` that matches one of `b`. Both are sorted.
fn first_common(a: &[u16], b: &[u16]) -> Option<u16> {
    if a.is_empty() || b.is_empty() {
        return Some(a.first().or(b.first()).copied().unwrap_or(DEFAULT));
    }
    let mut others = b;
    for pkey in a {
        while let [first, rest @ ..] = others
            && base(*first).swap_bytes() < base(*pkey).swap_bytes()
        {
            others = rest;
        }
        let same = others.iter().take_while(|other| base(**other) == base(*pkey));
        if same.into_iter().any(|other| matches(*pkey, *other)) {
            return Some(*pkey);
        }
    }
    None
}

/// Whether ports with these tables share a partition. A port without a table shares one with every port.
pub(super) fn share(a: &[u16], b: &[u16]) -> bool {
    let empty = |table: &[u16]| table.iter().all(|pkey| base(*pkey) == 0);
    empty(a) || empty(b) || a.iter().any(|pkey| b.iter().any(|other| matches(*pkey, *other)))
}

/// Whether a port with this table is a full or limited member of a partition.
pub(super) fn has(table: &[u16], pkey: u16) -> bool {
    let mut keys = table.iter().filter(|entry| base(**entry) != 0).peekable();
    base(pkey) == 0 || keys.peek().is_none() || keys.any(|entry| base(*entry) == base(pkey))
}

/// Whether ports with these tables can communicate in this partition.
pub(super) fn share_this(a: &[u16], b: &[u16], pkey: u16) -> bool {
    let in_it = |table: &[u16], full: bool| {
        let unknown = table.iter().all(|entry| base(*entry) == 0);
        unknown || table.iter().any(|entry| base(*entry) == base(pkey) && (!full || entry & FULL != 0))
    };
    base(pkey) != 0 && in_it(a, false) && in_it(b, false) && (in_it(a, true) || in_it(b, true))
}

/// Classes of ports with the same P_Key table.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    tables: Vec<Vec<u16>>,
    numbers: FxHashMap<Vec<u16>, u32>,
    pairs: FxHashMap<(u32, u32), Option<u16>>,
}

impl Classes {
    /// The class of a table.
    pub fn class(&mut self, pkeys: &[u16]) -> u32 {
        let table = sorted(pkeys);
        if let Some(number) = self.numbers.get(&table) {
            return *number;
        }
        let number = self.tables.len() as u32;
        self.tables.push(table.clone());
        self.numbers.insert(table, number);
        number
    }

    /// The P_Keys of a class.
    pub fn table(&self, class: u32) -> &[u16] {
        self.tables.get(class as usize).map_or(&[], Vec::as_slice)
    }

    /// The P_Key with which ports of two classes communicate: the entry of the first, with its membership bit.
    pub fn common(&mut self, a: u32, b: u32) -> Option<u16> {
        if let Some(known) = self.pairs.get(&(a, b)) {
            return *known;
        }
        let found = first_common(self.table(a), self.table(b));
        if self.pairs.len() < PAIRS_MAX {
            self.pairs.insert((a, b), found);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_limited_members_share_nothing() {
        let mut classes = Classes::default();
        let full = classes.class(&[0xffff, 0x8003, 0]);
        let limited = classes.class(&[0x7fff, 0x0003]);
        assert_eq!(classes.class(&[0x8003, 0xffff]), full);
        assert_eq!(classes.common(full, limited), Some(0x8003), "0x0003 before 0x7fff");
        assert_eq!(classes.common(limited, full), Some(0x0003));
        assert_eq!(classes.common(limited, limited), None);
        let unknown = classes.class(&[]);
        assert_eq!((classes.common(unknown, limited), classes.common(unknown, unknown)), (Some(3), Some(0xffff)));
        assert!(share(&[], &[1]) && !share(&[1], &[1]) && share(&[0x8001], &[1]) && !share(&[0x8001], &[0x8002]));
    }

    #[test]
    fn who_is_full_and_limited_at_once_talks_to_both() {
        let mut classes = Classes::default();
        let both = classes.class(&[0x0005, 0x8005]);
        let limited = classes.class(&[0x0005]);
        assert_eq!((classes.common(both, limited), classes.common(limited, both)), (Some(0x8005), Some(5)));
        assert!(
            share_this(&[5, 0x8005], &[5], 5) && !share_this(&[5], &[5], 5) && !share_this(&[0x8005], &[0x8006], 5)
        );
        assert!(has(&[5], 0x8005) && !has(&[6], 5) && has(&[], 5) && has(&[6], 0x8000));
    }
}
