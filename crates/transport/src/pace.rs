//! Pacing of services without acknowledgements. An adapter's link limits the rate of UC and UD, and the peer's adapter
//! keeps up with the link; here the peer is a process that reads packets from a socket's buffer, and a sender that only
//! hands them to the kernel is faster than that. Without pacing a program that streams megabytes over UC would lose
//! packets that an adapter never loses.

use weft_verbs::{Duration, Instant};

/// Fixed cost of a packet at the peer.
const PACKET_NS: u64 = 400;
/// Payload bytes that the peer handles per microsecond beside that: copying and the CRC.
const BYTES_PER_US: u64 = 800;
/// Time that an idle sender saves up: its burst of about 200 KiB fits well into any socket's buffer.
const SAVED_MAX: Duration = Duration::from_micros(200);

/// Time at which the next packet may be sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// End of the time that the packets sent so far take.
    due: Instant,
}

impl Pace {
    pub fn is_open(&self, now: Instant) -> bool {
        self.due <= now
    }

    /// Returns when the next packet may be sent.
    pub fn opens_at(&self) -> Instant {
        self.due
    }

    /// Accounts for a packet with `bytes` of payload.
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
