//! The key table: every L_Key and R_Key of the process, regions and windows in one space.
//!
//! ```text
//!   31                            8 7        0
//!  +-------------------------------+----------+
//!  |        index (random)         |   tag    |
//!  +-------------------------------+----------+
//! ```
//!
//! Index and tag are random, so a peer that knows one key knows nothing of another. The tag changes whenever a new key
//! for the same index is issued: a type 2 window takes it from the consumer's bind (IBA 10.6.7).

use std::cell::Cell;

use rustc_hash::FxHashMap;
use weft_verbs::{Access, MR_MAX, MW_MAX, MrId, MwId, VerbsError};

use super::mr::Mr;
use super::mw::Mw;
use crate::rng::Rng;
use crate::table::Table;

/// Number of tag bits in a key.
const TAG_BITS: u32 = 8;

/// Returns the index part of a key.
fn index_of(key: u32) -> u32 {
    key >> TAG_BITS
}

/// Returns the key with the index of `key` and the tag of `tag`.
pub(super) fn with_tag(key: u32, tag: u32) -> u32 {
    (key & !0xff) | (tag & 0xff)
}

/// Returns the key after `key`: same index, next tag.
pub(crate) fn next_tag(key: u32) -> u32 {
    with_tag(key, key.wrapping_add(1))
}

/// The owner of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyOwner {
    Mr(MrId),
    Mw(MwId),
}

/// Regions, windows, and their indices.
#[derive(Debug)]
pub(crate) struct Keys {
    by_index: FxHashMap<u32, KeyOwner>,
    pub(crate) mrs: Table<MrId, Mr>,
    pub(crate) mws: Table<MwId, Mw>,
    /// The last region looked up: successive lookups are mostly for the same one.
    recent_mr: Cell<Option<MrId>>,
    /// Whether there ever was an on-demand region: most processes never create one.
    pub(crate) any_on_demand: bool,
}

impl Keys {
    pub(crate) fn new() -> Keys {
        Keys {
            by_index: FxHashMap::default(),
            mrs: Table::new(MR_MAX, "memory region"),
            mws: Table::new(MW_MAX, "memory window"),
            recent_mr: Cell::new(None),
            any_on_demand: false,
        }
    }

    /// Draws a key whose index is unused. Never zero: programs treat a key of 0 as none. Most of the index space is
    /// always free (the tables hold a sixteenth of it), so few draws are needed.
    fn draw(&self, rng: &mut Rng) -> u32 {
        loop {
            let key = rng.next_u32();
            let index = index_of(key);
            if index != 0 && !self.by_index.contains_key(&index) {
                return key;
            }
        }
    }

    pub(crate) fn insert_mr(&mut self, rng: &mut Rng, make: impl FnOnce(u32) -> Mr) -> Result<(MrId, u32), VerbsError> {
        let key = self.draw(rng);
        let id = self.mrs.insert(make(key))?;
        self.by_index.insert(index_of(key), KeyOwner::Mr(id));
        Ok((id, key))
    }

    pub(crate) fn insert_mw(&mut self, rng: &mut Rng, make: impl FnOnce(u32) -> Mw) -> Result<(MwId, u32), VerbsError> {
        let key = self.draw(rng);
        let id = self.mws.insert(make(key))?;
        self.by_index.insert(index_of(key), KeyOwner::Mw(id));
        Ok((id, key))
    }

    pub(crate) fn remove_mr(&mut self, id: MrId) -> Result<Mr, VerbsError> {
        let mr = self.mrs.remove(id)?;
        self.by_index.remove(&index_of(mr.key));
        Ok(mr)
    }

    pub(crate) fn remove_mw(&mut self, id: MwId) -> Result<Mw, VerbsError> {
        let mw = self.mws.remove(id)?;
        self.by_index.remove(&index_of(mw.rkey));
        Ok(mw)
    }

    /// Whether memory behind the key may be missing until first use.
    #[inline]
    pub(crate) fn is_on_demand(&self, key: u32) -> bool {
        self.any_on_demand && self.mr_behind(key).is_some_and(|mr| mr.access.contains(Access::ON_DEMAND))
    }

    fn mr_behind(&self, key: u32) -> Option<&Mr> {
        match self.owner(key)? {
            KeyOwner::Mr(id) => self.mrs.get(id).ok(),
            KeyOwner::Mw(id) => self.mrs.get(self.mws.get(id).ok()?.bound_to()?).ok(),
        }
    }

    /// Returns the owner of the key's index; ignores the tag.
    pub(crate) fn owner(&self, key: u32) -> Option<KeyOwner> {
        self.by_index.get(&index_of(key)).copied()
    }

    /// Returns the region with exactly this key.
    #[inline]
    pub(crate) fn mr(&self, key: u32) -> Option<&Mr> {
        match self.recent_mr.get().map(|id| self.mrs.get(id)) {
            Some(Ok(mr)) if mr.key == key => Some(mr),
            _ => self.find_mr(key),
        }
    }

    fn find_mr(&self, key: u32) -> Option<&Mr> {
        match self.owner(key)? {
            KeyOwner::Mr(id) => {
                self.recent_mr.set(Some(id));
                self.mrs.get(id).ok().filter(|mr| mr.key == key)
            }
            KeyOwner::Mw(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_verbs::PdId;

    #[test]
    fn a_key_that_was_asked_for_dies_with_its_region() {
        let (mut keys, mut rng) = (Keys::new(), Rng::new([1, 2, 3, 4]));
        let pd = PdId { index: 0, generation: 0 };
        let mr = |key| Mr { pd, key, addr: 64, len: 8, base: 64, access: Access::empty(), null: false, windows: 0 };
        let (first, old) = keys.insert_mr(&mut rng, mr).unwrap();
        let (_, other) = keys.insert_mr(&mut rng, mr).unwrap();
        for key in [old, old, other, old] {
            assert_eq!(keys.mr(key).map(|mr| mr.key), Some(key));
        }
        keys.remove_mr(first).unwrap();
        assert!(keys.mr(old).is_none());
        let (again, new) = keys.insert_mr(&mut rng, mr).unwrap();
        assert_eq!(again.index, first.index, "the same place");
        assert!(keys.mr(old).is_none() && keys.mr(with_tag(new, new.wrapping_add(1))).is_none());
        assert_eq!(keys.mr(new).map(|mr| mr.key), Some(new));
    }
}
