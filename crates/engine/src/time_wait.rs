//! The last acknowledgement. A peer that misses it resends its last message again and again, and if the queue pair is
//! gone by then, the peer's operation ends in an error although everything arrived (Linux's rxe, configured for seven
//! retries, retries for ever). A hardware adapter drops its queue pair just as quickly, but its network hardly loses
//! packets. So here a queue pair that has seen loss stays, when the program destroys it, until its peer has been quiet
//! for a while, and resends its last acknowledgement: the peer's own timeout might expire too late. A queue pair
//! without loss goes at once.

use std::sync::atomic::{AtomicU64, Ordering};

use weft_verbs::{Duration, Instant, QpId};

use crate::Engine;

/// How long the peer must have been quiet: longer than the interval between a few of its probes.
const QUIET: Duration = Duration::from_millis(20);
/// Maximum stay of one queue pair.
const STAY_MAX: Duration = Duration::from_millis(250);
/// Maximum stay of all queue pairs of a process together: a program that destroys thousands does not wait for each.
const STAY_TOTAL_MAX: Duration = Duration::from_secs(2);
/// Minimum number of times the last acknowledgement is resent in that time; each may be lost.
const ACKNOWLEDGED_AGAIN: u32 = 4;
/// Time between two checks; the background thread serves meanwhile.
const LOOK: Duration = Duration::from_millis(1);

static STAYED_NS: AtomicU64 = AtomicU64::new(0);

impl Engine {
    /// Lets a queue pair that the program is destroying answer its peer's retransmissions.
    pub fn time_wait(&self, qp: QpId) {
        let start = self.now();
        let spent = Duration::from_nanos(STAYED_NS.load(Ordering::Relaxed));
        let longest = STAY_MAX.min(STAY_TOTAL_MAX.saturating_sub(spent));
        let (mut packets, mut changed): (u64, Instant) = (0, start);
        let mut acknowledged = start;
        loop {
            let Ok(Some(stats)) = self.query(|hca, _| Ok(hca.answering(qp))) else { return };
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
