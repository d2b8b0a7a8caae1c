//! Retransmission of unanswered datagrams, and when their sender gives up.
//!
//! A management timeout is seconds long, because the other end may be a busy program; a lost datagram would stall a
//! connection for as long. So the first wait is split: the datagram is repeated after an eighth and after a half of it.
//! Those repeats are not counted, and the total time until the sender gives up stays as requested.

use weft_verbs::{Duration, Instant};

/// Points of the first wait at which a datagram is repeated, in eighths of it.
const EARLY_EIGHTHS: [u32; 2] = [1, 4];

/// Retransmission state of one unanswered datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    /// Length of one try.
    timeout: Duration,
    /// Tries left after this one.
    left: u8,
    /// Start of this try.
    began: Instant,
    /// Early repeats sent so far.
    early: u8,
}

/// Action at a poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// Keep waiting.
    NotYet,
    /// Send the datagram again.
    Again,
    /// Give up: no answer arrived.
    GiveUp,
}

impl Retry {
    /// Starts with a datagram sent now, which is sent up to `retries` more times when no answer arrives within
    /// `timeout`.
    pub fn start(now: Instant, timeout: Duration, retries: u8) -> Retry {
        Retry { timeout, left: retries, began: now, early: 0 }
    }

    /// Returns when [`Retry::poll`] must run next.
    pub fn deadline(&self) -> Instant {
        match EARLY_EIGHTHS.get(usize::from(self.early)) {
            Some(eighths) => self.began + self.timeout / 8 * *eighths,
            None => self.began + self.timeout,
        }
    }

    /// Returns the action due now.
    pub fn poll(&mut self, now: Instant) -> Due {
        if now < self.deadline() {
            return Due::NotYet;
        }
        if usize::from(self.early) < EARLY_EIGHTHS.len() {
            self.early += 1;
            return Due::Again;
        }
        if self.left == 0 {
            return Due::GiveUp;
        }
        self.left -= 1;
        self.began = now;
        Due::Again
    }

    /// Applies the other end's request for more time: this try, and those after it, last this long from now on.
    pub fn extend(&mut self, now: Instant, timeout: Duration) {
        self.timeout = timeout;
        self.began = now;
        self.early = EARLY_EIGHTHS.len() as u8;
    }

    /// Lowers the number of tries left.
    pub fn limit(&mut self, retries: u8) {
        self.left = self.left.min(retries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_millis(800);

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn course(mut retry: Retry) -> Vec<(u64, Due)> {
        let mut seen = Vec::new();
        loop {
            let deadline = retry.deadline();
            let due = retry.poll(deadline);
            seen.push((deadline.0 / 1_000_000, due));
            if due == Due::GiveUp {
                return seen;
            }
        }
    }

    #[test]
    fn early_repeats_do_not_move_the_end() {
        let expected =
            [(100, Due::Again), (400, Due::Again), (800, Due::Again), (1600, Due::Again), (2400, Due::GiveUp)];
        assert_eq!(course(Retry::start(at(0), T, 2)), expected);
    }

    #[test]
    fn patience_replaces_every_wait_after_it() {
        let mut retry = Retry::start(at(0), T, 1);
        assert_eq!(retry.poll(at(99)), Due::NotYet);
        retry.extend(at(50), Duration::from_secs(2));
        assert_eq!(course(retry), [(2050, Due::Again), (4050, Due::GiveUp)]);
        retry.limit(0);
        assert_eq!(course(retry), [(2050, Due::GiveUp)]);
    }
}
