//! When an acknowledgement may ride along. Programs that talk in turns answer a message within microseconds; if this
//! one does, its acknowledgement waits that long and leaves in the same system call as the answer. It is learned from
//! the traffic, and forgotten at the first acknowledgement that waited in vain. It is off unless the owner allows it,
//! because a process that ends while an acknowledgement waits leaves its peer without one.

use weft_verbs::{Duration, Instant};

/// How long an acknowledgement waits for company.
const ACK_DELAY: Duration = Duration::from_micros(40);
/// Quick answers in a row that make it worth waiting.
const QUICK_ANSWERS: u8 = 4;
/// Packets that may wait for one acknowledgement; a peer that streams wants its window moved.
const WAITING_PACKETS: u32 = 8;

/// What was learned about this queue pair's program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chatter {
    /// Acknowledgements may wait at all.
    allowed: bool,
    /// When the first message since our last one arrived.
    heard_at: Option<Instant>,
    quick: u8,
    /// The acknowledgement waits until then.
    hold_until: Option<Instant>,
}

impl Chatter {
    /// Say whether acknowledgements may wait; one that waits stops waiting if not.
    pub fn allow(&mut self, allowed: bool) {
        *self = Chatter { allowed, ..Chatter::default() };
    }

    /// What is left of this when the queue pair starts anew.
    pub fn fresh(&self) -> Chatter {
        Chatter { allowed: self.allowed, ..Chatter::default() }
    }

    /// A message that wants an acknowledgement is complete; `waiting` packets have not been acknowledged.
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

    /// The program sent something of its own.
    pub fn on_own_message(&mut self, now: Instant) {
        let Some(heard) = self.heard_at.take() else { return };
        self.quick = if now.since(heard) <= ACK_DELAY { (self.quick + 1).min(QUICK_ANSWERS) } else { 0 };
        self.hold_until = None;
    }

    /// Whether the acknowledgement still waits.
    pub fn holds(&self, now: Instant) -> bool {
        self.hold_until.is_some_and(|t| now < t)
    }

    /// When it stops waiting.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.hold_until
    }

    /// The time has passed: if an acknowledgement waited, it waited in vain.
    pub fn on_timeout(&mut self, now: Instant) {
        if self.hold_until.is_some_and(|t| t <= now) {
            self.hold_until = None;
            self.quick = 0;
        }
    }
}
