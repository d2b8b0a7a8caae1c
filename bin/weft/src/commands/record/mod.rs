//! `weft record`: runs a program whose processes record what happens to their queue pairs, and packs the records into one
//! file for `weft explain`.
//!
//! Each process writes a ring file of bounded size (`crates/recorder`) into a directory beside the output file. When the
//! program has ended the command packs these files and removes the directory. The directory stays if the command itself
//! is killed, if packing fails, or while processes of the program run in the background; `weft explain DIR` reads it.

mod pack;
mod rings;

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};
use clap::Args;
use weft_explain::Killed;

use super::check::{End, Program, Signals};
use super::run::{self, AdapterArgs, FAILED, RunArgs};
use rings::RingDirectory;
pub use rings::{files as ring_files, is_running};

/// Options of `weft record`.
#[derive(Args, Debug, Default)]
pub struct RecordArgs {
    /// File to write; an existing one is replaced
    #[arg(short, long, value_name = "FILE", default_value = "weft.record")]
    output: PathBuf,
    /// Print nothing
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten, next_help_heading = "As weft run")]
    adapters: AdapterArgs,
    /// Start the program once a program listens on PORT (TCP or the RDMA connection manager)
    #[arg(long, value_name = "PORT", help_heading = "As weft run")]
    wait_port: Option<u16>,
    /// Program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: &RecordArgs) -> ExitCode {
    match record(args) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            crate::errln!("weft record: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

fn record(args: &RecordArgs) -> Result<u8> {
    let rings = RingDirectory::beside(&args.output)?;
    let file = rings.create_output().with_context(|| rings.path().display().to_string())?;
    let signals = Signals::new()?;
    let mut command = program(args, rings.path())?;
    let mut program = Program::start(&mut command).context("cannot run weft run")?;
    let end = program.wait(&signals, None)?;
    let killed = death_of(&program, end);
    rings.await_ends();
    for line in finish(args, rings, file, killed) {
        crate::errln!("weft record: {line}");
    }
    Ok(end.code())
}

/// Packs the record, and returns lines to print. A failure is one of them: the exit status is the program's.
fn finish(args: &RecordArgs, rings: RingDirectory, file: File, killed: Option<(u32, Killed)>) -> Vec<String> {
    match pack::pack(&rings, file, &args.output, killed) {
        Ok(packed) => {
            let lines = packed.lines(&args.output, rings.path());
            let is_complete = packed.is_complete();
            if is_complete {
                rings.remove();
            }
            if args.quiet && is_complete { Vec::new() } else { lines }
        }
        Err(error) => {
            let path = rings.path().display();
            vec![format!("{error:#}"), format!("weft explain {path} reads the record, and rm -r {path} removes it")]
        }
    }
}

/// Returns the program's process with its end by a signal, if it had one. `weft run` replaces itself by the program.
fn death_of(program: &Program, end: End) -> Option<(u32, Killed)> {
    let End::Ended(status) = end else { return None };
    let signal = u8::try_from(status.signal()?).ok()?;
    Some((program.pid(), Killed { at: weft_recorder::now(), signal }))
}

/// The recorded program, under `weft run`.
fn program(args: &RecordArgs, rings: &Path) -> Result<Command> {
    let run = RunArgs { adapters: args.adapters.clone(), command: args.command.clone(), ..RunArgs::default() };
    let mut command = Command::new(std::env::current_exe().context("this program's file")?);
    command.arg("run");
    command.args(args.wait_port.iter().flat_map(|port| ["--wait-port".to_owned(), port.to_string()]));
    command.args(run::words(&run));
    command.env(weft_recorder::VARIABLE, rings);
    Ok(command)
}
