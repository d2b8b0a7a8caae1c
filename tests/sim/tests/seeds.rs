//! Ten thousand seeds on the wire, and as many on one machine: with direct copies, and by rings alone. `WEFT_SIM_SEEDS`
//! sets the number of seeds, `WEFT_SIM_FIRST` the first one. The test prints a failing seed, and `WEFT_SIM_SEED=…
//! WEFT_SIM_PATH=… cargo test -p weft-sim replay` runs it alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use weft_sim::Path;
use weft_sim::workload::Tally;

/// Seeds in a run.
const SEEDS: u64 = 10_000;
const THREADS: u64 = 2;
/// Situations that the seeds together must meet on every path.
const ANYWHERE: [&str; 12] = [
    "rdma_recvs",
    "drained",
    "Send",
    "RdmaWrite",
    "RdmaRead",
    "CompSwap",
    "FetchAdd",
    "AtomicWrite",
    "Flush",
    "Recv",
    "RecvRdmaWithImm",
    "lost",
];
/// On the wire.
const ON_THE_WIRE: [&str; 12] = [
    "reordered",
    "duplicated",
    "corrupted",
    "duplicate_request",
    "out_of_seq_request",
    "rcvd_rnr_err",
    "send_rnr_err",
    "rcvd_seq_err",
    "completer_retry_err",
    "rdma_sends",
    "sent_pkts",
    "rcvd_pkts",
];
/// On one machine, with direct copies.
const BY_DIRECT_COPIES: [&str; 13] = [
    "direct_write",
    "direct_read",
    "direct_atomic",
    "direct_broke",
    "fetched",
    "fetch_broke",
    "ring_full",
    "frame_send",
    "frame_rnr",
    "frame_ack",
    "frame_flush",
    "frame_dropped",
    "frame_datagram",
];
/// On one machine, by rings alone.
const BY_RINGS: [&str; 13] = [
    "ring_full",
    "frame_send",
    "frame_write",
    "frame_read",
    "frame_compare_swap",
    "frame_fetch_add",
    "frame_atomic_write",
    "frame_flush",
    "frame_ack",
    "frame_rnr",
    "frame_read_data",
    "frame_atomic_result",
    "frame_datagram",
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn try_seed(seed: u64, path: Path) -> Result<Tally, String> {
    match catch_unwind(AssertUnwindSafe(|| weft_sim::workload::run(seed, path))) {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            Err(format!("panic: {}", text.unwrap_or_default()))
        }
    }
}

fn report(seed: u64, path: Path, error: &str) {
    eprintln!("seed {seed} {path:?}: {error}");
    eprintln!("    WEFT_SIM_SEED={seed} WEFT_SIM_PATH={path:?} cargo test -p weft-sim replay -- --nocapture");
}

#[test]
fn every_seed_keeps_its_promises() {
    every_seed(Path::Wire, &ANYWHERE, &ON_THE_WIRE);
}

#[test]
fn every_seed_keeps_its_promises_by_direct_copies() {
    every_seed(Path::Direct, &ANYWHERE, &BY_DIRECT_COPIES);
}

#[test]
fn every_seed_keeps_its_promises_by_rings() {
    every_seed(Path::Rings, &ANYWHERE, &BY_RINGS);
}

fn every_seed(path: Path, anywhere: &[&str], here: &[&str]) {
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
                    match try_seed(seed, path) {
                        Ok(tally) => mine.merge(&tally),
                        Err(error) => {
                            failed.store(true, Ordering::Relaxed);
                            failures.fetch_add(1, Ordering::Relaxed);
                            if keep_going {
                                eprintln!("seed {seed} {path:?}: {}", error.lines().next().unwrap_or_default());
                            } else {
                                report(seed, path, &error);
                            }
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
    eprintln!(
        "{path:?}: {count} seeds, {} failed, {:.1} s",
        failures.load(Ordering::Relaxed),
        start.elapsed().as_secs_f64()
    );
    assert!(!failed.load(Ordering::Relaxed), "a seed failed: see above");
    if count >= SEEDS {
        for name in anywhere.iter().chain(here) {
            assert!(met.count(name) > 20, "{name} was met {} times only: the runs are too tame", met.count(name));
        }
    }
}

/// Does nothing unless `WEFT_SIM_SEED` names a seed.
#[test]
fn replay() {
    if let Some(seed) = number("WEFT_SIM_SEED") {
        let name = std::env::var("WEFT_SIM_PATH").unwrap_or_default().to_lowercase();
        let named = Path::ALL.into_iter().find(|path| format!("{path:?}").to_lowercase() == name);
        let path = named.unwrap_or(Path::Wire);
        if let Err(error) = weft_sim::workload::run(seed, path) {
            report(seed, path, &error);
            panic!("seed {seed} failed");
        }
        eprintln!("seed {seed} holds on the path {path:?}");
    }
}
