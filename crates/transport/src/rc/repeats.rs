//! Repetition of the last acknowledgement after a recovery. Linux's rxe needs it: an acknowledgement of a whole message
//! that arrives while rxe retransmits that message moves its window to the message's end, but does not complete the
//! message. It waits for one more acknowledgement, without a timer and without a packet that would request it. If the
//! network loses that one, the queue pair hangs for ever. A requester that needs no second copy ignores it, like a late
//! acknowledgement (IBA 9.7.5.1.1).

use weft_verbs::{Duration, Instant};

/// Times after the last duplicate at which the acknowledgement is repeated.
const AFTER: [Duration; 2] = [Duration::from_millis(4), Duration::from_millis(32)];

/// Number of duplicates in a row that show that a requester goes back. A single one is a probe.
const GOES_BACK: u32 = 2;

/// Time of the next repetition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeats {
    duplicates: u32,
    done: usize,
    at: Option<Instant>,
}

impl Repeats {
    /// Records a duplicate, which is acknowledged if `acked`.
    pub fn on_duplicate(&mut self, acked: bool, now: Instant) {
        self.duplicates = self.duplicates.saturating_add(1);
        if acked && self.duplicates >= GOES_BACK {
            (self.done, self.at) = (0, Some(now + AFTER[0]));
        }
    }

    /// Records that a retransmission closed a gap: any duplicate that follows shows that the requester goes back.
    pub fn on_gap_closed(&mut self) {
        self.duplicates = GOES_BACK - 1;
    }

    /// Records a new request: the requester goes on.
    #[inline]
    pub fn stop(&mut self) {
        (self.duplicates, self.at) = (0, None);
    }

    /// Returns the next deadline.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.at
    }

    /// Returns whether the acknowledgement is due again.
    pub fn on_timeout(&mut self, now: Instant) -> bool {
        let due = self.at.is_some_and(|at| at <= now);
        if due {
            self.done += 1;
            self.at = AFTER.get(self.done).map(|&after| now + after);
        }
        due
    }
}
