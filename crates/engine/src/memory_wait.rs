//! Programs that wait for a WRITE by reading their own memory. Such a program polls its completion queue for its own
//! requests alone. Between two of them it calls nothing, and the background thread would have to deliver each message,
//! with a wake-up on a processor that the program keeps busy. So where the background thread finds packets that a
//! formerly polling program left, the next poll that takes the last completion turns the pump a little longer: the
//! peer's next message mostly arrives within that time. This continues as long as it succeeds.

use weft_transport::RxPacket;
use weft_verbs::{Duration, Instant};
use weft_wire::opcode::Kind;

/// Consecutive continued polls that may time out: the peer may start later.
const TIMED_OUT_MAX: u32 = 32;
/// Consecutive continued polls that may find completions instead.
const COMPLETED_MAX: u32 = 4;
/// Pause before the next attempt after that: initial and maximum.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(256));
/// How long the background thread serves after a poll that timed out: while polls still continue, and after they
/// stopped.
const HELPED: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

/// Outcome of a continued poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// A WRITE arrived.
    Written,
    /// Something else arrived: the program waits for completions.
    Completed,
    /// Nothing arrived.
    TimedOut,
}

/// The decision, for one process.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryWait {
    on: bool,
    /// A WRITE arrived since the last post: the program has the data it waits for.
    written: bool,
    /// Failures on the way to [`TIMED_OUT_MAX`].
    vain: u32,
    pause: Duration,
    paused_until: Instant,
    /// The last continued poll timed out.
    timed_out: bool,
    helped_until: Instant,
}

impl MemoryWait {
    /// Records a posted request.
    #[inline]
    pub fn on_post(&mut self) {
        self.written = false;
    }

    /// Records a packet.
    #[inline]
    pub fn on_packet(&mut self, rx: &RxPacket<'_>) {
        self.written |= matches!(rx.packet.info.kind, Kind::WriteOnly | Kind::WriteLast);
    }

    /// Records a WRITE that came by a stream.
    pub fn on_write(&mut self) {
        self.written = true;
    }

    /// Whether a WRITE arrived since the last post.
    pub fn is_written(&self) -> bool {
        self.written
    }

    /// Whether a poll that took the last completion continues.
    #[inline]
    pub fn goes_on(&self) -> bool {
        self.on && !self.written
    }

    /// Records that the program polled and then left packets to the background thread.
    pub fn on_left(&mut self, now: Instant) {
        if now >= self.paused_until {
            self.on = true;
        } else if self.timed_out {
            self.helped_until = now + HELPED.1;
        }
    }

    /// Records the outcome of a continued poll.
    pub fn on_ended(&mut self, ended: Ended, now: Instant) {
        self.timed_out = ended == Ended::TimedOut;
        if ended == Ended::Written {
            (self.vain, self.pause) = (0, Duration::ZERO);
            return;
        }
        self.vain += if self.timed_out { 1 } else { TIMED_OUT_MAX / COMPLETED_MAX };
        if self.vain >= TIMED_OUT_MAX {
            let (first, longest) = PAUSE;
            self.pause = (self.pause * 2).clamp(first, longest);
            (self.on, self.vain, self.paused_until) = (false, 0, now + self.pause);
        }
        if self.timed_out {
            self.helped_until = now + if self.on { HELPED.0 } else { HELPED.1 };
        }
    }

    /// Whether the background thread must serve although the program polls.
    pub fn is_helped(&self, now: Instant) -> bool {
        now < self.helped_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant(1_000_000_000 + us * 1000)
    }

    #[test]
    fn it_begins_where_packets_are_left_and_ends_where_it_is_in_vain() {
        let mut wait = MemoryWait::default();
        assert!(!wait.goes_on());
        wait.on_left(at(0));
        assert!(wait.goes_on());
        for _ in 0..2 * TIMED_OUT_MAX {
            wait.on_ended(Ended::TimedOut, at(1));
            wait.on_ended(Ended::Written, at(2));
        }
        assert!(wait.goes_on() && wait.is_helped(at(2)) && !wait.is_helped(at(2002)));
        (0..TIMED_OUT_MAX).for_each(|_| wait.on_ended(Ended::TimedOut, at(3)));
        assert!(!wait.goes_on() && wait.is_helped(at(50_000)) && !wait.is_helped(at(200_000)));
        wait.on_left(at(1000));
        assert!(!wait.goes_on() && wait.is_helped(at(100_500)), "it pauses");
        wait.on_left(at(3000));
        assert!(wait.goes_on());
    }

    #[test]
    fn a_program_that_waits_for_completions_is_left_alone_for_longer_and_longer() {
        let mut wait = MemoryWait::default();
        let mut tries = 0;
        for us in 0..2_000_000 {
            wait.on_left(at(us));
            if wait.goes_on() {
                tries += 1;
                wait.on_ended(Ended::Completed, at(us));
                assert!(!wait.is_helped(at(us)));
            }
        }
        assert!(tries <= COMPLETED_MAX * 16, "{tries}");
    }
}
