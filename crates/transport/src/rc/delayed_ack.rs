//! Delay of acknowledgements, so that they ride along with answers. Programs that alternate answer a message within
//! microseconds; if this one does, its acknowledgement waits that long and leaves in the same system call as the
//! answer. The queue pair learns that from the traffic, and forgets it at the first acknowledgement that waited in
//! vain. The delay is off unless the owner allows it, because a process that ends while an acknowledgement waits leaves
//! its peer without one.

use weft_verbs::{Duration, Instant};

/// Time that an acknowledgement waits for an answer.
const ACK_DELAY: Duration = Duration::from_micros(40);
/// Number of quick answers in a row that enable the delay.
const QUICK_ANSWERS: u8 = 4;
/// Most packets that wait for one acknowledgement; a streaming peer needs its window moved.
const WAITING_PACKETS: u32 = 8;

/// State of the delay for one queue pair.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DelayedAck {
    /// Whether acknowledgements may wait at all.
    allowed: bool,
    /// Arrival of the first message since the last own one.
    heard_at: Option<Instant>,
    quick: u8,
    /// Until when the acknowledgement waits.
    hold_until: Option<Instant>,
}

impl DelayedAck {
    /// Sets whether acknowledgements may wait; if not, a waiting one is released.
    pub fn allow(&mut self, allowed: bool) {
        *self = DelayedAck { allowed, ..DelayedAck::default() };
    }

    /// Returns the initial state, with the setting kept.
    pub fn fresh(&self) -> DelayedAck {
        DelayedAck { allowed: self.allowed, ..DelayedAck::default() }
    }

    /// Handles a complete message that wants an acknowledgement; `waiting` packets have not been acknowledged.
    pub fn on_message(&mut self, waiting: u32, now: Instant) {
        if !self.allowed {
            return;
        }
        if self.heard_at.is_none() {
            self.heard_at = Some(now);
        }
        if waiting > WAITING_PACKETS || self.quick < QUICK_ANSWERS {
            self.hold_until = None;
        } else if self.hold_until.is_none() {
            self.hold_until = Some(now + ACK_DELAY);
        }
    }

    /// Records that the program sent an own message.
    pub fn on_own_message(&mut self, now: Instant) {
        let Some(heard) = self.heard_at.take() else { return };
        self.quick = if now.since(heard) <= ACK_DELAY { (self.quick + 1).min(QUICK_ANSWERS) } else { 0 };
        self.hold_until = None;
    }

    /// Returns whether the acknowledgement still waits.
    pub fn holds(&self, now: Instant) -> bool {
        self.hold_until.is_some_and(|t| now < t)
    }

    /// Returns when it stops waiting.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.hold_until
    }

    /// Ends the delay: if an acknowledgement waited, it waited in vain.
    pub fn on_timeout(&mut self, now: Instant) {
        if self.hold_until.is_some_and(|t| t <= now) {
            self.hold_until = None;
            self.quick = 0;
        }
    }
}
