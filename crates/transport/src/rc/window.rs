//! Congestion window: additive increase, multiplicative decrease over bytes of outstanding PSNs. READ responses count
//! too, because the requester decides how many it asks for.

/// Initial window: fits the peer's default socket buffer without loss.
const INITIAL_BYTES: u64 = 256 << 10;
/// Largest window.
const MAX_BYTES: u64 = 1 << 20;
/// Smallest window, so that later packets reveal a gap.
const MIN_PACKETS: u64 = 4;
/// Packets that a loss-free round trip adds after the first loss.
const ADD_PACKETS: u64 = 4;

/// The window of one queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    bytes: u64,
    threshold: u64,
    /// Losses of PSNs before this one belong to a loss already handled.
    recover: u64,
}

impl Default for Window {
    fn default() -> Window {
        Window { bytes: INITIAL_BYTES, threshold: MAX_BYTES, recover: 0 }
    }
}

impl Window {
    /// Returns the PSNs that may be outstanding.
    pub fn packets(&self, mtu: u32) -> u64 {
        (self.bytes / u64::from(mtu)).max(MIN_PACKETS)
    }

    /// Handles the acknowledgement of `packets`.
    pub fn on_ack(&mut self, packets: u64, mtu: u32) {
        if self.bytes >= MAX_BYTES {
            return;
        }
        let acked = packets * u64::from(mtu);
        let grown = if self.bytes < self.threshold {
            acked
        } else {
            // In proportion, so that one window's acknowledgements add ADD_PACKETS.
            ADD_PACKETS * u64::from(mtu) * acked / self.bytes.max(1)
        };
        self.bytes = (self.bytes + grown).min(MAX_BYTES);
    }

    /// Handles the loss of packet `psn`, with `max` the PSN after the last one sent.
    pub fn on_loss(&mut self, psn: u64, max: u64, mtu: u32) {
        if psn < self.recover {
            return;
        }
        self.recover = max;
        self.bytes = (self.bytes / 2).max(MIN_PACKETS * u64::from(mtu));
        self.threshold = self.bytes;
    }

    /// Handles a whole timeout without an answer.
    pub fn on_timeout(&mut self, max: u64, mtu: u32) {
        self.recover = max;
        self.threshold = (self.bytes / 2).max(MIN_PACKETS * u64::from(mtu));
        self.bytes = MIN_PACKETS * u64::from(mtu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_once_a_round_trip() {
        let mut w = Window::default();
        assert_eq!(w.packets(1024), 256);
        w.on_loss(10, 200, 1024);
        assert_eq!(w.packets(1024), 128);
        w.on_loss(150, 260, 1024);
        assert_eq!(w.packets(1024), 128);
        w.on_loss(201, 300, 1024);
        assert_eq!(w.packets(1024), 64);
        for n in 0..20 {
            w.on_loss(1000 * n, 1000 * n + 1, 1024);
        }
        assert_eq!(w.packets(1024), MIN_PACKETS);
        for _ in 0..1_000_000 {
            w.on_ack(4, 1024);
        }
        assert_eq!(w.packets(1024), MAX_BYTES / 1024);
    }
}
