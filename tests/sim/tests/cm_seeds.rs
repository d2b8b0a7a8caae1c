//! Thousands of seeds of two communication managers. `WEFT_SIM_SEEDS` sets the number of seeds, `WEFT_SIM_FIRST` the
//! first one. The test prints a failing seed, and `WEFT_SIM_SEED=… cargo test -p weft-sim --test cm_seeds replay` runs
//! it alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use weft_sim::cm::hostile::Stranger;
use weft_sim::cm::{Plan, run};
use weft_sim::workload::Tally;

/// Seeds in a run.
const SEEDS: u64 = 10_000;
/// One seed in this many runs again, with strangers.
const HOSTILE_EVERY: u64 = 4;
const THREADS: u64 = 2;
/// Situations that the seeds together must meet.
const MUST_BE_MET: [&str; 31] = [
    "lost",
    "reordered",
    "duplicated",
    "corrupted",
    "crashed",
    "stood",
    "did not stand",
    "repeats",
    "rx_duplicates",
    "rx_unexpected",
    "Req",
    "Rep",
    "Rtu",
    "UserEstablished",
    "Rej",
    "Mra",
    "Dreq",
    "Drep",
    "TimewaitExit",
    "ReqError",
    "RepError",
    "DreqError",
    "Lap",
    "Apr",
    "LapError",
    "SidrReq",
    "SidrRep",
    "SidrReqError",
    "Rej: invalid service ID (8)",
    "Rej: stale connection (10)",
    "Rej: consumer reject (28)",
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs a seed, and some seeds again with strangers: owners must get the same events at the same times.
fn try_seed(seed: u64) -> Result<Tally, String> {
    let plan = Plan::of(seed);
    let attempt = || {
        let quiet = run(&plan, None)?;
        if seed.is_multiple_of(HOSTILE_EVERY) {
            let loud = run(&plan, Some(Stranger::new(seed, 2))).map_err(|e| format!("with strangers: {e}"))?;
            if let Some(n) =
                (0..quiet.trace.len().max(loud.trace.len())).find(|n| quiet.trace.get(*n) != loud.trace.get(*n))
            {
                let (quiet, loud) = (quiet.trace.get(n), loud.trace.get(n));
                return Err(format!("strangers were heard: event {n} is {loud:?}, without them {quiet:?}"));
            }
        }
        Ok(quiet.tally)
    };
    catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

fn report(seed: u64, error: &str) {
    eprintln!("seed {seed}: {error}");
    eprintln!("    WEFT_SIM_SEED={seed} cargo test -p weft-sim --test cm_seeds replay -- --nocapture");
}

#[test]
fn every_seed_keeps_its_promises() {
    let first = number("WEFT_SIM_FIRST").unwrap_or(0);
    let count = number("WEFT_SIM_SEEDS").unwrap_or(SEEDS);
    let keep_going = std::env::var_os("WEFT_SIM_ALL").is_some();
    let next = AtomicU64::new(first);
    let (failed, failures) = (AtomicBool::new(false), AtomicU64::new(0));
    let met = Mutex::new(Tally::default());
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut mine = Tally::default();
                while keep_going || !failed.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        break;
                    }
                    match try_seed(seed) {
                        Ok(tally) => mine.merge(&tally),
                        Err(error) => {
                            failed.store(true, Ordering::Relaxed);
                            failures.fetch_add(1, Ordering::Relaxed);
                            report(seed, if keep_going { error.lines().next().unwrap_or_default() } else { &error });
                        }
                    }
                }
                met.lock().expect("the tally").merge(&mine);
            });
        }
    });
    let met = met.into_inner().unwrap_or_default();
    for (name, count) in met.iter().filter(|(_, count)| *count > 0) {
        eprintln!("{count:>12} {name}");
    }
    eprintln!("{count} seeds, {} failed, {:.1} s", failures.load(Ordering::Relaxed), start.elapsed().as_secs_f64());
    assert!(!failed.load(Ordering::Relaxed), "a seed failed: see above");
    if count >= SEEDS {
        for name in MUST_BE_MET {
            assert!(met.count(name) > 20, "{name} was met {} times only: the runs are too tame", met.count(name));
        }
    }
}

/// Does nothing unless `WEFT_SIM_SEED` names a seed; prints the owners' events.
#[test]
fn replay() {
    if let Some(seed) = number("WEFT_SIM_SEED") {
        let plan = Plan::of(seed);
        eprintln!("{plan:#?}");
        match run(&plan, None) {
            Ok(outcome) => outcome.trace.iter().for_each(|told| eprintln!("{told:?}")),
            Err(error) => eprintln!("{error}"),
        }
        if let Err(error) = try_seed(seed) {
            report(seed, &error);
            panic!("seed {seed} failed");
        }
    }
}
