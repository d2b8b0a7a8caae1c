//! `weft check`: runs a program with a library in each of its processes that watches its use of verbs, and reports misuse.
//!
//! The library (`abi/check`) writes reports into a directory, one file for each process. This command starts the program
//! (`launch`, `process`), reads the files when it has ended (`verdict`), and prints what no option leaves out (`output`).

mod args;
mod directory;
mod launch;
mod once;
mod output;
mod process;
mod seeds;
mod verdict;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
pub use args::CheckArgs;

use super::run::{self, FAILED};
use crate::output::print;
use once::Run;
pub use process::{End, Program, Signals};
use verdict::{Filter, Verdict};

/// Runs the command.
pub fn run(args: &CheckArgs) -> ExitCode {
    if args.rules {
        print(&weft_check::render::rule_list());
        return ExitCode::SUCCESS;
    }
    if args.place.detach {
        return detach(args);
    }
    let result = match (&args.read, args.seeds) {
        (Some(directory), _) => read(args, directory),
        (None, Some(count)) => seeds::run(args, count),
        (None, None) => check(args),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            crate::errln!("weft check: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

/// Runs the program once.
fn check(args: &CheckArgs) -> Result<u8> {
    let filter = Filter::new(&args.reports)?;
    let run = Run {
        args,
        filter: &filter,
        signals: &Signals::new()?,
        seed: None,
        limit: args.timeout.map(Duration::from_secs),
        hides_output: false,
    };
    let outcome = run.once()?;
    // A program that ends by itself has said why.
    if run.limit.is_some() || args.server.is_some() {
        for failure in &outcome.failures {
            crate::errln!("weft check: {failure}");
        }
    }
    output::write(&outcome.verdict, &args.reports, args.place.quiet)?;
    Ok(outcome.exit_code(args.reports.exit_code))
}

/// Prints the reports of programs that have run before.
fn read(args: &CheckArgs, directory: &Path) -> Result<u8> {
    let verdict = Verdict::read(directory, &Filter::new(&args.reports)?)?;
    output::write(&verdict, &args.reports, args.place.quiet)?;
    Ok(verdict.exit_code(0, args.reports.exit_code))
}

/// Starts this command again in the background, and returns once the program listens.
fn detach(args: &CheckArgs) -> ExitCode {
    // Mistakes in the options are told here, and not behind the user's back.
    if let Err(error) = Filter::new(&args.reports) {
        crate::errln!("weft check: {error:#}");
        return ExitCode::from(FAILED);
    }
    run::detach_command("check", &args.words(), &args.run_args(args.place.adapters.host.as_ref(), &args.command))
}
