//! End-to-end credits (IBA 9.7.7.2): a responder without an SRQ may say how many receives it has. Requests are
//! numbered; one that takes a receive may be sent whole if its number is within the limit, else one packet at a time
//! with nothing else in flight, to probe.

use weft_wire::aeth::credit_count;

/// Message numbers are 24 bits wide, as the MSN is.
const SSN_MASK: u32 = 0xff_ffff;

/// What the peer granted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Credits {
    /// Number of the next message to be started.
    next: u32,
    /// Largest number that may be sent whole; none if the peer does not limit.
    limit: Option<u32>,
}

impl Credits {
    /// Number a message that starts.
    pub fn number(&mut self) -> u32 {
        self.next = (self.next + 1) & SSN_MASK;
        self.next
    }

    /// The number that the next message would get.
    pub fn upcoming(&self) -> u32 {
        (self.next + 1) & SSN_MASK
    }

    /// An acknowledgement with MSN `msn` carried credit code `code`.
    pub fn on_ack(&mut self, msn: u32, code: u8) {
        self.limit = credit_count(code).map(|count| msn.wrapping_add(count) & SSN_MASK);
    }

    /// Whether message `ssn` may be sent whole.
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
