//! `cargo xtask test`: the rings of tests, quickest first, and one table at the end.

use crate::lanes;
use crate::summary::{Ring, Summary};
use crate::times::Times;
use crate::{cargo, lint, packages};
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Instant;
use weft_interop::product;

/// Options of a test run.
#[derive(clap::Args)]
pub struct Options {
    /// Run a sample of every table instead of the whole.
    #[arg(long)]
    quick: bool,
    /// Run only tests whose name contains this text (in every ring).
    #[arg(long)]
    filter: Option<String>,
    /// Run only this ring (rules, unit, build, loom, sim, compile, interop); may be repeated.
    #[arg(long)]
    ring: Vec<String>,
    /// Set the rounds of the soak: hosts that lose addresses, links, routes, daemons and programs, and long messages
    /// with loss to Linux's rxe. A round takes one to two seconds. [default: a sample]
    #[arg(long, value_name = "ROUNDS")]
    soak: Option<u32>,
    /// Run all cases of large tables instead of a sample, and let the models of shared memory (ring loom) preempt threads
    /// three times in a run instead of twice, which takes many minutes.
    #[arg(long)]
    all: bool,
    /// Continue after a ring has failed.
    #[arg(long)]
    keep_going: bool,
}

/// The rings in order: those that take seconds come before those that take minutes. The build runs beside the rings between it
/// and the one that needs it: for half of its time it links one program, with one processor.
const RINGS: &[(&str, &[&str])] = &[
    ("rules", &[]),
    // Without examples, which clippy compiles, and without documentation tests, which no crate has.
    ("unit", &["test", "--workspace", "--exclude", "weft-interop", "--exclude", "weft-sim", "--tests"]),
    ("build", &["build", "--profile", product::SHIPPED]),
    (
        "loom",
        &[
            "test",
            "--release",
            "--config",
            "profile.release.opt-level=3",
            "--package",
            "weft-shm",
            "--package",
            "weft-ipc",
            "--package",
            "weft-link",
            "--lib",
        ],
    ),
    // The packages of the unit ring, so that the crates are built once for both; of their tests, only the simulator's run.
    ("sim", &["test", "--workspace", "--exclude", "weft-interop"]),
    // The programs of the next ring, while the build still links.
    ("compile", &["test", "-p", "weft-interop", "--lib", "--bins", "--tests", "--no-run"]),
    ("interop", &["test", "-p", "weft-interop", "--lib", "--bins", "--tests"]),
];

/// The ring that runs what the ring `build` builds.
const NEEDS_BUILD: &str = "interop";

/// Beginning of a model's name: with loom's atomics only models run.
const MODELS: &str = "loom_";

/// Runs the rings; an error if any test failed.
pub fn run(options: &Options) -> Result<()> {
    if let Some(wrong) = options.ring.iter().find(|name| !RINGS.iter().any(|(ring, _)| ring == *name)) {
        let names: Vec<_> = RINGS.iter().map(|(name, _)| *name).collect();
        bail!("unknown ring `{wrong}`; rings are {}", names.join(", "));
    }
    packages::install()?;
    let files = Files { skips: scratch("skips")?, report: scratch("interop-report")? };
    let mut summary = Summary::default();
    let mut build: Option<JoinHandle<Ring>> = None;
    for (name, args) in RINGS {
        if *name == NEEDS_BUILD {
            summary.rings.extend(build.take().map(ended));
        }
        if !options.ring.is_empty() && !options.ring.iter().any(|ring| ring == name) {
            continue;
        }
        if summary.failed() && !options.keep_going {
            summary.rings.push(Ring::not_run(name));
            continue;
        }
        if *name == "loom" && options.filter.as_ref().is_some_and(|filter| !filter.contains(MODELS)) {
            continue;
        }
        match *name {
            "rules" => summary.rings.push(timed(|| from_result(name, lint::rules()))),
            "compile" => summary.rings.push(timed(|| from_result(name, cargo::run(args, &[])))),
            "build" => build = Some(std::thread::spawn(|| timed(|| from_result(name, cargo::run(args, &[]))))),
            _ => {
                let run = || tests(name, args, options, &files).unwrap_or_else(|error| from_result(name, Err(error)));
                summary.rings.push(timed(run));
            }
        }
    }
    summary.rings.extend(build.take().map(ended));
    summary.skipped = std::fs::read_to_string(&files.skips).unwrap_or_default().lines().map(str::to_owned).collect();
    print!("{summary}");
    if summary.failed() {
        // The table has reported everything.
        std::process::exit(1);
    }
    Ok(())
}

/// Runs a ring, and notes how long it took and how busy the processors were.
fn timed(run: impl FnOnce() -> Ring) -> Ring {
    let (started, ticks) = (Instant::now(), Times::now());
    let mut ring = run();
    ring.took = started.elapsed();
    ring.busy = Times::now().busy_since(ticks);
    ring
}

/// Waits for a ring that runs beside others.
fn ended(ring: JoinHandle<Ring>) -> Ring {
    ring.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Files under target/ to which tests write.
struct Files {
    /// Skips, a line each.
    skips: PathBuf,
    /// Versions and figures of what was run.
    report: PathBuf,
}

/// Returns an empty file for this run under target/.
fn scratch(name: &str) -> Result<PathBuf> {
    let dir = cargo::root().join("target/xtask");
    std::fs::create_dir_all(&dir)?;
    let path = dir.join(name);
    std::fs::write(&path, "")?;
    Ok(path)
}

fn from_result(name: &'static str, result: Result<()>) -> Ring {
    let mut ring = Ring::new(name);
    match result {
        Ok(()) => ring.passed = 1,
        Err(error) => {
            eprintln!("{error:#}");
            ring.failed = 1;
            ring.failures.push(format!("{name}: {}", error.to_string().lines().next().unwrap_or_default()));
        }
    }
    ring
}

/// Runs a ring's tests, those of interop in lanes side by side, and counts.
fn tests(name: &'static str, args: &[&str], options: &Options, files: &Files) -> Result<Ring> {
    let filter = options.filter.as_deref().or((name == "loom").then_some(MODELS));
    if name == "interop" {
        let programs = lanes::built(cargo::command(args))?;
        return lanes::run(name, programs, |command| {
            // Polling programs need a core each.
            command.args(["--test-threads", "1"]).args(filter);
            set_variables(command, options, files);
        });
    }
    let mut command = cargo::command(args);
    if name == "sim" {
        command.args(cargo::test_targets("tests/sim/tests")?.iter().flat_map(|target| ["--test", target]));
    }
    if name == "loom" {
        // Its own target directory: the flag concerns every crate.
        command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", cargo::root().join("target/loom"));
        command.env("LOOM_MAX_PREEMPTIONS", if options.all { "3" } else { "2" });
    }
    command.arg("--no-fail-fast").args(filter);
    set_variables(&mut command, options, files);
    lanes::alone(name, command)
}

/// Sets the variables that tests read.
fn set_variables(command: &mut Command, options: &Options, files: &Files) {
    command.env(product::PROFILE_VARIABLE, product::SHIPPED);
    command.env("WEFT_SKIPS", &files.skips).env("WEFT_REPORT", &files.report);
    if options.quick {
        command.env("WEFT_QUICK", "1");
    }
    if options.all {
        command.env("WEFT_ALL", "1");
    }
    if let Some(rounds) = options.soak {
        command.env("WEFT_SOAK", rounds.to_string());
    }
}
