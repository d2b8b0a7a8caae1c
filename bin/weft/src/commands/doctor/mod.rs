//! `weft doctor`: looks at this machine, line by line, and says what keeps Weft from working, what makes it worse, and
//! what to do.

mod checks;
mod machine;
mod report;
mod this_machine;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use weft_sys::probe::Probe;

use crate::output;
use machine::Machine;
use report::{Finding, State};
use this_machine::ThisMachine;

/// Options of `weft doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(short, long)]
    json: bool,
    /// Attempt one system call and exit with its errno; the command starts itself with this
    #[arg(long, value_name = "CALL", hide = true)]
    probe: Option<String>,
    /// Check whether Weft can serve this program, too
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Runs the command: status 0 if Weft works here, 1 if something keeps it from working.
pub fn run(args: &DoctorArgs) -> ExitCode {
    if let Some(name) = &args.probe {
        return attempt(name);
    }
    let machine = ThisMachine::new(args.program.first().cloned());
    let findings = examine(&machine);
    output::print(&if args.json { report::json(&findings) } else { report::text(&findings) });
    if findings.iter().any(|(_, finding)| finding.state == State::Error) {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Makes every check.
fn examine(machine: &dyn Machine) -> Vec<(&'static str, Finding)> {
    checks::ALL
        .iter()
        .flat_map(|check| (check.examine)(machine).into_iter().map(|finding| (check.name, finding)))
        .collect()
}

/// Makes the attempt that `--probe` names.
fn attempt(name: &str) -> ExitCode {
    let Some((_, probe)) = Probe::ALL.iter().find(|(known, _)| *known == name) else {
        crate::errln!("weft doctor: unknown system call {name}");
        return ExitCode::from(u8::MAX);
    };
    match probe.attempt() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            ExitCode::from(error.raw_os_error().and_then(|errno| u8::try_from(errno).ok()).unwrap_or(u8::MAX))
        }
    }
}
