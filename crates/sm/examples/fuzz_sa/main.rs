//! Fuzzing of the SA without nightly: MADs of strangers, most of them nearly valid, for `--seconds N`. A panic is a
//! finding; runs with the same `--seed` are the same.
//!
//! `cargo run --profile dist -p weft-sm --example fuzz_sa -- --seconds 60 [--seed N]`

// A program for a person at a terminal, not part of the crate: it may read the clock.
#![allow(clippy::disallowed_methods)]

#[path = "../../src/sa/tests/fixture.rs"]
mod fixture;
mod stranger;

use std::time::{Duration, Instant};

use fixture::Fixture;
use stranger::Stranger;
use weft_fabric::topology::generate::{Plan, Shape};
use weft_sm as sm;

/// Inputs to one SA before it restarts, and restarts before the next subnet.
const INPUTS: u64 = 1000;
const RESTARTS: u64 = 10;
/// Maximum bytes of an input.
const LEN_MAX: usize = 1200;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Returns bytes with long runs of zeros and ones, as in masks and records.
    fn bytes(&mut self) -> Vec<u8> {
        let len = 1 + self.next() as usize % LEN_MAX;
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let (word, run) = (self.next(), 1 + self.next() as usize % 24);
            match word >> 61 {
                0..4 => bytes.extend(word.to_le_bytes()),
                4 => bytes.extend(std::iter::repeat_n(0xff, run)),
                5 => bytes.extend((word & self.next() & self.next()).to_le_bytes()),
                _ => bytes.extend(std::iter::repeat_n(0, run)),
            }
        }
        bytes
    }
}

fn argument(name: &str) -> Option<u64> {
    std::env::args().skip_while(|word| word != name).nth(1).map(|word| word.parse().expect("a number"))
}

fn main() {
    let seed = argument("--seed").unwrap_or(std::process::id().into());
    let end = Instant::now() + Duration::from_secs(argument("--seconds").unwrap_or(10));
    println!("seed {seed}");
    let mut random = Random(seed.wrapping_mul(2).wrapping_add(1));
    let shape = Shape::FatTree { radix: 4, levels: 2, hosts: None, hosts_per_leaf: None };
    let topology = Plan::new(shape).generate().expect("a topology");
    let (mut inputs, mut bytes, mut answered, mut refused) = (0_u64, 0_u64, 0_u64, 0_u64);
    while Instant::now() < end {
        let mut stranger = Stranger::new(Fixture::numbered(&topology));
        for _ in 0..RESTARTS {
            for _ in 0..INPUTS {
                let input = random.bytes();
                (inputs, bytes) = (inputs + 1, bytes + input.len() as u64);
                stranger.play(&input);
            }
            stranger.restart();
        }
        (answered, refused) = (answered + stranger.answered, refused + stranger.refused);
    }
    println!("{inputs} inputs of {bytes} bytes, {answered} questions answered, {refused} of them refused; no finding");
}
