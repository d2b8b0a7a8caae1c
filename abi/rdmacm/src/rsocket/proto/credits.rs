//! Flow control by credits: 16-bit sequence numbers for data messages, and four slots for control messages.

/// Maximum number of control messages in flight. They need no credits, so both sides keep them few.
pub const CONTROL_SLOTS: u16 = 4;

/// Our send credits.
#[derive(Clone, Copy, Debug)]
pub struct SendCredits {
    sent: u16,
    limit: u16,
}

impl SendCredits {
    /// Starts with a peer that has posted `credits` receive requests.
    pub fn new(credits: u16) -> SendCredits {
        SendCredits { sent: 0, limit: credits }
    }

    /// Whether a message may be sent.
    pub fn available(&self) -> bool {
        self.sent != self.limit
    }

    /// Counts a sent message.
    pub fn spend(&mut self) {
        self.sent = self.sent.wrapping_add(1);
    }

    /// Raises the limit to the peer's new sequence number.
    pub fn raise(&mut self, limit: u16) {
        self.limit = limit;
    }
}

/// The credits that we grant the peer.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveCredits {
    /// Messages that the program has taken.
    consumed: u16,
    /// The value of `consumed` at which the peer gets new credits.
    tell_at: u16,
    size: u16,
}

impl ReceiveCredits {
    /// Starts with a receive queue of `size` requests, all of which the peer knows.
    pub fn new(size: u16) -> ReceiveCredits {
        ReceiveCredits { consumed: 0, tell_at: size / 2, size }
    }

    /// Counts a message that the program took.
    pub fn consume(&mut self) {
        self.consumed = self.consumed.wrapping_add(1);
    }

    /// Whether half of the queue was taken since the last grant.
    pub fn due(&self) -> bool {
        (self.consumed.wrapping_sub(self.tell_at) as i16) >= 0
    }

    /// Returns the limit to send to the peer now.
    pub fn tell(&mut self) -> u16 {
        self.tell_at = self.consumed.wrapping_add(self.size / 2);
        self.consumed.wrapping_add(self.size)
    }
}

/// Control messages in flight.
#[derive(Clone, Copy, Debug, Default)]
pub struct ControlSlots {
    in_flight: u16,
}

impl ControlSlots {
    /// Whether a control message may be sent.
    pub fn available(&self) -> bool {
        self.in_flight < CONTROL_SLOTS
    }

    /// Takes a slot; returns its number, for a caller that must keep the message's bytes until completion.
    pub fn take(&mut self) {
        self.in_flight = (self.in_flight + 1).min(CONTROL_SLOTS);
    }

    /// Frees a slot.
    pub fn put_back(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Whether no control message is in flight.
    pub fn idle(&self) -> bool {
        self.in_flight == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_stops_at_the_limit_and_goes_on_when_it_is_raised() {
        let mut credits = SendCredits::new(2);
        assert!(credits.available());
        credits.spend();
        credits.spend();
        assert!(!credits.available());
        credits.raise(3);
        assert!(credits.available());
    }

    #[test]
    fn credits_run_through_the_wrap_of_sixteen_bits() {
        let mut mine = ReceiveCredits::new(384);
        let mut peers = SendCredits::new(384);
        let mut in_flight = 0u32;
        for _ in 0..200_000 {
            while peers.available() {
                peers.spend();
                in_flight += 1;
                assert!(in_flight <= 384, "the receive queue would overflow");
            }
            while in_flight > 0 && !mine.due() {
                mine.consume();
                in_flight -= 1;
            }
            if mine.due() {
                peers.raise(mine.tell());
            }
        }
    }

    #[test]
    fn half_of_the_queue_is_told_at_once() {
        let mut credits = ReceiveCredits::new(16);
        for _ in 0..7 {
            credits.consume();
            assert!(!credits.due());
        }
        credits.consume();
        assert!(credits.due());
        assert_eq!(credits.tell(), 24);
        assert!(!credits.due());
    }

    #[test]
    fn four_control_messages_and_no_more() {
        let mut slots = ControlSlots::default();
        for _ in 0..CONTROL_SLOTS {
            assert!(slots.available());
            slots.take();
        }
        assert!(!slots.available());
        slots.put_back();
        assert!(slots.available() && !slots.idle());
    }
}
