//! Order of sending: queue pairs with packets to send, each once, first come first served.

use std::collections::VecDeque;

use weft_verbs::QpId;

/// The queue of queue pairs that want to send. Each entry's own `queued` flag records its membership, so that adding it
/// again costs nothing.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    turns: VecDeque<QpId>,
}

impl Schedule {
    /// Gives `id` a turn after all waiting ones, unless it already waits.
    pub(crate) fn add(&mut self, id: QpId, queued: &mut bool) {
        if !std::mem::replace(queued, true) {
            self.turns.push_back(id);
        }
    }

    /// Takes the next in turn; the caller must clear its `queued` flag.
    pub(crate) fn next(&mut self) -> Option<QpId> {
        self.turns.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.turns.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_waits_once_and_in_order() {
        let id = |index| QpId { index, generation: 0 };
        let mut schedule = Schedule::default();
        let mut marks = [false; 3];
        for i in [0, 1, 0, 2, 1] {
            schedule.add(id(i), &mut marks[i as usize]);
        }
        assert_eq!(schedule.len(), 3);
        let order: Vec<u32> = std::iter::from_fn(|| schedule.next()).map(|q| q.index).collect();
        assert_eq!(order, [0, 1, 2]);
    }
}
