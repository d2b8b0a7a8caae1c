//! The stream that the set does not watch for bytes, because a polling thread reads its socket again and again. Each arrival
//! wakes the set and the sets that it is in, also if no thread sleeps there: 0.3 to 0.6 µs for each short message.
//!
//! Only while the background thread is parked may a stream go unwatched: it looks every millisecond whether the program still
//! polls ([`crate::driver`]), and watches for bytes again when it takes over. A thread that goes to sleep does so before. The set
//! reports errors and hang-ups of every stream.

/// Consecutive arrivals from the preferred stream after which the set stops watching it. To stop and to go on takes two system
/// calls, so a program that polls for short times only does not pay for them.
const ARRIVALS_MIN: u32 = 64;

/// The unwatched stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unwatched {
    at: Option<usize>,
    /// Whether polling threads drive.
    allowed: bool,
}

impl Unwatched {
    /// Returns its place.
    #[inline]
    pub fn place(self) -> Option<usize> {
        self.at
    }

    /// Sets whether a stream may go unwatched from now on.
    #[inline]
    pub fn allow(&mut self, allowed: bool) {
        self.allowed = allowed;
    }

    /// Whether the stream at a place, which brought the last `arrivals` alone, is to go unwatched.
    #[inline]
    pub fn takes(self, at: usize, arrivals: u32) -> bool {
        self.allowed && arrivals >= ARRIVALS_MIN && self.at != Some(at)
    }

    /// Replaces it, and returns the place of the last one.
    pub fn replace(&mut self, at: Option<usize>) -> Option<usize> {
        std::mem::replace(&mut self.at, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_goes_unwatched_after_enough_arrivals_while_pollers_drive() {
        let mut unwatched = Unwatched::default();
        assert!(!unwatched.takes(3, ARRIVALS_MIN));
        unwatched.allow(true);
        assert!(unwatched.takes(3, ARRIVALS_MIN) && !unwatched.takes(3, ARRIVALS_MIN - 1));
        assert_eq!((unwatched.replace(Some(3)), unwatched.place()), (None, Some(3)));
        assert!(!unwatched.takes(3, ARRIVALS_MIN) && unwatched.takes(5, ARRIVALS_MIN));
        assert_eq!(unwatched.replace(None), Some(3));
    }
}
