//! Pacing of services that nobody acknowledges. An adapter's link limits how fast UC and UD leave, and the peer's
//! adapter keeps up with the link; here the peer is a process that takes packets out of a socket's buffer, and a sender
//! that only hands them to the kernel is faster than that. Without pacing a program that streams megabytes over UC
//! would lose what it never loses on an adapter.

use weft_verbs::{Duration, Instant};

/// What a packet takes at the peer whatever its length.
const PACKET_NS: u64 = 400;
/// Payload bytes that the peer takes in a microsecond beside that: copying and the CRC.
const BYTES_PER_US: u64 = 800;
/// Time that an idle sender saves up: what it may send at once, about 200 KiB, is well inside any socket's buffer.
const SAVED_MAX: Duration = Duration::from_micros(200);

/// When the next packet may leave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// The time that packets sent so far take ends here.
    due: Instant,
}

impl Pace {
    pub fn is_open(&self, now: Instant) -> bool {
        self.due <= now
    }

    /// When it opens.
    pub fn opens_at(&self) -> Instant {
        self.due
    }

    /// A packet with `bytes` of payload leaves.
    pub fn spend(&mut self, now: Instant, bytes: u32) {
        let earliest = Instant(now.0.saturating_sub(SAVED_MAX.as_nanos() as u64));
        let takes = Duration::from_nanos(PACKET_NS + u64::from(bytes) * 1000 / BYTES_PER_US);
        self.due = self.due.max(earliest) + takes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_out_at_once_and_a_stream_at_the_rate() {
        let mut pace = Pace::default();
        let start = Instant(1_000_000_000);
        let mut burst = 0;
        while pace.is_open(start) {
            pace.spend(start, 4096);
            burst += 4096;
        }
        assert!((100 << 10..400 << 10).contains(&burst), "{burst}");
        let (mut now, mut sent) = (start, 0u64);
        while sent < 100 << 20 {
            now = now.max(pace.opens_at());
            pace.spend(now, 4096);
            sent += 4096;
        }
        let per_us = sent * 1000 / now.since(start).as_nanos() as u64;
        assert!((700..800).contains(&per_us), "{per_us} bytes a microsecond");
    }
}
