//! `weft daemon`: the process that stands in for the kernel. Libraries start it on demand; the command serves to
//! inspect it, keep it running, or stop it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use weft_daemon::{LogTarget, Options};
use weft_ipc::{ConnectOptions, stop_daemon};

use super::status::{self, StatusArgs};
use crate::outln;

/// Options of `weft daemon`.
#[derive(Args, Debug)]
pub struct DaemonArgs {
    /// Log to standard error, and serve until stopped
    #[arg(long)]
    foreground: bool,
    /// Stop the daemon of this network namespace
    #[arg(long, conflicts_with = "foreground")]
    stop: bool,
    /// Show the daemon of this network namespace (as weft status)
    #[arg(long, conflicts_with_all = ["foreground", "stop"])]
    status: bool,
    /// With --status: print JSON
    #[arg(short, long, requires = "status")]
    json: bool,
    /// Exit after SECONDS without a program that needs the daemon; 0: never
    #[arg(long, value_name = "SECONDS")]
    idle_exit: Option<u64>,
    /// Append log messages to this file
    #[arg(long, value_name = "FILE", conflicts_with = "foreground")]
    log: Option<PathBuf>,
    /// Limit how many processes of one user may use devices at a time
    #[arg(long, value_name = "N")]
    slots_per_user: Option<u32>,
}

/// Runs the command.
pub fn run(args: &DaemonArgs) -> ExitCode {
    if args.status {
        return status::run(&StatusArgs { json: args.json });
    }
    if args.stop {
        return stop();
    }
    match weft_daemon::run(&options(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            crate::errln!("weft daemon: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn options(args: &DaemonArgs) -> Options {
    let mut options = Options::default();
    if args.foreground {
        options.log = LogTarget::Stderr;
        options.idle_exit = None;
    }
    if let Some(seconds) = args.idle_exit {
        options.idle_exit = (seconds > 0).then(|| Duration::from_secs(seconds));
    }
    if let Some(file) = &args.log {
        options.log = LogTarget::File(file.clone());
    }
    if let Some(slots) = args.slots_per_user {
        options.slots_per_user_max = slots;
    }
    options
}

fn stop() -> ExitCode {
    let options = ConnectOptions { program: "weft".to_owned(), ..ConnectOptions::default() };
    match stop_daemon(&options) {
        Ok(true) => {
            outln!("the daemon is stopping");
            ExitCode::SUCCESS
        }
        Ok(false) => {
            outln!("no daemon runs in this network namespace");
            ExitCode::SUCCESS
        }
        Err(e) => {
            crate::errln!("weft daemon --stop: {e}");
            ExitCode::FAILURE
        }
    }
}
