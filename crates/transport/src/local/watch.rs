//! Watchdog for missing answers. It has one deadline at a time, which progress does not move, so a message costs
//! nothing. If there was progress since the last check, the deadline only starts a new interval.

use weft_verbs::{Duration, Instant};

/// Time between two checks while there is progress, and before the first repetition.
const LOOK: Duration = Duration::from_millis(4);
/// How many times that interval doubles without progress.
const LOOK_DOUBLINGS: u32 = 8;
/// Shortest retry timer: two processes share a processor, and a peer that was not scheduled is not dead.
const RETRY_MIN: Duration = Duration::from_millis(16);
/// The specification permits the timer up to four times the requested time (IBA C9-141); that is used up to this
/// length.
const RETRY_STRETCHED_MAX: Duration = Duration::from_secs(1);

/// Result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// Not due yet, or there was progress.
    Fine,
    /// A frame may be lost: repeat it, if the peer has taken the frames out of the ring.
    Doubt,
    /// The queue pair's timeout has expired.
    TimedOut,
}

/// Watchdog for outstanding frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    /// Time of the next check.
    pub at: Option<Instant>,
    /// Progress counter.
    progress: u64,
    /// Its value at the last check.
    seen: u64,
    /// Time of the last progress or timeout, as far as checks can tell.
    since: Instant,
    doubts: u32,
}

impl Watch {
    /// Starts the watchdog: something is outstanding.
    #[inline]
    pub fn arm(&mut self, now: Instant) {
        if self.at.is_none() {
            self.at = Some(now + LOOK);
            self.since = now;
            self.seen = self.progress;
            self.doubts = 0;
        }
    }

    /// Records an answer.
    #[inline]
    pub fn on_progress(&mut self) {
        self.progress += 1;
    }

    /// Stops the watchdog: nothing is outstanding, or the peer asked to wait.
    pub fn disarm(&mut self) {
        self.at = None;
    }

    /// Restarts the timeout, because the peer does not run.
    pub fn excuse(&mut self, now: Instant) {
        self.since = now;
    }

    /// Checks for progress, if due; `timeout` is the queue pair's local ACK timeout.
    pub fn look(&mut self, timeout: u8, now: Instant) -> Look {
        if self.at.is_none_or(|at| now < at) {
            return Look::Fine;
        }
        if self.progress != self.seen {
            (self.seen, self.since, self.doubts) = (self.progress, now, 0);
            self.at = Some(now + LOOK);
            return Look::Fine;
        }
        self.doubts = (self.doubts + 1).min(LOOK_DOUBLINGS);
        let next = now + LOOK * (1 << self.doubts);
        let Some(limit) = retry_after(timeout) else {
            self.at = Some(next);
            return Look::Doubt;
        };
        if now.since(self.since) >= limit {
            self.since = now;
            self.at = Some(next.min(now + limit));
            return Look::TimedOut;
        }
        self.at = Some(next.min(self.since + limit));
        Look::Doubt
    }
}

/// Returns the local ACK timeout (IBA 9.7.6.1.3); none for 0.
fn retry_after(timeout: u8) -> Option<Duration> {
    let asked = Duration::from_nanos(4096 << timeout.min(31));
    (timeout != 0).then(|| asked.max((4 * asked).min(RETRY_STRETCHED_MAX)).max(RETRY_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant(n * 1_000_000)
    }

    #[test]
    fn progress_puts_doubts_off() {
        let mut watch = Watch::default();
        watch.arm(ms(0));
        assert_eq!(watch.look(14, ms(3)), Look::Fine);
        watch.on_progress();
        assert_eq!(watch.look(14, ms(4)), Look::Fine);
        assert_eq!(watch.at, Some(ms(8)));
        assert_eq!(watch.look(14, ms(8)), Look::Doubt);
        assert_eq!(watch.at, Some(ms(16)));
    }

    #[test]
    fn the_timeout_is_kept_and_never_shorter_than_asked() {
        let mut watch = Watch::default();
        watch.arm(ms(0));
        let mut timed_out = Vec::new();
        while timed_out.len() < 2 {
            let now = watch.at.unwrap();
            if watch.look(14, now) == Look::TimedOut {
                timed_out.push(now);
            }
        }
        let limit = retry_after(14).unwrap();
        assert_eq!(timed_out, [Instant(0) + limit, Instant(0) + limit + limit]);
        assert!(limit >= Duration::from_nanos(4096 << 14));
        assert_eq!(retry_after(0), None);
        assert_eq!(retry_after(1), Some(RETRY_MIN));
    }
}
