//! Deadlines of queue pairs. Each queue pair is here at most once, under a time no later than its true deadline: a
//! deadline that moves back (every acknowledgement does that) costs nothing until its old time comes.

use std::collections::BTreeSet;

use weft_verbs::{Instant, QpId};

/// The set of deadlines. Each queue pair's own entry has its time in the set (`armed`).
#[derive(Debug, Default)]
pub(crate) struct Timers {
    set: BTreeSet<(Instant, QpId)>,
}

impl Timers {
    /// Records that `id` must run by `deadline`.
    #[inline]
    pub(crate) fn wake_by(&mut self, id: QpId, deadline: Instant, armed: &mut Option<Instant>) {
        if armed.is_some_and(|at| at <= deadline) {
            return;
        }
        self.insert(id, deadline, armed);
    }

    fn insert(&mut self, id: QpId, deadline: Instant, armed: &mut Option<Instant>) {
        self.remove(id, armed);
        self.set.insert((deadline, id));
        *armed = Some(deadline);
    }

    /// Removes `id`.
    pub(crate) fn remove(&mut self, id: QpId, armed: &mut Option<Instant>) {
        if let Some(at) = armed.take() {
            self.set.remove(&(at, id));
        }
    }

    /// Returns the earliest deadline.
    pub(crate) fn first(&self) -> Option<(Instant, QpId)> {
        self.set.first().copied()
    }

    /// Moves the queue pairs whose time is `now` or earlier to `due`, earliest first; the caller must clear their
    /// `armed` times.
    pub(crate) fn take_due(&mut self, now: Instant, due: &mut Vec<QpId>) {
        while let Some((at, id)) = self.first() {
            if at > now {
                break;
            }
            self.set.pop_first();
            due.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_deadline_is_free_and_an_earlier_one_counts() {
        let id = QpId { index: 4, generation: 1 };
        let mut timers = Timers::default();
        let mut armed = None;
        timers.wake_by(id, Instant(50), &mut armed);
        timers.wake_by(id, Instant(90), &mut armed);
        assert_eq!(timers.first(), Some((Instant(50), id)));
        timers.wake_by(id, Instant(20), &mut armed);
        assert_eq!((timers.first(), timers.set.len()), (Some((Instant(20), id)), 1));
        let mut due = Vec::new();
        timers.take_due(Instant(19), &mut due);
        assert!(due.is_empty());
        timers.take_due(Instant(20), &mut due);
        assert_eq!((due.len(), timers.first()), (1, None));
    }
}
