//! Memory of the program that regions cover, by address.

use super::ids::Handle;
use std::collections::BTreeMap;

use super::request::Span;

/// Longer regions cover the whole address space (implicit on-demand paging): they say nothing about a range.
const LENGTH_MAX: u64 = 1 << 47;

/// Regions by their first address.
#[derive(Debug, Default)]
pub(super) struct RegionSpans {
    ends: BTreeMap<(u64, Handle), u64>,
    /// Length of the longest region ever: a region that begins this far below an address cannot reach it.
    longest: u64,
}

impl RegionSpans {
    pub fn add(&mut self, region: Handle, span: Span) {
        let length = span.1.saturating_sub(span.0);
        if (1..=LENGTH_MAX).contains(&length) {
            self.longest = self.longest.max(length);
            self.ends.insert((span.0, region), span.1);
        }
    }

    pub fn remove(&mut self, region: Handle, span: Span) {
        self.ends.remove(&(span.0, region));
        if self.ends.is_empty() {
            self.longest = 0;
        }
    }

    /// The regions that have a byte in common with the range, by address.
    pub fn overlapping(&self, span: Span) -> Vec<Handle> {
        let near = self.ends.range((span.0.saturating_sub(self.longest), 0)..(span.1, 0));
        near.filter(|(_, end)| **end > span.0).map(|((_, region), _)| *region).collect()
    }

    /// A range that holds all regions.
    pub fn bounds(&self) -> Option<Span> {
        let (first, last) = (self.ends.first_key_value()?, self.ends.last_key_value()?);
        Some((first.0.0, last.0.0.saturating_add(self.longest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_found_by_any_byte() {
        let mut spans = RegionSpans::default();
        for (region, span) in [(1, (100, 200)), (2, (150, 160)), (3, (300, 400)), (4, (0, u64::MAX)), (5, (7, 7))] {
            spans.add(region, span);
        }
        assert_eq!(spans.overlapping((155, 156)), [1, 2]);
        assert_eq!(spans.overlapping((199, 301)), [1, 3]);
        assert_eq!(spans.overlapping((200, 300)), [0; 0]);
        assert!(spans.bounds().is_some_and(|(low, high)| low == 100 && high >= 400));
        spans.remove(1, (100, 200));
        assert_eq!(spans.overlapping((0, 1000)), [2, 3]);
    }
}
