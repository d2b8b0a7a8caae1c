//! Timeouts as management datagrams encode them: five bits `n` for 4.096 µs · 2ⁿ (IBA 12.7.23 and others).

use weft_verbs::Duration;

/// Exponents are five bits wide on the wire.
const EXPONENT_MAX: u8 = 31;

/// Converts an exponent to a duration with Linux's rounding: 2^(n-8) whole milliseconds, at least one.
pub fn exponent_to_duration(exponent: u8) -> Duration {
    Duration::from_millis(1 << exponent.min(EXPONENT_MAX).saturating_sub(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_are_milliseconds_from_eight_on() {
        assert_eq!(exponent_to_duration(0), Duration::from_millis(1));
        assert_eq!(exponent_to_duration(8), Duration::from_millis(1));
        assert_eq!(exponent_to_duration(20), Duration::from_millis(4096));
        assert_eq!(exponent_to_duration(31), Duration::from_millis(1 << 23));
        assert_eq!(exponent_to_duration(255), Duration::from_millis(1 << 23));
    }
}
