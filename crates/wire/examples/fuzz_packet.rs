//! Fuzzing without a nightly compiler: mutates packets of the captures and feeds them to the fuzz targets, for
//! `--seconds N`. A panic is a finding; the program prints the offending bytes in hexadecimal, for `tests/corpus`.

// A program for a person at a terminal, not part of the crate: it may read the clock.
#![allow(clippy::disallowed_methods)]

use std::path::Path;
use std::time::{Duration, Instant};

use weft_wire::{fuzzing, pcapng, roce};

struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % below.max(1)
    }
}

fn main() {
    let seconds = std::env::args().skip_while(|a| a != "--seconds").nth(1).map_or(10, |s| s.parse().expect("seconds"));
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for entry in std::fs::read_dir(vectors)
        .expect("vectors")
        .flatten()
        .filter(|e| e.path().extension().is_some_and(|x| x == "pcap"))
    {
        let file = std::fs::read(entry.path()).expect("capture");
        for frame in pcapng::frames(&file) {
            seeds.push(frame.to_vec());
            seeds.extend(roce::parse_v2_frame(frame).map(|(_, ib)| ib.to_vec()));
        }
    }
    let mut random = Random(std::process::id().into());
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut runs = 0_u64;
    while Instant::now() < end {
        for _ in 0..1000 {
            let mut bytes = seeds[random.next(seeds.len())].clone();
            for _ in 0..=random.next(6) {
                mutate(&mut bytes, &mut random);
            }
            for (name, target) in fuzzing::TARGETS {
                if std::panic::catch_unwind(|| target(&bytes)).is_err() {
                    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
                    println!("finding in {name}: {hex}");
                    std::process::exit(1);
                }
            }
            runs += 1;
        }
    }
    println!("{runs} inputs, no finding");
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.next(bytes.len());
    match random.next(5) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at.min(bytes.len()), random.next(256) as u8),
        2 if !bytes.is_empty() => bytes[at] ^= 1 << random.next(8),
        3 if !bytes.is_empty() => bytes[at] = [0, 0xff, 0x7f, 0x80][random.next(4)],
        _ => bytes.extend((0..random.next(40)).map(|i| i as u8)),
    }
}
