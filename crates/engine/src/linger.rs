//! The last acknowledgement. A peer that does not get it sends its last message again and again, and if the queue pair
//! has gone meanwhile, it ends in an error though everything arrived (Linux's rxe, told to try seven times, tries for ever).
//! An adapter's queue pair goes just as quickly, but its network hardly loses; so here a queue pair that has met loss stays,
//! when it is to be destroyed, until its peer has been quiet for a while, and sends its last acknowledgement again: a peer
//! that waits for its timeout would come too late. One that met none goes at once.

use std::sync::atomic::{AtomicU64, Ordering};

use weft_verbs::{Duration, Instant, QpId};

use crate::Engine;

/// How long the peer must have been quiet: longer than a few of its probes are apart.
const QUIET: Duration = Duration::from_millis(20);
/// How long one queue pair stays at most.
const STAY_MAX: Duration = Duration::from_millis(250);
/// How long all queue pairs of a process stay at most: a program that destroys thousands does not wait for each.
const STAY_TOTAL_MAX: Duration = Duration::from_secs(2);
/// How often the last acknowledgement is sent meanwhile, at least; each may be lost.
const ACKNOWLEDGED_AGAIN: u32 = 4;
/// Between two looks; the background thread serves meanwhile.
const LOOK: Duration = Duration::from_millis(1);

static STAYED_NS: AtomicU64 = AtomicU64::new(0);

impl Engine {
    /// Let a queue pair that is to be destroyed answer what its peer repeats.
    pub fn linger(&self, qp: QpId) {
        let start = self.now();
        let spent = Duration::from_nanos(STAYED_NS.load(Ordering::Relaxed));
        let longest = STAY_MAX.min(STAY_TOTAL_MAX.saturating_sub(spent));
        let (mut packets, mut changed): (u64, Instant) = (0, start);
        let mut acknowledged = start;
        loop {
            let Ok(Some(stats)) = self.quietly(|hca, _| Ok(hca.answering(qp))) else { return };
            if !stats.met_loss() {
                return;
            }
            let now = self.now();
            if stats.rx_packets != packets {
                (packets, changed) = (stats.rx_packets, now);
            }
            if now.since(changed) >= QUIET || now.since(start) >= longest {
                STAYED_NS.fetch_add(now.since(start).as_nanos() as u64, Ordering::Relaxed);
                return;
            }
            if now.since(acknowledged) >= QUIET / ACKNOWLEDGED_AGAIN {
                acknowledged = now;
                let _ = self.with(|hca, now| {
                    hca.acknowledge_again(now, qp);
                    Ok(())
                });
            }
            std::thread::sleep(LOOK);
        }
    }
}
