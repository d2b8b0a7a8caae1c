//! A requester against a responder over a simulated connection: random thresholds, credits and memory, READs that
//! complete in any order, calls of NFSv3, NFSv4 and of a protocol that neither end knows. Every call must reach the
//! server, and every reply the client, byte by byte. With a forging peer, the other end must survive, and reach only
//! memory that was offered.
//!
//! `WEFT_SIM_SEEDS` sets the number of seeds, `WEFT_SIM_FIRST` the first one.

mod client_memory;
mod forge;
mod rng;
mod upper_layer;
mod world;

use world::{Forger, Tally, World};

const SEEDS: u64 = 200;

#[expect(clippy::disallowed_methods, reason = "a test's settings are the environment's")]
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Prints the seed of a run that panics.
struct NamedIfItFails(u64);

impl Drop for NamedIfItFails {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("WEFT_SIM_FIRST={} WEFT_SIM_SEEDS=1 cargo test -p weft-rpcrdma --test simulation", self.0);
        }
    }
}

/// Runs each seed, and names the one that fails.
fn run(forger: Option<Forger>) -> Tally {
    let (first, seeds) = (setting("WEFT_SIM_FIRST", 1), setting("WEFT_SIM_SEEDS", SEEDS));
    let mut total = Tally::default();
    for seed in first..first + seeds {
        let _named = NamedIfItFails(seed);
        total += World::new(seed, forger).run();
    }
    total
}

fn is_whole() -> bool {
    setting("WEFT_SIM_SEEDS", SEEDS) >= SEEDS
}

#[test]
fn every_call_and_every_reply_arrives() {
    let total = run(None);
    println!("{total:?}");
    if is_whole() {
        assert!(total.replies > 0 && total.restored > 0 && total.long_replies > 0 && total.backchannel > 0);
        assert!(total.reads > 0 && total.long_calls > 0 && total.remote_invalidations > 0 && total.abandoned > 0);
    }
    assert_eq!((total.faults, total.errors, total.refused_accesses), (0, 0, 0));
}

#[test]
fn a_responder_survives_a_forging_requester() {
    let total = run(Some(Forger::Requester));
    println!("{total:?}");
    if is_whole() {
        assert!(total.errors > 0 && total.refused_accesses > 0 && total.faults > 0);
    }
}

#[test]
fn a_requester_survives_a_forging_responder() {
    let total = run(Some(Forger::Responder));
    println!("{total:?}");
    if is_whole() {
        assert!(total.faults > 0);
    }
}
