//! The adapter's own random numbers (xoshiro256**), so that a peer cannot guess keys and queue pair numbers, and a test
//! can repeat a run.

/// Random number generator; equal seeds give equal sequences.
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    state: [u64; 4],
}

impl Rng {
    pub(crate) fn new(seed: [u64; 4]) -> Rng {
        // Mix the seed first, so that small test seeds (and the forbidden all-zero state) are as good as others.
        let mut mixer = 0x9e37_79b9_7f4a_7c15_u64;
        let state = seed.map(|word| {
            mixer = mixer.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = word ^ mixer;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Rng { state }
    }

    pub(crate) fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let out = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_repeat_and_others_differ() {
        let take = |seed| {
            let mut rng = Rng::new(seed);
            [rng.next_u32(), rng.next_u32(), rng.next_u32()]
        };
        assert_eq!(take([1, 2, 3, 4]), take([1, 2, 3, 4]));
        assert_ne!(take([1, 2, 3, 4]), take([1, 2, 3, 5]));
        assert_ne!(take([0; 4]), [0; 3]);
    }
}
