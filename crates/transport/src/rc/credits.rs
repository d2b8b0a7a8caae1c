//! End-to-end credits (IBA 9.7.7.2): a responder without an SRQ may report how many receives it has. Requests are
//! numbered. One that takes a receive may be sent whole if its number is within the limit; else one packet at a time as
//! a probe, with nothing else in flight.

use weft_wire::aeth::credit_count;

/// Message numbers are 24 bits wide, as the MSN is.
const SSN_MASK: u32 = 0xff_ffff;

/// Credits that the peer granted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Credits {
    /// Number of the next message to start.
    next: u32,
    /// Largest number that may be sent whole; `None` if the peer sets no limit.
    limit: Option<u32>,
}

impl Credits {
    /// Returns the number of a message that starts.
    pub fn number(&mut self) -> u32 {
        self.next = (self.next + 1) & SSN_MASK;
        self.next
    }

    /// Returns the number that the next message will get.
    pub fn upcoming(&self) -> u32 {
        (self.next + 1) & SSN_MASK
    }

    /// Handles an acknowledgement with MSN `msn` and credit code `code`.
    pub fn on_ack(&mut self, msn: u32, code: u8) {
        self.limit = credit_count(code).map(|count| msn.wrapping_add(count) & SSN_MASK);
    }

    /// Returns whether message `ssn` may be sent whole.
    pub fn allow(&self, ssn: u32) -> bool {
        self.limit.is_none_or(|limit| limit.wrapping_sub(ssn) & SSN_MASK < SSN_MASK / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_moves_with_msn_and_wraps() {
        let mut c = Credits::default();
        assert!(c.allow(1));
        c.on_ack(0, 1);
        assert!(c.allow(1));
        assert!(!c.allow(2));
        c.on_ack(0xff_ffff, 2);
        assert!(c.allow(1));
        assert!(!c.allow(2));
        c.on_ack(5, 31);
        assert!(c.allow(1000));
    }
}
