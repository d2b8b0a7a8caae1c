//! `weft check --seeds`: one run for each seed of a strict adapter, until one fails.

use std::ffi::OsStr;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::Result;

use super::args::CheckArgs;
use super::once::{Outcome, Run};
use super::output;
use super::process::Signals;
use super::verdict::Filter;
use crate::commands::env::shell_word;

/// Time limit of a run, unless the options have one: strict adapters make programs hang that rely on luck.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs the program `count` times. Returns the exit status.
///
/// # Errors
/// As [`Run::once`].
pub fn run(args: &CheckArgs, count: u64) -> Result<u8> {
    let (filter, signals) = (Filter::new(&args.reports)?, Signals::new()?);
    let last = args.seed_from.saturating_add(count - 1);
    let mut latest = None;
    for seed in args.seed_from..=last {
        let progress = Progress::show(args, seed, last);
        let run = Run {
            args,
            filter: &filter,
            signals: &signals,
            seed: Some(seed),
            limit: Some(args.timeout.map_or(LIMIT, Duration::from_secs)),
            hides_output: !args.place.verbose,
        };
        let outcome = run.once()?;
        drop(progress);
        if outcome.has_failed() {
            return fail(args, seed, &outcome);
        }
        latest = Some(outcome);
    }
    if let Some(outcome) = latest {
        // Warnings alone fail no run.
        output::write(&outcome.verdict, &args.reports, true)?;
    }
    if !args.place.quiet {
        let runs = if count == 1 { "1 run".to_owned() } else { format!("{count} runs") };
        crate::errln!("weft check: {runs} passed, with the seeds {} to {last}", args.seed_from);
    }
    Ok(0)
}

fn fail(args: &CheckArgs, seed: u64, outcome: &Outcome) -> Result<u8> {
    let reasons = match outcome.failures.as_slice() {
        [] if outcome.verdict.has_errors() => "misuse was found".to_owned(),
        [] => "reports are incomplete".to_owned(),
        failures => failures.join(", "),
    };
    crate::errln!("weft check: seed {seed}: {reasons}");
    if outcome.is_interrupted {
        return Ok(outcome.code);
    }
    if !args.place.verbose {
        let _ = std::io::stderr().write_all(&outcome.output());
    }
    output::write(&outcome.verdict, &args.reports, false)?;
    crate::errln!("weft check: to run it again: {}", again(args, seed));
    Ok(outcome.exit_code(args.reports.exit_code))
}

/// The command line of a run with this seed alone.
fn again(args: &CheckArgs, seed: u64) -> String {
    let mut one = CheckArgs { seeds: None, ..args.clone() };
    one.place.adapters.strict = Some(seed);
    let words = one.words();
    let words = ["weft", "check"].into_iter().map(OsStr::new).chain(words.iter().map(AsRef::as_ref));
    words.map(shell_word).collect::<Vec<_>>().join(" ")
}

/// A line about the present run, on a terminal. Dropping it removes the line.
struct Progress(());

impl Progress {
    fn show(args: &CheckArgs, seed: u64, last: u64) -> Option<Progress> {
        let is_seen = std::io::stderr().is_terminal() && !args.place.quiet && !args.place.verbose;
        is_seen.then(|| {
            let _ = write!(std::io::stderr(), "\rseed {seed} of {} to {last}", args.seed_from);
            Progress(())
        })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_can_be_repeated() {
        let mut args = CheckArgs { seeds: Some(100), seed_from: 1, ..CheckArgs::default() };
        args.reports.exit_code = 99;
        args.server = Some("ib_write_bw -n 5".into());
        args.command = vec!["ib_write_bw".into(), "local host".into()];
        let wanted = "weft check --server 'ib_write_bw -n 5' --strict 17 -- ib_write_bw 'local host'";
        assert_eq!(again(&args, 17), wanted);
    }
}
