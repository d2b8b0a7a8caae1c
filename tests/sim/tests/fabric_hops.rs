//! Connected queue pairs over hop-by-hop fabrics, with cables that damage packets, have latency and flap.
//! `WEFT_SIM_SEEDS` sets the number of seeds, `WEFT_SIM_FIRST` the first one. The test prints a failing seed.

use std::panic::catch_unwind;

use weft_sim::fabric::{HopsTally, run_hops};

/// Seeds in a run.
const SEEDS: u64 = 80;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn whatever_the_cables_do_everything_arrives_once_and_in_order() {
    let (first, seeds) = (setting("WEFT_SIM_FIRST", 1), setting("WEFT_SIM_SEEDS", SEEDS));
    let run = |seed| catch_unwind(|| run_hops(seed)).unwrap_or_else(|_| panic!("seed {seed}: see the message above"));
    let tallies: Vec<HopsTally> = (first..first + seeds).map(run).collect();
    let sum = |of: fn(&HopsTally) -> u64| tallies.iter().map(of).sum::<u64>();
    // A test whose faults never strike proves nothing.
    if seeds >= SEEDS {
        assert!(sum(|tally| tally.arrived) > 30_000 && sum(|tally| tally.damaged) > 500, "{tallies:?}");
        assert!(sum(|tally| tally.repeated) > 500 && sum(|tally| tally.discarded) > 10, "{tallies:?}");
        assert!(sum(|tally| tally.traps) > 50 && sum(|tally| tally.flaps) > 20, "{tallies:?}");
    }
}
