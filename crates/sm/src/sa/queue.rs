//! Queue of pending requests, one line for each LID, served round robin: a flood from one LID does not starve the
//! others.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use weft_wire::mad::sa::SaMad;

use super::limits::{ANSWER_BYTES_PER_TURN, QUESTIONS_MAX, QUESTIONS_PER_LID_MAX};
use crate::io::Peer;

/// A pending request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub from: Peer,
    pub mad: SaMad,
}

/// The pending requests of all LIDs.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    by_lid: FxHashMap<u16, Line>,
    /// LIDs with pending requests, in round-robin order.
    turns: VecDeque<u16>,
    len: usize,
}

/// The pending requests of one LID.
#[derive(Clone, Debug, Default)]
struct Line {
    waiting: VecDeque<Waiting>,
    /// Turns that the LID must skip because its last response was long.
    debt: usize,
}

impl Queue {
    /// Adds a request unless the limit of its LID or the overall limit is reached. `lid` is the round-robin key.
    pub fn push(&mut self, lid: u16, waiting: Waiting) -> bool {
        if self.len >= QUESTIONS_MAX {
            return false;
        }
        let line = self.by_lid.entry(lid).or_default();
        if line.waiting.len() >= QUESTIONS_PER_LID_MAX {
            return false;
        }
        if line.waiting.is_empty() {
            self.turns.push_back(lid);
        }
        line.waiting.push_back(waiting);
        self.len += 1;
        true
    }

    /// Removes the next request: the oldest one of the LID whose turn it is.
    pub fn pop(&mut self) -> Option<Waiting> {
        // Each skipped turn pays for a fixed number of response bytes, so the loop ends.
        while self.turns.len() > 1 {
            let lid = *self.turns.front()?;
            let line = self.by_lid.get_mut(&lid).filter(|line| line.debt > 0);
            let Some(line) = line else { break };
            line.debt -= 1;
            self.turns.rotate_left(1);
        }
        let lid = self.turns.pop_front()?;
        let line = self.by_lid.get_mut(&lid)?;
        let next = line.waiting.pop_front();
        if line.waiting.is_empty() {
            self.by_lid.remove(&lid);
        } else {
            self.turns.push_back(lid);
        }
        self.len -= usize::from(next.is_some());
        next
    }

    /// Charges a LID for a response of this size: a long one costs it turns.
    pub fn charge(&mut self, lid: u16, bytes: usize) {
        if let Some(line) = self.by_lid.get_mut(&lid) {
            line.debt = bytes / ANSWER_BYTES_PER_TURN;
        }
    }

    /// The number of pending requests.
    pub fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_wire::mad::Method;
    use weft_wire::mad::sa::{ComponentMask, PathRecord};

    fn question(lid: u16, tid: u64) -> Waiting {
        let mad = SaMad::request(Method::GET, tid, ComponentMask::NONE, &PathRecord::default());
        Waiting { from: Peer { lid, ..Peer::default() }, mad }
    }

    fn lids(queue: &mut Queue, most: usize) -> Vec<u16> {
        std::iter::from_fn(|| queue.pop()).take(most).map(|waiting| waiting.from.lid).collect()
    }

    #[test]
    fn a_flood_waits_while_others_have_their_turns() {
        let mut queue = Queue::default();
        let taken = (0..1000).filter(|tid| queue.push(7, question(7, *tid))).count();
        assert_eq!(taken, QUESTIONS_PER_LID_MAX);
        for lid in 1..=3 {
            assert!(queue.push(lid, question(lid, 1)));
        }
        assert_eq!(lids(&mut queue, 6), [7, 1, 2, 3, 7, 7]);
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), QUESTIONS_PER_LID_MAX - 3);
        assert_eq!((queue.len(), queue.by_lid.len(), queue.turns.len()), (0, 0, 0));
        let mut all = (1..=0xbfff_u16).flat_map(|lid| [question(lid, 1), question(lid, 2)]);
        assert_eq!(all.by_ref().filter(|waiting| queue.push(waiting.from.lid, *waiting)).count(), QUESTIONS_MAX);
    }

    #[test]
    fn who_is_answered_at_length_passes_turns_if_others_wait() {
        let mut queue = Queue::default();
        for tid in 0..8 {
            assert!(queue.push(1, question(1, tid)) && queue.push(2, question(2, tid)));
        }
        assert_eq!(lids(&mut queue, 1), [1]);
        queue.charge(1, 3 * ANSWER_BYTES_PER_TURN);
        assert_eq!(lids(&mut queue, 6), [2, 2, 2, 2, 1, 2], "three turns are passed");
        queue.charge(1, usize::MAX);
        assert_eq!(lids(&mut queue, 3), [2, 2, 2], "the last of the other");
        assert_eq!(lids(&mut queue, 2), [1, 1], "alone there is nobody to wait for");
    }
}
