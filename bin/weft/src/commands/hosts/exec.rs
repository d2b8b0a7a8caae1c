//! `weft exec HOSTS -- CMD`: the same program on many hosts at once, as pdsh and clush do over ssh.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::thread;

use clap::Args;

use super::{Hosts, gather, list};
use crate::{errno, output};

/// Programs that run at the same time at most, unless the user says otherwise, as in pdsh.
const PARALLEL_MAX: u16 = 32;

/// Exit code for failures before any program runs, as in `weft run`.
const FAILED: u8 = crate::commands::run::FAILED;

/// Options of `weft exec`.
#[derive(Args, Debug)]
pub struct ExecArgs {
    /// Hosts of the running fabric: node1,node3 or node[1-8] or node[1-8]!node3
    #[arg(value_name = "HOSTS", required_unless_present = "all", conflicts_with = "all")]
    hosts: Option<String>,
    /// All hosts
    #[arg(short, long)]
    all: bool,
    /// One host after the other, in their order
    #[arg(short, long)]
    serial: bool,
    /// Maximum number of hosts at the same time
    #[arg(short, long, value_name = "N", default_value_t = PARALLEL_MAX, conflicts_with = "serial",
          value_parser = clap::value_parser!(u16).range(1..))]
    fanout: u16,
    /// Program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the command. The exit code is that of the first program that failed.
pub fn run(args: &ExecArgs) -> ExitCode {
    match hosts(args) {
        Ok(hosts) => {
            let parallel = if args.serial { 1 } else { usize::from(args.fanout) };
            ExitCode::from(run_on(&hosts, parallel, &args.command))
        }
        Err(why) => {
            crate::errln!("weft exec: {why}");
            ExitCode::from(FAILED)
        }
    }
}

/// Determines the hosts. An unknown one is found before any program runs.
fn hosts(args: &ExecArgs) -> Result<Vec<String>, String> {
    let running = Hosts::running()?;
    let Some(wanted) = &args.hosts else {
        let all = running.names();
        return if all.is_empty() { Err("the fabric has no hosts".to_owned()) } else { Ok(all) };
    };
    let known = |name: &String| match running.called(name) {
        Some(host) => Ok(host),
        None => Err(format!("unknown host `{name}`; {}", running.description())),
    };
    list::expand(wanted)?.iter().map(known).collect()
}

/// Runs the command on the hosts, on `parallel` of them at the same time. Returns the exit code of the first failure.
fn run_on(hosts: &[String], parallel: usize, command: &[OsString]) -> u8 {
    let (next, failed) = (AtomicUsize::new(0), AtomicU8::new(0));
    let work = || {
        while let Some(host) = hosts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let code = run_one(host, command);
            if code != 0 {
                let _ = failed.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        (0..parallel.min(hosts.len())).for_each(|_| drop(scope.spawn(work)));
    });
    failed.into_inner()
}

/// Runs the command on a host to its end. Returns its exit code; reports one other than 0.
fn run_one(host: &str, command: &[OsString]) -> u8 {
    let ended = start(host, command).and_then(|mut child| {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        thread::scope(|scope| {
            scope.spawn(|| forward(stderr, host, |line| output::complain_text(&String::from_utf8_lossy(line))));
            forward(stdout, host, output::print_bytes);
        });
        child.wait()
    });
    match ended {
        Ok(status) if status.success() => 0,
        Ok(status) => {
            crate::errln!("weft exec: {host}: {}", outcome(status));
            code_of(status)
        }
        Err(error) => {
            crate::errln!("weft exec: {host}: cannot run `weft run`: {}", errno::text(&error));
            FAILED
        }
    }
}

fn start(host: &str, command: &[OsString]) -> std::io::Result<Child> {
    let mut run = Command::new(std::env::current_exe()?);
    run.args(["run", "--host", host, "--"]).args(command);
    run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

fn forward(from: Option<impl Read>, host: &str, print: impl FnMut(&[u8])) {
    if let Some(from) = from {
        gather::lines(from, &format!("{host}: "), print);
    }
}

/// The exit code by which a shell reports this end.
fn code_of(status: ExitStatus) -> u8 {
    /// Shells add a signal's number to this.
    const BY_SIGNAL: i32 = 128;
    let code = status.code().or_else(|| status.signal().map(|signal| BY_SIGNAL + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED)
}

fn outcome(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("ended by signal {signal}"),
        None => format!("exit status {}", code_of(status)),
    }
}
