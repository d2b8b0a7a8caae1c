//! How long a thread that waits for a datagram looks by itself before it sleeps: not at all, unless answers come so
//! densely that sleep would cost more than it saves. Where the processors are wanted by others, the daemon on the
//! same one first of all, it is not done either: who looks uses up the time that he needs when an answer is there.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long it looks.
const LOOK: Duration = Duration::from_micros(30);

/// Who is woken after no more sleep than this slept too little: answers come densely.
const DENSE: Duration = Duration::from_micros(150);

/// After so long a thread that looks lets others run on its processor: the daemon may be one of them.
const POLITE_AFTER: Duration = Duration::from_micros(1);

/// So long between two looks at the clock somebody else had the processor.
const TAKEN: Duration = Duration::from_micros(100);

/// For so long it is left to the others then.
const MODEST: Duration = Duration::from_millis(20);

/// Looks between two looks at the clock.
const LOOKS: u32 = 16;

/// What [`Patience::modest_until`] counts from.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Of one port.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    dense: AtomicBool,
    /// Until when the processors are left to others, in nanoseconds.
    modest_until: AtomicU64,
}

fn nanoseconds(at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(*START).as_nanos()).unwrap_or(u64::MAX)
}

impl Patience {
    /// Whether answers come so densely that a thread should look for them.
    pub(crate) fn is_dense(&self) -> bool {
        self.dense.load(Ordering::Relaxed) && nanoseconds(Instant::now()) >= self.modest_until.load(Ordering::Relaxed)
    }

    /// Looks until something came, for a while and no longer than until `deadline`.
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
            if passed.saturating_sub(before) >= TAKEN {
                self.modest_until.store(nanoseconds(begin + passed + MODEST), Ordering::Relaxed);
            }
            before = passed;
            if passed >= LOOK || deadline.is_some_and(|deadline| begin + passed >= deadline) {
                return self.dense.store(false, Ordering::Relaxed);
            }
            if passed >= POLITE_AFTER {
                std::thread::yield_now();
            }
        }
    }

    /// A thread slept for so long.
    pub(crate) fn on_slept(&self, length: Duration) {
        if length < DENSE {
            self.dense.store(true, Ordering::Relaxed);
        }
    }
}
