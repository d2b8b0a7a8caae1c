//! Received responses beyond the oldest missing one. The PSN of a READ response gives the place of its bytes, so
//! responses behind a gap are stored at once and only recorded here; only the gap is requested again.

use std::collections::VecDeque;

/// Most PSNs recorded beyond the oldest missing one: the largest window in packets of the smallest MTU.
const AHEAD_MAX: u64 = 4096;

/// A set of PSNs (counted without wrapping), in words of 64.
#[derive(Debug, Default)]
pub(crate) struct Received {
    words: VecDeque<u64>,
    base: u64,
    count: usize,
}

impl Received {
    pub fn has(&self, psn: u64) -> bool {
        if self.count == 0 || psn < self.base {
            return false;
        }
        let at = psn - self.base;
        self.words.get((at / 64) as usize).is_some_and(|w| w >> (at % 64) & 1 != 0)
    }

    /// Records `psn`, which is beyond the oldest missing response `una`. False if it is too far ahead.
    pub fn insert(&mut self, una: u64, psn: u64) -> bool {
        if psn < una || psn - una >= AHEAD_MAX {
            return false;
        }
        if self.count == 0 {
            self.words.clear();
            self.base = una;
        }
        if psn < self.base {
            return false;
        }
        let at = psn - self.base;
        let word = (at / 64) as usize;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let bit = 1u64 << (at % 64);
        if self.words[word] & bit == 0 {
            self.words[word] |= bit;
            self.count += 1;
        }
        true
    }

    /// Forgets everything before `una`, which is settled.
    pub fn forget_before(&mut self, una: u64) {
        while self.count != 0 && self.base + 64 <= una {
            let word = self.words.pop_front().unwrap_or(0);
            self.base += 64;
            self.count -= word.count_ones() as usize;
        }
        if self.count != 0 && una > self.base {
            let keep = u64::MAX << (una - self.base);
            if let Some(word) = self.words.front_mut() {
                self.count -= (*word & !keep).count_ones() as usize;
                *word &= keep;
            }
        }
        if self.count == 0 && !self.words.is_empty() {
            self.words = VecDeque::new();
        }
    }

    /// Returns the first PSN of `from..to` that has arrived, or `to`.
    pub fn first_in(&self, from: u64, to: u64) -> u64 {
        if self.count == 0 {
            return to;
        }
        (from..to).find(|&p| self.has(p)).unwrap_or(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_and_forgets() {
        let mut r = Received::default();
        assert!(r.insert(1000, 1003));
        assert!(r.insert(1000, 1100));
        assert!(!r.insert(1000, 1000 + AHEAD_MAX));
        assert!(r.has(1003) && r.has(1100) && !r.has(1004));
        assert_eq!(r.first_in(1000, 1050), 1003);
        assert_eq!(r.first_in(1004, 1050), 1050);
        r.forget_before(1004);
        assert!(!r.has(1003) && r.has(1100));
        r.forget_before(1101);
        assert!(!r.has(1100));
        assert_eq!(r.count, 0);
        assert!(r.insert(5000, 5001));
        assert!(r.has(5001));
    }
}
