//! The last acknowledgement of a recovery is sent more than once. Linux's rxe needs it: an acknowledgement of a whole
//! message that reaches it while it sends that message again moves its window to the message's end, but does not complete
//! the message. It waits for one more acknowledgement, without a timer and without a packet that would ask for it. If the
//! network loses that one, the queue pair stands still for ever. A requester that needs no second copy ignores it: it looks
//! like an acknowledgement that was late (IBA 9.7.5.1.1).

use weft_verbs::{Duration, Instant};

/// How long after the last duplicate the acknowledgement is repeated, one after the other.
const AFTER: [Duration; 2] = [Duration::from_millis(4), Duration::from_millis(32)];

/// Packets executed before that a requester has sent again in a row from which on it goes back. One alone is a probe.
const GOES_BACK: u32 = 2;

/// When the acknowledgement is sent again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeats {
    duplicates: u32,
    done: usize,
    at: Option<Instant>,
}

impl Repeats {
    /// A duplicate came, and is acknowledged if `acked`.
    pub fn on_duplicate(&mut self, acked: bool, now: Instant) {
        self.duplicates = self.duplicates.saturating_add(1);
        if acked && self.duplicates >= GOES_BACK {
            (self.done, self.at) = (0, Some(now + AFTER[0]));
        }
    }

    /// A packet that was sent again closed a gap: any duplicate that follows tells that the requester goes back.
    pub fn on_gap_closed(&mut self) {
        self.duplicates = GOES_BACK - 1;
    }

    /// A new request came: the requester goes on.
    #[inline]
    pub fn stop(&mut self) {
        (self.duplicates, self.at) = (0, None);
    }

    /// The next deadline.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.at
    }

    /// Whether the acknowledgement is due again.
    pub fn on_timeout(&mut self, now: Instant) -> bool {
        let due = self.at.is_some_and(|at| at <= now);
        if due {
            self.done += 1;
            self.at = AFTER.get(self.done).map(|&after| now + after);
        }
        due
    }
}
