//! Questions that wait for their answers, in a queue for each LID: each LID has its turn, however many another asks.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use weft_wire::mad::sa::SaMad;

use super::limits::{QUESTIONS_MAX, QUESTIONS_PER_LID_MAX};
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
    by_lid: FxHashMap<u16, VecDeque<Waiting>>,
    /// LIDs whose questions wait, in the order of their turns.
    turns: VecDeque<u16>,
    len: usize,
}

impl Queue {
    /// Takes a question in, unless its LID or all together have too many.
    pub fn push(&mut self, waiting: Waiting) -> bool {
        if self.len >= QUESTIONS_MAX {
            return false;
        }
        let queue = self.by_lid.entry(waiting.from.lid).or_default();
        if queue.len() >= QUESTIONS_PER_LID_MAX {
            return false;
        }
        if queue.is_empty() {
            self.turns.push_back(waiting.from.lid);
        }
        queue.push_back(waiting);
        self.len += 1;
        true
    }

    /// The next question: the oldest of the LID whose turn it is.
    pub fn pop(&mut self) -> Option<Waiting> {
        let lid = self.turns.pop_front()?;
        let queue = self.by_lid.get_mut(&lid)?;
        let next = queue.pop_front();
        if queue.is_empty() {
            self.by_lid.remove(&lid);
        } else {
            self.turns.push_back(lid);
        }
        self.len -= usize::from(next.is_some());
        next
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

    #[test]
    fn a_flood_waits_while_others_have_their_turns() {
        let mut queue = Queue::default();
        let taken = (0..1000).filter(|tid| queue.push(question(7, *tid))).count();
        assert_eq!(taken, QUESTIONS_PER_LID_MAX);
        for lid in 1..=3 {
            assert!(queue.push(question(lid, 1)));
        }
        let order: Vec<u16> = std::iter::from_fn(|| queue.pop()).take(6).map(|waiting| waiting.from.lid).collect();
        assert_eq!(order, [7, 1, 2, 3, 7, 7]);
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), QUESTIONS_PER_LID_MAX - 3);
        assert_eq!((queue.len(), queue.by_lid.len(), queue.turns.len()), (0, 0, 0));
        let all = (1..=0xbfff_u16).flat_map(|lid| [question(lid, 1), question(lid, 2)]);
        assert_eq!(all.filter(|waiting| queue.push(*waiting)).count(), QUESTIONS_MAX);
    }
}
