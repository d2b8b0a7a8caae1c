//! How long the manager looks for datagrams by itself before it sleeps: not at all, unless they come so densely that sleep
//! would cost more than it saves. Between two looks others have the processor if they want it.

use std::time::{Duration, Instant};

/// How long it looks.
const LOOK: Duration = Duration::from_micros(50);

/// Who is woken after no more sleep than this slept too little: datagrams come densely.
const DENSE: Duration = Duration::from_micros(200);

/// How often it looks in vain until datagrams count as rare.
const VAIN_LOOKS_MAX: u32 = 8;

/// So often it looks at others than datagrams: people who ask, signals, jobs that are done.
const OTHERS_EVERY: Duration = Duration::from_millis(1);

/// Of one port.
#[derive(Debug)]
pub(super) struct Patience {
    /// Looks in vain that are left until datagrams count as rare.
    left: u32,
    others: Instant,
}

impl Patience {
    /// Nothing has come yet.
    pub fn new(now: Instant) -> Patience {
        Patience { left: 0, others: now }
    }

    /// Whether datagrams come so densely that they are to be looked for.
    pub fn is_dense(&self) -> bool {
        self.left > 0
    }

    /// Nothing is there: whether to look on, which was begun at `begin`.
    pub fn looks_on(&mut self, begin: Instant, now: Instant) -> bool {
        let goes_on = now.saturating_duration_since(begin) < LOOK;
        if !goes_on {
            self.left -= 1;
        }
        goes_on
    }

    /// Whether others are to be looked at now.
    pub fn is_for_others(&mut self, now: Instant) -> bool {
        let due = now.saturating_duration_since(self.others) >= OTHERS_EVERY;
        if due {
            self.others = now;
        }
        due
    }

    /// It slept for so long.
    pub fn on_slept(&mut self, length: Duration) {
        if length < DENSE {
            self.left = VAIN_LOOKS_MAX;
        }
    }
}
