//! Retransmission timers. Only the QP's timeout can end a connection: it counts against `retry_cnt` only if a whole
//! timeout passes without progress. Before that, a probe after a few round trips, which is not counted, repairs a lost
//! tail. After a NAK the requester holds for about a round trip, to learn whether the peer kept the packets behind the
//! gap.

use weft_verbs::{Duration, Instant};

/// Shortest retry timer: two processes share a processor, and a peer that was not scheduled is not dead.
const RETRY_MIN: Duration = Duration::from_millis(16);
/// The specification permits the timer up to four times the requested time (IBA C9-141). That is used up to this
/// length: probes repair losses long before, so the timer only has to distinguish a dead peer from one that waits for a
/// processor.
const RETRY_STRETCHED_MAX: Duration = Duration::from_secs(1);
/// Shortest wait before a tail-loss probe.
const PROBE_MIN: Duration = Duration::from_millis(1);
/// Wait before the first probe while no round trip has been measured.
const PROBE_UNMEASURED: Duration = Duration::from_millis(4);
/// How many times the probe interval doubles.
const PROBE_BACKOFF_MAX: u32 = 12;
/// Shortest hold after a NAK.
const HOLD_MIN: Duration = Duration::from_micros(200);
/// Longest hold after a NAK.
const HOLD_MAX: Duration = Duration::from_millis(4);

/// Round trip estimate (RFC 6298 §2) and the deadlines that follow from it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timing {
    srtt_ns: u64,
    rttvar_ns: u64,
    /// A packet whose acknowledgement is being timed.
    sample: Option<(u64, Instant)>,
    /// Retry timer.
    pub retry_at: Option<Instant>,
    /// Tail-loss probe.
    pub probe_at: Option<Instant>,
    probes: u32,
}

impl Timing {
    /// Times the acknowledgement of a packet sent for the first time, unless another one is being timed.
    pub fn time(&mut self, psn: u64, now: Instant) {
        if self.sample.is_none() {
            self.sample = Some((psn, now));
        }
    }

    /// Stops timing: after a retransmission the answer may be to the first copy (Karn).
    pub fn forget_sample(&mut self) {
        self.sample = None;
    }

    /// Handles an acknowledgement of everything before `una`.
    pub fn on_ack(&mut self, una: u64, now: Instant) {
        let Some((psn, sent)) = self.sample else { return };
        if una <= psn {
            return;
        }
        self.sample = None;
        let rtt = now.since(sent).as_nanos() as u64;
        if self.srtt_ns == 0 {
            self.srtt_ns = rtt.max(1);
            self.rttvar_ns = rtt / 2;
        } else {
            self.rttvar_ns = (3 * self.rttvar_ns + self.srtt_ns.abs_diff(rtt)) / 4;
            self.srtt_ns = ((7 * self.srtt_ns + rtt) / 8).max(1);
        }
    }

    /// Starts both timers unless they run: something is outstanding.
    pub fn arm(&mut self, timeout: u8, now: Instant) {
        if self.probe_at.is_none() {
            self.restart(timeout, now);
        }
    }

    /// Restarts both timers, after progress for example.
    pub fn restart(&mut self, timeout: u8, now: Instant) {
        self.probes = 0;
        self.retry_at = (timeout != 0).then(|| now + self.retry_after(timeout));
        self.probe_at = Some(now + self.probe_after());
    }

    /// Stops both timers: nothing is outstanding, or the peer asked to wait.
    pub fn disarm(&mut self) {
        self.retry_at = None;
        self.probe_at = None;
        self.probes = 0;
    }

    /// Handles an expired retry timer, after which everything is retransmitted.
    pub fn on_retry(&mut self, timeout: u8, now: Instant) {
        self.forget_sample();
        self.retry_at = (timeout != 0).then(|| now + self.retry_after(timeout));
        self.probe_at = Some(now + self.probe_after());
    }

    /// Counts a probe. Returns the number of earlier ones since the last progress.
    pub fn on_probe(&mut self, now: Instant) -> u32 {
        let before = self.probes;
        self.probes = (self.probes + 1).min(PROBE_BACKOFF_MAX);
        self.forget_sample();
        self.probe_at = Some(now + self.probe_after());
        before
    }

    /// Returns the local ACK timeout (IBA 9.7.6.1.3), no shorter than the measured round trip requires.
    fn retry_after(&self, timeout: u8) -> Duration {
        let asked = Duration::from_nanos(4096 << timeout.min(31));
        let measured = Duration::from_nanos(self.srtt_ns + 4 * self.rttvar_ns);
        asked.max((4 * asked).min(RETRY_STRETCHED_MAX)).max(measured).max(RETRY_MIN)
    }

    fn probe_after(&self) -> Duration {
        let base = if self.srtt_ns == 0 {
            PROBE_UNMEASURED
        } else {
            Duration::from_nanos(4 * self.srtt_ns + 2 * self.rttvar_ns).max(PROBE_MIN)
        };
        base * (1 << self.probes)
    }

    /// Returns the smoothed round trip; `None` before the first measurement.
    pub fn round_trip(&self) -> Option<Duration> {
        (self.srtt_ns > 0).then(|| Duration::from_nanos(self.srtt_ns))
    }

    /// Returns how long to hold after a NAK.
    pub fn hold(&self) -> Duration {
        Duration::from_nanos(2 * self.srtt_ns + 4 * self.rttvar_ns).clamp(HOLD_MIN, HOLD_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timer_is_never_shorter_than_asked() {
        let mut t = Timing::default();
        assert_eq!(t.retry_after(14), 4 * Duration::from_nanos(4096 << 14));
        assert_eq!(t.retry_after(20), Duration::from_nanos(4096 << 20));
        assert_eq!(t.retry_after(1), RETRY_MIN);
        t.time(5, Instant(0));
        t.on_ack(5, Instant(1_000_000_000));
        assert_eq!(t.round_trip(), None, "the packet itself is not acknowledged yet");
        t.on_ack(6, Instant(1_000_000_000));
        assert_eq!(t.round_trip(), Some(Duration::from_secs(1)));
        assert_eq!(t.retry_after(14), Duration::from_secs(3));
        t.arm(0, Instant(0));
        assert_eq!(t.retry_at, None);
        assert!(t.probe_at.is_some());
    }

    #[test]
    fn probes_back_off() {
        let mut t = Timing::default();
        t.restart(14, Instant(0));
        assert_eq!(t.probe_at, Some(Instant(4_000_000)));
        assert_eq!(t.on_probe(Instant(4_000_000)), 0);
        assert_eq!(t.probe_at, Some(Instant(12_000_000)));
        assert_eq!(t.on_probe(Instant(12_000_000)), 1);
    }
}
