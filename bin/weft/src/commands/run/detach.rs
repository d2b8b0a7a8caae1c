//! `weft run --detach`: starts a program in the background and returns once it listens, so that a client started next
//! finds its server.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::args::{FAILED, RunArgs};
use super::ethernet;
use super::wait_port::{cm_listeners, listening_sockets};
use super::words::Words;

/// Time limit for the program to start listening. A program that never does is left running.
pub const LISTENS_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Starts `weft run` with the same options in a process group of its own and waits until it listens.
pub fn run(args: &RunArgs) -> ExitCode {
    run_command("run", &words(args), args)
}

/// Starts a command of `weft` with these words in a process group of its own, and waits until the program of `args`,
/// which it runs, listens.
pub fn run_command(command: &str, words: &[OsString], args: &RunArgs) -> ExitCode {
    match start(command, words, args) {
        Ok(code) => code,
        Err(e) => {
            crate::errln!("weft {command}: {e:#}");
            ExitCode::from(FAILED)
        }
    }
}

fn start(command: &str, words: &[OsString], args: &RunArgs) -> Result<ExitCode> {
    let program = args.command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let exe = std::env::current_exe().context("cannot tell where this command is")?;
    let mut child = Command::new(exe).arg(command).args(words).stdin(Stdio::null()).process_group(0).spawn()?;
    let start = Instant::now();
    // Programs on an Ethernet host listen in its network, and at its daemon.
    let host = match &args.adapters.host {
        Some(host) if ethernet::enter(host)?.is_none() => host.as_str(),
        _ => "",
    };
    loop {
        if listens(child.id(), args.wait_port, host) {
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(status) = child.try_wait()? {
            return Ok(ended(status));
        }
        if start.elapsed() > LISTENS_WITHIN {
            let port = args.wait_port.map(|port| format!(" on port {port}")).unwrap_or_default();
            crate::errln!(
                "weft {command}: {program}: does not listen{port} after {} s; it goes on in the background as process {}",
                LISTENS_WITHIN.as_secs(),
                child.id()
            );
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn ended(status: ExitStatus) -> ExitCode {
    match status.code() {
        Some(code) => ExitCode::from(u8::try_from(code).unwrap_or(FAILED)),
        None => ExitCode::from(FAILED),
    }
}

/// The options of `args` without `--detach` and `--wait-port`, followed by the command.
pub fn words(args: &RunArgs) -> Vec<OsString> {
    let RunArgs { ld_library_path, system, adapters, verbose, quiet, detach: _, wait_port: _, variables: _, command } =
        args;
    let mut words = Words::default();
    words.flag("--ld-library-path", *ld_library_path);
    words.flag("--system", *system);
    words.flag("-v", *verbose);
    words.flag("-q", *quiet);
    adapters.say(&mut words);
    words.0.push("--".into());
    words.0.extend(command.iter().cloned());
    words.0
}

/// Whether a process of the group listens on a TCP socket or through the connection manager, as a program of `host` if
/// that is not empty: on any port, or on the one given.
pub fn listens(group: u32, port: Option<u16>, host: &str) -> bool {
    let pids = members(group);
    let is_wanted = |listening: u16| port.is_none_or(|wanted| wanted == listening);
    pids.iter().any(|pid| listens_by_tcp(*pid, is_wanted))
        || cm_listeners(host).iter().any(|(pid, port)| pids.contains(pid) && is_wanted(*port))
}

/// Lists the processes of a process group.
fn members(group: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| group_of(&fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default()) == Some(group))
        .collect()
}

/// The process group: the fifth field of /proc/PID/stat. The second field, a name in brackets, may contain blanks and
/// brackets.
fn group_of(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

fn listens_by_tcp(pid: u32, is_wanted: impl Fn(u16) -> bool) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let targets = descriptors.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let sockets: BTreeSet<String> = targets.filter_map(|target| socket_inode(&target)).collect();
    if sockets.is_empty() {
        return false;
    }
    let tables = ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default());
    let mut listening = tables.iter().flat_map(|table| listening_sockets(table));
    listening.any(|(port, inode)| is_wanted(port) && sockets.contains(inode))
}

fn socket_inode(target: &Path) -> Option<String> {
    Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::run::AdapterArgs;

    #[test]
    fn sockets_are_known_by_inode() {
        assert_eq!(socket_inode(Path::new("socket:[4711]")), Some("4711".to_owned()));
        assert_eq!(socket_inode(Path::new("/dev/null")), None);
    }

    #[test]
    fn a_name_with_brackets_does_not_move_the_group() {
        assert_eq!(group_of("17 (a) b (c) S 1 23 17 0 -1"), Some(23));
        assert_eq!(group_of(""), None);
    }

    #[test]
    fn the_options_are_passed_on() {
        let args = RunArgs {
            adapters: AdapterArgs::of_host("node1"),
            verbose: true,
            detach: true,
            command: vec!["ib_write_bw".into(), "-n".into(), "5".into()],
            ..RunArgs::default()
        };
        assert_eq!(words(&args), ["-v", "--host", "node1", "--", "ib_write_bw", "-n", "5"]);
    }
}
