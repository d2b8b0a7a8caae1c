//! Polling without hogging: on a machine with fewer processors than busy processes, whoever spins until the end of its
//! time slice keeps the peer from answering.

/// Empty polls after which the processor is offered to others: far longer than an answer takes on an idle machine.
const POLLS: u32 = 64;

/// Counts empty polls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spin(u32);

impl Spin {
    /// Nothing was there. Now and then offers the processor to others and answers `true`: time to look at the clock.
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

    /// Something was there.
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
