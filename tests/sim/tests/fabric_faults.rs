//! A thousand fabrics, each with thirty faults. `WEFT_SIM_SEEDS` sets the number of seeds, `WEFT_SIM_FIRST` the first
//! one. The test prints a failing seed.

use std::panic::catch_unwind;

use weft_sim::fabric::{Tally, run};

/// Seeds in a run.
const SEEDS: u64 = 1000;
const THREADS: u64 = 2;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn verdicts_are_true_and_nothing_sticks_whatever_breaks() {
    let (first, seeds) = (setting("WEFT_SIM_FIRST", 1), setting("WEFT_SIM_SEEDS", SEEDS));
    let tallies: Vec<Vec<Tally>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let mine = (first..first + seeds).filter(move |seed| seed % THREADS == thread);
                scope.spawn(move || {
                    mine.map(|seed| {
                        catch_unwind(|| run(seed)).unwrap_or_else(|_| panic!("seed {seed}: see the message above"))
                    })
                    .collect()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no seed fails")).collect()
    });
    let all: Vec<_> = tallies.into_iter().flatten().collect();
    let sum = |of: fn(&Tally) -> u64| all.iter().map(of).sum::<u64>();
    // A test whose faults never strike proves nothing.
    assert_eq!(all.len() as u64, seeds);
    if seeds >= SEEDS {
        assert!(sum(|tally| tally.good) > 100_000 && sum(|tally| tally.bad) > 10_000 && sum(|tally| tally.events) > 0);
        for kind in 0..8 {
            assert!(all.iter().map(|tally| tally.faults[kind]).sum::<u64>() > 1000, "fault {kind}");
        }
    }
}
