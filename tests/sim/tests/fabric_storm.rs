//! A thousand faults on hop-by-hop fabrics, under traffic of every service. `WEFT_SIM_SEEDS` sets the number of seeds,
//! `WEFT_SIM_FIRST` the first one. The test prints a failing seed.

use std::panic::catch_unwind;

use weft_sim::fabric::{FAULTS, StormTally, run_storm};

/// Seeds in a run, with twenty faults each.
const SEEDS: u64 = 50;
const FAULTS_PER_SEED: u64 = 20;
const THREADS: u64 = 2;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn run(seed: u64) -> StormTally {
    catch_unwind(|| run_storm(seed)).unwrap_or_else(|_| panic!("seed {seed}: see the message above"))
}

#[test]
fn a_thousand_faults_leave_nobody_stuck_nothing_altered_and_nothing_uncounted() {
    let (first, seeds) = (setting("WEFT_SIM_FIRST", 1), setting("WEFT_SIM_SEEDS", SEEDS));
    let all: Vec<StormTally> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let mine = (first..first + seeds).filter(move |seed| seed % THREADS == thread);
                scope.spawn(move || mine.map(run).collect::<Vec<_>>())
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no seed fails")).collect()
    });
    let sum = |of: &dyn Fn(&StormTally) -> u64| all.iter().map(of).sum::<u64>();
    assert_eq!(sum(&|tally| tally.struck.iter().sum()), seeds * FAULTS_PER_SEED, "faults that struck");
    // A test whose faults never strike proves nothing.
    if seeds >= SEEDS {
        for (kind, fault) in FAULTS.iter().enumerate() {
            let (struck, felt) = (sum(&|tally| tally.struck[kind]), sum(&|tally| tally.felt[kind]));
            println!("{}: {struck} struck, {felt} packets lost", fault.name);
            assert!(
                struck > 40 && (felt > 100 || !fault.loses),
                "{}: {struck} struck, {felt} packets lost",
                fault.name
            );
        }
        let messages = [0, 1, 2].map(|kind| sum(&|tally| tally.messages[kind]));
        println!(
            "{} arrived, {} lost, messages {messages:?}, {} failed, {} counted",
            sum(&|tally| tally.arrived),
            sum(&|tally| tally.lost),
            sum(&|tally| tally.failed),
            sum(&|tally| tally.counted)
        );
        assert!(messages.iter().all(|messages| *messages > 5_000), "{messages:?}");
        assert!(sum(&|tally| tally.arrived) > 100_000 && sum(&|tally| tally.lost) > 5_000);
        assert!(sum(&|tally| tally.failed) > 50, "connections that failed and were made anew");
    }
}

#[test]
fn a_storm_is_a_function_of_its_seed() {
    for seed in [3, 4, 5] {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
    assert_ne!(run(3).fingerprint, run(4).fingerprint);
}
