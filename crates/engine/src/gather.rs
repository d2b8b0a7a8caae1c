//! Batches posts in close succession. A program that streams small messages posts them one by one, and a system call
//! for each would cost several times the rest. So while the program polls (a poster will poll soon, and that sends),
//! the first posts after a poll leave at once; of those that follow, posts within some microseconds of the last send
//! wait for each other. If a program posts and then neither posts nor polls, the background thread notices within a
//! millisecond and sends its last few messages.

use weft_verbs::{Duration, Instant};

/// Posts after a poll that leave at once: a program that waits for an answer posts no more than these.
const PROMPT_POSTS: u32 = 2;
/// How long after a send posts wait for each other.
const GATHER: Duration = Duration::from_micros(20);
/// Maximum number of waiting posts: a full send of the link.
const WAITING_MAX: u32 = 64;

/// The batching decision.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gather {
    /// Posts since the last poll.
    posts: u32,
    /// Posts since the last send.
    waiting: u32,
    sent_at: Instant,
}

impl Gather {
    /// Records a post; returns whether it waits.
    #[inline]
    pub fn waits(&mut self, now: Instant) -> bool {
        self.posts = self.posts.saturating_add(1);
        if self.posts <= PROMPT_POSTS {
            return false;
        }
        self.waiting += 1;
        self.waiting < WAITING_MAX && now.since(self.sent_at) < GATHER
    }

    /// Records that everything leaves.
    #[inline]
    pub fn on_transmit(&mut self, now: Instant) {
        self.waiting = 0;
        self.sent_at = now;
    }

    /// Records a poll; returns whether posts wait.
    #[inline]
    pub fn end(&mut self) -> bool {
        self.posts = 0;
        std::mem::take(&mut self.waiting) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Posts 100 ns apart; returns the number of sends.
    fn sends(gather: &mut Gather, posts: u64, from: u64) -> u32 {
        let mut sends = 0;
        for i in 0..posts {
            let now = Instant(1_000_000 + from + i * 100);
            if !gather.waits(now) {
                gather.on_transmit(now);
                sends += 1;
            }
        }
        sends
    }

    #[test]
    fn few_posts_leave_at_once_and_many_together() {
        let mut gather = Gather::default();
        assert_eq!(sends(&mut gather, 2, 0), 2);
        assert!(!gather.end());
        assert_eq!(sends(&mut gather, 2, 400), 2);
        assert_eq!(sends(&mut gather, 160, 800), 2);
        assert!(gather.end(), "the last ones wait for the poll");
        assert!(!gather.end());
    }
}
