//! Seeds of two iWARP queue pairs on a simulated TCP connection. `WEFT_SIM_SEEDS` sets the number of seeds (10,000 and
//! more), `WEFT_SIM_FIRST` the first one; a failure prints its seed.

use weft_sim::iwarp::{Outcome, run, run_within_host};

/// Seeds in a run by default: some seconds.
const SEEDS: u64 = 200;
/// Situations that the seeds together must meet.
const SITUATIONS: [&str; 19] = [
    "SEND",
    "RDMA WRITE",
    "RDMA READ",
    "CmpSwap",
    "FetchAdd",
    "immediate data",
    "None",
    "Reset",
    "Damage",
    "Misbehaviour",
    "Close",
    "crc",
    "markers",
    "rtr",
    "partial write",
    "direct placement",
    "TERMINATE",
    "wait for a receive",
    "seeds",
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Situations that the seeds of one host must meet.
const SITUATIONS_WITHIN_HOST: [&str; 21] = [
    "SEND",
    "RDMA WRITE",
    "RDMA READ",
    "CmpSwap",
    "FetchAdd",
    "immediate data",
    "None",
    "Reset",
    "Damage",
    "Misbehaviour",
    "Close",
    "wait for a receive",
    "early frame",
    "full ring",
    "fetch",
    "direct_write",
    "direct_read",
    "direct_atomic",
    "frame_nak",
    "frame_rnr",
    "seeds",
];

#[test]
fn every_seed_keeps_its_promises() {
    check(run, &SITUATIONS);
}

#[test]
fn every_seed_keeps_its_promises_within_a_host() {
    check(run_within_host, &SITUATIONS_WITHIN_HOST);
}

fn check(run: fn(u64) -> Result<Outcome, String>, situations: &[&str]) {
    let first = number("WEFT_SIM_FIRST").unwrap_or(0);
    let count = number("WEFT_SIM_SEEDS").unwrap_or(SEEDS);
    let mut met = Outcome::default();
    for seed in first..first + count {
        let outcome = std::panic::catch_unwind(|| run(seed));
        match outcome {
            Ok(Ok(outcome)) => met.merge(&outcome),
            Ok(Err(error)) => panic!("seed {seed}: {error}\n    WEFT_SIM_FIRST={seed} WEFT_SIM_SEEDS=1 replays it"),
            Err(_) => panic!("seed {seed} panicked; WEFT_SIM_FIRST={seed} WEFT_SIM_SEEDS=1 replays it"),
        }
        met.count("seeds");
    }
    println!("{:?}", met.met);
    if count >= SEEDS {
        let missed: Vec<_> = situations.iter().filter(|name| !met.met.contains_key(**name)).collect();
        assert!(missed.is_empty(), "no seed met {missed:?}: {:?}", met.met);
    }
}

#[test]
fn hostile_streams_break_nothing() {
    let first = number("WEFT_SIM_FIRST").unwrap_or(0);
    for seed in first..first + number("WEFT_SIM_SEEDS").unwrap_or(SEEDS) * 10 {
        if let Err(error) = weft_sim::iwarp::hostile(seed) {
            panic!("seed {seed}: {error}");
        }
    }
}
