//! Reproducible pseudo-random numbers.

/// The generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number, from the full range.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// The next number, below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// Returns `true` once in this many times on average.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Picks one of several values.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// Fills bytes with noise, zeros, ones, or a few typical values.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let kind = self.below(6);
        for byte in bytes {
            *byte = match kind {
                0 => 0,
                1 => 0xff,
                2 => self.pick(&[0, 0, 0, 1, 0x7f, 0x80, 0xff]),
                _ => self.next() as u8,
            };
        }
    }
}
