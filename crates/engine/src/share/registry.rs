//! Registered pages of the process: how often each is registered, and where the arena has the shared ones.
//!
//! Programs register overlapping regions, and a page is either shared or not. So the registered pages are kept in
//! pieces that no region's edge divides, each with the number of regions over it. A page that a region covers and that
//! is not shared stays private until no region covers it any more: peers know it as private, and may be copying into it
//! at any moment.

use std::collections::BTreeMap;

use weft_sys::share::{Extent, join};

/// Moves pages into the arena and out again.
pub trait Pages {
    /// Returns the size of a page in bytes.
    fn page() -> u64;
    /// Shares as much as possible of a range of whole pages; returns the shared extents, lowest address first.
    fn share(&mut self, addr: u64, len: u64) -> Vec<Extent>;
    /// Makes shared extents private again.
    fn unshare(&mut self, extents: &[Extent]);
}

/// A run of pages that the same regions cover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    len: u64,
    /// Number of regions over it.
    regions: u32,
    /// Where the arena has it, if it is shared.
    offset: Option<u64>,
    /// Never shared while it is registered.
    private: bool,
}

/// The registered pages.
#[derive(Debug, Default)]
pub struct Registry {
    pieces: BTreeMap<u64, Piece>,
}

impl Registry {
    /// Adds a registered region: `pages`, if given, shares the pages that lie wholly in it and are registered for the
    /// first time; `private` forbids that.
    pub fn insert<P: Pages>(&mut self, addr: u64, len: u64, private: bool, pages: Option<&mut P>) {
        let (start, end) = outer::<P>(addr, len);
        self.divide(start);
        self.divide(end);
        for (gap, gap_end) in self.gaps(start, end) {
            self.pieces.insert(gap, Piece { len: gap_end - gap, regions: 0, offset: None, private });
        }
        if let Some(pages) = pages
            && !private
        {
            self.share(addr, len, pages, |piece| piece.regions == 0);
        }
        for (_, piece) in self.pieces.range_mut(start..end) {
            piece.regions += 1;
            piece.private |= private && piece.offset.is_none();
        }
    }

    /// Shares as much as possible of the pages that lie wholly in a registered region. Peers must not know the region
    /// yet.
    pub fn share_late<P: Pages>(&mut self, addr: u64, len: u64, pages: &mut P) {
        self.share(addr, len, pages, |_| true);
    }

    /// Removes a deregistered region: pages that no other region covers become private again.
    pub fn remove<P: Pages>(&mut self, addr: u64, len: u64, pages: Option<&mut P>) {
        let (start, end) = outer::<P>(addr, len);
        self.divide(start);
        self.divide(end);
        let mut left = Vec::new();
        let mut gone: Vec<Extent> = Vec::new();
        for (&at, piece) in self.pieces.range_mut(start..end) {
            piece.regions = piece.regions.saturating_sub(1);
            if piece.regions == 0 {
                left.push(at);
                if let Some(offset) = piece.offset {
                    join(&mut gone, Extent { addr: at, len: piece.len, offset });
                }
            }
        }
        for at in left {
            self.pieces.remove(&at);
        }
        if let Some(pages) = pages
            && !gone.is_empty()
        {
            pages.unshare(&gone);
        }
    }

    /// Returns the longest run of shared pages in a range that is contiguous in the arena, cut to the range.
    pub fn extent(&self, addr: u64, len: u64) -> Option<Extent> {
        let end = addr.checked_add(len)?;
        let before = self.pieces.range(..addr).next_back();
        let mut runs = Vec::new();
        for (&at, piece) in before.into_iter().chain(self.pieces.range(addr..end)) {
            let (from, to) = (at.max(addr), (at + piece.len).min(end));
            if let Some(offset) = piece.offset
                && from < to
            {
                join(&mut runs, Extent { addr: from, len: to - from, offset: offset + (from - at) });
            }
        }
        runs.into_iter().max_by_key(|run| run.len)
    }

    /// Returns all shared extents.
    pub fn shared(&self) -> Vec<Extent> {
        let mut runs = Vec::new();
        for (&addr, piece) in &self.pieces {
            if let Some(offset) = piece.offset {
                join(&mut runs, Extent { addr, len: piece.len, offset });
            }
        }
        runs
    }

    fn share<P: Pages>(&mut self, addr: u64, len: u64, pages: &mut P, which: impl Fn(&Piece) -> bool) {
        let (start, end) = inner::<P>(addr, len);
        if start >= end {
            return;
        }
        self.divide(start);
        self.divide(end);
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (&at, piece) in self.pieces.range(start..end) {
            if piece.offset.is_none() && !piece.private && which(piece) {
                match runs.last_mut() {
                    Some((_, last)) if *last == at => *last += piece.len,
                    _ => runs.push((at, at + piece.len)),
                }
            }
        }
        for (at, end) in runs {
            for extent in pages.share(at, end - at) {
                self.note(extent);
            }
        }
    }

    /// Marks these pages as shared.
    fn note(&mut self, extent: Extent) {
        let end = extent.addr + extent.len;
        self.divide(extent.addr);
        self.divide(end);
        for (&at, piece) in self.pieces.range_mut(extent.addr..end) {
            piece.offset = Some(extent.offset + (at - extent.addr));
        }
    }

    /// Divides the piece that crosses `at`, if any.
    fn divide(&mut self, at: u64) {
        let Some((&start, piece)) = self.pieces.range_mut(..at).next_back() else { return };
        if start + piece.len <= at {
            return;
        }
        let mut rest = *piece;
        let head = at - start;
        piece.len = head;
        rest.len -= head;
        rest.offset = rest.offset.map(|offset| offset + head);
        self.pieces.insert(at, rest);
    }

    /// Returns the parts of a range that no piece covers; its ends divide no piece.
    fn gaps(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut at = start;
        for (&piece_at, piece) in self.pieces.range(start..end) {
            if at < piece_at {
                gaps.push((at, piece_at));
            }
            at = piece_at + piece.len;
        }
        if at < end {
            gaps.push((at, end));
        }
        gaps
    }
}

/// Returns the pages that a range touches.
fn outer<P: Pages>(addr: u64, len: u64) -> (u64, u64) {
    let end = addr.saturating_add(len);
    (addr - addr % P::page(), end.checked_next_multiple_of(P::page()).unwrap_or(end))
}

/// Returns the pages that lie wholly in a range.
fn inner<P: Pages>(addr: u64, len: u64) -> (u64, u64) {
    let end = addr.saturating_add(len);
    (addr.checked_next_multiple_of(P::page()).unwrap_or(end), end - end % P::page())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Pages of sixteen bytes, some of which cannot be shared.
    #[derive(Default)]
    struct Fake {
        shared: BTreeMap<u64, u64>,
        refused: BTreeSet<u64>,
        next: u64,
    }

    impl Pages for Fake {
        fn page() -> u64 {
            16
        }

        fn share(&mut self, addr: u64, len: u64) -> Vec<Extent> {
            assert!(addr.is_multiple_of(16) && len.is_multiple_of(16) && len > 0);
            let mut done = Vec::new();
            for at in (addr..addr + len).step_by(16) {
                if self.refused.contains(&at) {
                    self.next += 160;
                    continue;
                }
                assert!(self.shared.insert(at, self.next).is_none(), "shared twice: {at}");
                join(&mut done, Extent { addr: at, len: 16, offset: self.next });
                self.next += 16;
            }
            self.next += 160;
            done
        }

        fn unshare(&mut self, extents: &[Extent]) {
            for extent in extents {
                for step in (0..extent.len).step_by(16) {
                    let was = self.shared.remove(&(extent.addr + step));
                    assert_eq!(was, Some(extent.offset + step), "{extent:?}");
                }
            }
        }
    }

    fn pages(fake: &Fake) -> Vec<u64> {
        fake.shared.keys().copied().collect()
    }

    #[test]
    fn only_whole_pages_are_shared() {
        let (mut registry, mut fake) = (Registry::default(), Fake::default());
        registry.insert(10, 40, false, Some(&mut fake));
        assert_eq!(pages(&fake), [16, 32]);
        assert_eq!(registry.extent(10, 40), Some(Extent { addr: 16, len: 32, offset: 0 }));
        registry.insert(1000, 10, false, Some(&mut fake));
        assert_eq!(pages(&fake), [16, 32]);
        assert_eq!(registry.extent(1000, 10), None);
        registry.remove(10, 40, Some(&mut fake));
        assert_eq!(pages(&fake), []);
        assert_eq!(registry.extent(10, 40), None);
    }

    #[test]
    fn overlapping_regions_share_what_is_new_and_keep_it_until_the_last() {
        let (mut registry, mut fake) = (Registry::default(), Fake::default());
        registry.insert(0, 64, false, Some(&mut fake));
        registry.insert(32, 64, false, Some(&mut fake));
        registry.insert(32, 64, false, Some(&mut fake));
        assert_eq!(pages(&fake), [0, 16, 32, 48, 64, 80]);
        assert_eq!(registry.extent(32, 64).map(|e| e.len), Some(32), "two pieces of the file");
        registry.remove(0, 64, Some(&mut fake));
        assert_eq!(pages(&fake), [32, 48, 64, 80]);
        registry.remove(32, 64, Some(&mut fake));
        assert_eq!(pages(&fake), [32, 48, 64, 80]);
        registry.remove(32, 64, Some(&mut fake));
        assert_eq!(pages(&fake), []);
        assert!(registry.pieces.is_empty());
    }

    #[test]
    fn pages_that_peers_know_as_private_stay_private() {
        let (mut registry, mut fake) = (Registry::default(), Fake::default());
        // Its first page is shared only in part, and the third cannot be.
        fake.refused.insert(32);
        registry.insert(8, 56, false, Some(&mut fake));
        assert_eq!(pages(&fake), [16, 48]);
        fake.refused.clear();
        registry.insert(0, 96, false, Some(&mut fake));
        assert_eq!(pages(&fake), [16, 48, 64, 80]);
        registry.remove(8, 56, Some(&mut fake));
        assert_eq!(pages(&fake), [16, 48, 64, 80]);
        registry.remove(0, 96, Some(&mut fake));
        registry.insert(0, 96, false, Some(&mut fake));
        assert_eq!(pages(&fake), [0, 16, 32, 48, 64, 80]);
    }

    #[test]
    fn what_was_registered_before_is_shared_late_but_for_private_regions() {
        let (mut registry, mut fake) = (Registry::default(), Fake::default());
        registry.insert(0, 64, false, None::<&mut Fake>);
        registry.insert(48, 64, true, None::<&mut Fake>);
        registry.share_late(0, 64, &mut fake);
        assert_eq!(pages(&fake), [0, 16, 32]);
        registry.insert(96, 64, false, Some(&mut fake));
        assert_eq!(pages(&fake), [0, 16, 32, 112, 128, 144]);
        registry.remove(0, 64, Some(&mut fake));
        registry.remove(48, 64, Some(&mut fake));
        registry.remove(96, 64, Some(&mut fake));
        assert_eq!(pages(&fake), []);
        assert!(registry.pieces.is_empty());
    }

    #[test]
    fn any_order_of_regions_agrees_with_counting_page_by_page() {
        let mut seed = 7u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        let (mut registry, mut fake) = (Registry::default(), Fake::default());
        let mut live: Vec<(u64, u64)> = Vec::new();
        for _ in 0..5000 {
            if random(2) == 0 && live.len() < 12 {
                let region = (random(500), 1 + random(200));
                registry.insert(region.0, region.1, random(8) == 0, Some(&mut fake));
                live.push(region);
            } else if !live.is_empty() {
                let (addr, len) = live.swap_remove(random(live.len() as u64) as usize);
                registry.remove(addr, len, Some(&mut fake));
            }
            for &page in fake.shared.keys() {
                assert!(live.iter().any(|&(addr, len)| addr <= page && page + 16 <= addr + len || {
                    let (start, end) = outer::<Fake>(addr, len);
                    start <= page && page < end
                }));
            }
            let noted: u64 = registry.shared().iter().map(|e| e.len).sum();
            assert_eq!(noted, 16 * fake.shared.len() as u64);
            for extent in registry.shared() {
                assert_eq!(fake.shared.get(&extent.addr), Some(&extent.offset));
            }
        }
        for (addr, len) in live {
            registry.remove(addr, len, Some(&mut fake));
        }
        assert!(fake.shared.is_empty() && registry.pieces.is_empty());
    }
}
