//! Queue pairs that have something in flight to one peer. Each has a window of its own, and a thousand windows are more
//! than any peer's socket buffer holds: what overflows is lost, sent again, and lost again. So together they keep to a
//! bound, of which each that is busy has an equal share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes in flight to one peer, all queue pairs together: two of the largest windows.
const BYTES_MAX: u64 = 2 << 20;

/// The queue pairs of a process that send to one peer, seen alike by everybody who has a clone.
#[derive(Clone, Debug, Default)]
pub struct Crowd(Arc<AtomicU32>);

impl Crowd {
    /// Whether nobody else has a clone.
    pub fn is_forsaken(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

/// A queue pair's membership: counted while it has something in flight, and never after it has gone.
#[derive(Debug, Default)]
pub(crate) struct Share {
    crowd: Option<Crowd>,
    busy: bool,
}

impl Share {
    pub fn of(crowd: &Crowd) -> Share {
        Share { crowd: Some(crowd.clone()), busy: false }
    }

    /// Say whether something is in flight.
    pub fn set_busy(&mut self, busy: bool) {
        let Some(Crowd(count)) = &self.crowd else { return };
        match (self.busy, busy) {
            (false, true) => count.fetch_add(1, Ordering::Relaxed),
            (true, false) => count.fetch_sub(1, Ordering::Relaxed),
            _ => return,
        };
        self.busy = busy;
    }

    /// Packets that this one may have in flight, at least one: its acknowledgement makes the queue pair look again.
    pub fn packets(&self, mtu: u32) -> u64 {
        let Some(Crowd(count)) = &self.crowd else { return u64::MAX };
        let busy = u64::from(count.load(Ordering::Relaxed)).max(1);
        (BYTES_MAX / busy / u64::from(mtu)).max(1)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set_busy(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busy_share_alike_and_leave_nothing_behind() {
        let crowd = Crowd::default();
        let mut shares: Vec<Share> = (0..4).map(|_| Share::of(&crowd)).collect();
        assert_eq!(shares[0].packets(4096), 512, "nobody is busy");
        for share in &mut shares {
            share.set_busy(true);
            share.set_busy(true);
        }
        assert_eq!(shares[0].packets(4096), 128);
        shares[0].set_busy(false);
        shares.truncate(2);
        assert_eq!(shares[1].packets(4096), 512);
        shares.clear();
        assert!(crowd.is_forsaken());
        assert_eq!(crowd.0.load(Ordering::Relaxed), 0);
        assert_eq!(Share::default().packets(4096), u64::MAX);
    }
}
