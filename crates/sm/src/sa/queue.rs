//! Questions that wait for their answers, in a queue for each LID: each LID has its turn, however many another asks.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use weft_wire::mad::sa::SaMad;

use super::limits::{ANSWER_BYTES_PER_TURN, QUESTIONS_MAX, QUESTIONS_PER_LID_MAX};
use crate::io::Peer;

/// A question that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub from: Peer,
    pub mad: SaMad,
}

/// Those that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    by_lid: FxHashMap<u16, Line>,
    /// LIDs whose questions wait, in the order of their turns.
    turns: VecDeque<u16>,
    len: usize,
}

/// The questions of a LID.
#[derive(Clone, Debug, Default)]
struct Line {
    waiting: VecDeque<Waiting>,
    /// Turns that it passes, because its last answer was long.
    debt: usize,
}

impl Queue {
    /// Takes a question in, unless its LID or all together have too many. Turns are counted by `lid`.
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

    /// The next question: the oldest of the LID whose turn it is.
    pub fn pop(&mut self) -> Option<Waiting> {
        // Each turn that is passed pays for so many bytes of an answer, so this ends.
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

    /// A LID was given an answer of so many bytes: a long one costs it turns.
    pub fn charge(&mut self, lid: u16, bytes: usize) {
        if let Some(line) = self.by_lid.get_mut(&lid) {
            line.debt = bytes / ANSWER_BYTES_PER_TURN;
        }
    }

    /// How many wait.
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
