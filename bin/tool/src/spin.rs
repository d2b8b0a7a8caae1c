//! Polling without hogging a CPU: on a machine with fewer processors than busy processes, a poller that spins until the
//! end of its time slice keeps the peer from answering.

/// Number of empty polls before a yield: far longer than an answer takes on an idle machine.
const POLLS: u32 = 64;

/// Counts empty polls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spin(u32);

impl Spin {
    /// Counts an empty poll. Every `POLLS` of them, yields the processor and returns `true`: the caller should check
    /// the clock.
    #[inline]
    pub fn empty(&mut self) -> bool {
        self.0 += 1;
        if self.0 < POLLS {
            return false;
        }
        self.0 = 0;
        std::thread::yield_now();
        true
    }

    /// Restarts the count after a successful poll.
    #[inline]
    pub fn hit(&mut self) {
        self.0 = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_looked_at_now_and_then() {
        let mut spin = Spin::default();
        assert_eq!((0..POLLS * 3).filter(|_| spin.empty()).count(), 3);
        spin.empty();
        spin.hit();
        assert_eq!((1..POLLS).filter(|_| spin.empty()).count(), 0);
    }
}
