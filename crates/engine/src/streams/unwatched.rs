//! The stream that the set does not watch for bytes, because a polling thread reads its socket again and again. Each arrival
//! wakes the set and the sets that it is in, also if no thread sleeps there, which takes a tenth of a short message's time.
//!
//! Only while the background thread is parked may a stream go unwatched: it looks every millisecond whether the program still
//! polls ([`crate::driver`]), and watches for bytes again when it takes over. A thread that goes to sleep does so before. The set
//! reports errors and hang-ups of every stream.

use super::Streams;

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
}

impl Streams {
    /// Lets polling threads leave a stream unwatched, until [`Streams::watch_all`]: the background thread parks.
    pub fn allow_unwatched(&mut self) {
        self.unwatched.allowed = true;
    }

    /// Watches every stream, because a thread sleeps or the background thread serves. Bytes that have come meanwhile wake that
    /// thread.
    #[inline]
    pub fn watch_all(&mut self) {
        self.unwatched.allowed = false;
        if self.unwatched.at.is_some() {
            self.watch_again();
        }
    }

    #[cold]
    pub(super) fn watch_again(&mut self) {
        if let Some(at) = self.unwatched.at.take() {
            self.watch(at);
        }
    }

    /// Stops watching the stream at a place if a polling thread has read enough from it.
    #[inline]
    pub(super) fn leave_to_pollers(&mut self, at: usize) {
        if self.unwatched.allowed && self.unwatched.at != Some(at) && self.preferred.arrivals_of(at) >= ARRIVALS_MIN {
            self.leave_unwatched(at);
        }
    }

    #[cold]
    fn leave_unwatched(&mut self, at: usize) {
        self.watch_again();
        self.unwatched.at = Some(at);
        self.watch(at);
    }
}
