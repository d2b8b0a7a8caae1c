//! The duration of a run, and the resulting bandwidth and latency.

use std::time::{Duration, Instant};

/// Measures one run.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Starts the clock.
    pub fn start() -> Clock {
        Clock(Instant::now())
    }

    /// The result for `iters` messages of `size` bytes in each direction, up to now.
    pub fn summary(self, size: usize, iters: u32) -> Summary {
        Summary { size, iters, took: self.0.elapsed() }
    }
}

/// The result of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    size: usize,
    iters: u32,
    took: Duration,
}

impl Summary {
    /// The two lines at the end of every pingpong.
    pub fn text(&self) -> String {
        let bytes = self.size as u64 * u64::from(self.iters) * 2;
        let usec = self.took.as_nanos() as f64 / 1000.0;
        let seconds = usec / 1_000_000.0;
        format!(
            "{bytes} bytes in {seconds:.2} seconds = {:.2} Mbit/sec\n{} iters in {seconds:.2} seconds = {:.2} usec/iter\n",
            bytes as f64 * 8.0 / usec,
            self.iters,
            usec / f64::from(self.iters),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_the_originals() {
        let summary = Summary { size: 4096, iters: 10, took: Duration::from_nanos(5_882_000) };
        assert_eq!(
            summary.text(),
            "81920 bytes in 0.01 seconds = 111.42 Mbit/sec\n10 iters in 0.01 seconds = 588.20 usec/iter\n"
        );
    }
}
