//! Decides when a poller reads the sockets. Reading them costs a system call, many times the cost of checking the rings
//! of the host's other processes. So while frames arrive and packets do not, the poller reads the sockets only now and
//! then.

use weft_verbs::{Duration, Instant};

/// How long packets may wait while frames arrive.
const INTERVAL: Duration = Duration::from_micros(10);
/// How long packets may wait that no queue pair awaits: those of a peer that this side does not know yet.
const IDLE_INTERVAL: Duration = Duration::from_micros(100);
/// How long after an arrival its kind counts as still arriving.
const LATELY: Duration = Duration::from_micros(200);

/// The polling decision.
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketPollInterval {
    /// When the sockets were last read.
    at: Instant,
    /// When frames last arrived.
    frames_at: Instant,
    /// When packets last arrived.
    packets_at: Instant,
}

impl SocketPollInterval {
    /// Records the arrival of frames.
    #[inline]
    pub fn on_frames(&mut self, now: Instant) {
        self.frames_at = now;
    }

    /// Records that the sockets were read, and whether packets came.
    #[inline]
    pub fn on_socket_poll(&mut self, now: Instant, packets: bool) {
        self.at = now;
        if packets {
            self.packets_at = now;
        }
    }

    /// Whether it is time to read the sockets although no queue pair awaits packets.
    #[inline]
    pub fn is_due_idle(&self, now: Instant) -> bool {
        now.since(self.at) >= IDLE_INTERVAL
    }

    /// Whether it is time to read the sockets.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        let lately = |at: Instant| now.since(at) < LATELY;
        !lately(self.frames_at) || lately(self.packets_at) || now.since(self.at) >= INTERVAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_alone_make_looks_rare() {
        let at = |us: u64| Instant(1_000_000_000 + us * 1000);
        let mut socket_poll = SocketPollInterval::default();
        assert!(socket_poll.is_due(at(0)), "nothing comes");
        socket_poll.on_socket_poll(at(0), false);
        assert!(socket_poll.is_due(at(1)));
        socket_poll.on_frames(at(1));
        assert!(!socket_poll.is_due(at(2)));
        assert!(socket_poll.is_due(at(10)));
        socket_poll.on_socket_poll(at(10), true);
        socket_poll.on_frames(at(11));
        assert!(socket_poll.is_due(at(12)), "both come");
        socket_poll.on_socket_poll(at(205), false);
        socket_poll.on_frames(at(211));
        assert!(!socket_poll.is_due(at(212)), "packets came long ago");
        socket_poll.on_socket_poll(at(300), false);
        assert!(socket_poll.is_due(at(412)), "frames too");
        assert!(socket_poll.is_due_idle(at(412)) && !socket_poll.is_due_idle(at(399)));
    }
}
