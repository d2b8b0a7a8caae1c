//! When a question is due again.

use std::time::{Duration, Instant};

use crate::limits::COST_FACTOR;

/// One recurring question.
#[derive(Debug)]
pub struct Due {
    /// Intervals with and without a page that looks on.
    intervals: [Duration; 2],
    next: Option<Instant>,
}

impl Due {
    /// Makes a question that is due at once.
    pub fn new(intervals: [Duration; 2]) -> Due {
        Due { intervals, next: None }
    }

    /// Makes it due at once.
    pub fn hurry(&mut self) {
        self.next = None;
    }

    /// Returns whether it is due.
    pub fn is_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| next <= now)
    }

    /// Notes that it was asked from `start` to `end`.
    pub fn asked(&mut self, start: Instant, end: Instant, viewed: bool) {
        self.asked_at_most(start, end, viewed, COST_FACTOR);
    }

    /// Notes the same, for a question that rests for this many times its cost.
    pub fn asked_at_most(&mut self, start: Instant, end: Instant, viewed: bool, cost_factor: u32) {
        let interval = self.intervals[usize::from(!viewed)];
        let rest = end.saturating_duration_since(start).saturating_mul(cost_factor);
        self.next = Some((start + interval).max(end + rest.min(self.intervals[1])));
    }

    /// Returns when it is due.
    pub fn next(&self, now: Instant) -> Instant {
        self.next.unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expensive_questions_are_asked_less_often() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut due = Due::new([ms(100), ms(5000)]);
        assert!(due.is_due(start));
        due.asked(start, start + ms(1), true);
        assert_eq!(due.next(start), start + ms(100));
        due.asked(start, start + ms(10), true);
        assert_eq!(due.next(start), start + ms(410));
        due.asked(start, start + ms(1000), true);
        assert_eq!(due.next(start), start + ms(6000), "at most the interval without a page");
        due.asked(start, start, false);
        assert!(!due.is_due(start + ms(4999)) && due.is_due(start + ms(5000)));
        due.hurry();
        assert!(due.is_due(start));
    }
}
