//! Polling time of a thread that waits for a datagram before it sleeps: none, unless answers arrive so densely that
//! sleep would cost more than it saves. A thread does not poll either while other threads want the processor, above all
//! the daemon on the same one: polling uses up the time that the daemon needs to answer.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Polling time.
const LOOK: Duration = Duration::from_micros(30);

/// A thread that slept for no longer than this should have polled: answers arrive densely.
const DENSE: Duration = Duration::from_micros(150);

/// Time after which a polling thread yields its processor: the daemon may be waiting for it.
const YIELD_AFTER: Duration = Duration::from_micros(1);

/// A gap this long between two clock readings means that another thread had the processor.
const PREEMPTED: Duration = Duration::from_micros(100);

/// Time without polling after that.
const BACKOFF: Duration = Duration::from_millis(20);

/// Polls between two clock readings.
const LOOKS: u32 = 16;

/// Origin of the times in [`BusyPoll::backoff_until`].
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Polling state of one port.
#[derive(Debug, Default)]
pub(crate) struct BusyPoll {
    dense: AtomicBool,
    /// End of the time without polling, in nanoseconds.
    backoff_until: AtomicU64,
}

fn nanoseconds(at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(*START).as_nanos()).unwrap_or(u64::MAX)
}

impl BusyPoll {
    /// Whether answers arrive so densely that a thread should poll for them.
    pub(crate) fn is_dense(&self) -> bool {
        self.dense.load(Ordering::Relaxed) && nanoseconds(Instant::now()) >= self.backoff_until.load(Ordering::Relaxed)
    }

    /// Polls until `came` returns true, for a limited time and no longer than until `deadline`.
    pub(crate) fn look(&self, deadline: Option<Instant>, mut came: impl FnMut() -> bool) {
        let begin = Instant::now();
        let mut before = Duration::ZERO;
        loop {
            for _ in 0..LOOKS {
                if came() {
                    return;
                }
                std::hint::spin_loop();
            }
            let passed = begin.elapsed();
            if passed.saturating_sub(before) >= PREEMPTED {
                self.backoff_until.store(nanoseconds(begin + passed + BACKOFF), Ordering::Relaxed);
            }
            before = passed;
            if passed >= LOOK || deadline.is_some_and(|deadline| begin + passed >= deadline) {
                return self.dense.store(false, Ordering::Relaxed);
            }
            if passed >= YIELD_AFTER {
                std::thread::yield_now();
            }
        }
    }

    /// Records the length of a thread's sleep.
    pub(crate) fn on_slept(&self, length: Duration) {
        if length < DENSE {
            self.dense.store(true, Ordering::Relaxed);
        }
    }
}
