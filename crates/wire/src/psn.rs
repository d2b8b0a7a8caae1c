//! Packet sequence numbers: 24 bits, with circular comparison (IBA 9.7.1: half of the space is ahead, half behind).

/// A packet sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Psn(u32);

impl Psn {
    /// Bits of the number.
    pub const MASK: u32 = 0xff_ffff;

    /// Creates a PSN from the low 24 bits of `value`.
    pub const fn new(value: u32) -> Psn {
        Psn(value & Self::MASK)
    }

    /// Returns the number.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Returns the PSN `n` packets later.
    #[must_use]
    pub const fn add(self, n: u32) -> Psn {
        Psn::new(self.0.wrapping_add(n))
    }

    /// Returns the PSN `n` packets earlier.
    #[must_use]
    pub const fn sub(self, n: u32) -> Psn {
        Psn::new(self.0.wrapping_sub(n))
    }

    /// Returns the next PSN.
    #[must_use]
    pub const fn next(self) -> Psn {
        self.add(1)
    }

    /// Returns how far `self` is ahead of `other`: -2^23 ..= 2^23 - 1, negative if it is behind.
    pub const fn distance(self, other: Psn) -> i32 {
        ((self.0.wrapping_sub(other.0) << 8) as i32) >> 8
    }

    /// Whether `self` comes before `other`.
    pub const fn is_before(self, other: Psn) -> bool {
        self.distance(other) < 0
    }

    /// Whether `self` comes after `other`.
    pub const fn is_after(self, other: Psn) -> bool {
        self.distance(other) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_circle_has_two_halves() {
        let last = Psn::new(0xff_ffff);
        assert_eq!(last.next(), Psn::new(0));
        assert!(last.is_before(Psn::new(5)));
        assert_eq!(Psn::new(2).distance(last), 3);
        assert_eq!(last.distance(Psn::new(2)), -3);
        assert_eq!(Psn::new(0x80_0000).distance(Psn::new(0)), -0x80_0000);
        assert_eq!(Psn::new(3).sub(4), last);
    }
}
