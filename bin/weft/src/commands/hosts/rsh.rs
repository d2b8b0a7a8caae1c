//! `weft rsh`: a remote shell onto hosts of the fabric, with the command line of rsh and ssh. Launchers of parallel
//! programs (Open MPI's plm_rsh_agent, MPICH's Hydra, pdsh) use it as their agent.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use clap::Args;

use super::rsh_args::RemoteCommand;
use super::shell;
use crate::commands::run::{self, AdapterArgs, FAILED, RunArgs};
use crate::errno;

/// Exit code of a remote shell that does not reach its host, as in ssh.
const UNREACHABLE: u8 = 255;

/// Options of `weft rsh`.
#[derive(Args, Debug)]
pub struct RshArgs {
    /// Options of rsh or ssh, HOST or USER@HOST, and the command, which a shell on the host reads
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "[OPTIONS] HOST [COMMAND]..."
    )]
    words: Vec<OsString>,
}

/// Runs the command. Returns only if that fails: the remote program replaces this process.
pub fn run(args: &RshArgs) -> ExitCode {
    match RemoteCommand::parse(&args.words).and_then(|command| start(&command)) {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            crate::errln!("weft rsh: {why}");
            ExitCode::from(UNREACHABLE)
        }
    }
}

fn start(remote: &RemoteCommand) -> Result<u8, String> {
    if let Some(user) = &remote.user {
        check_user(user)?;
    }
    if remote.in_background {
        return background(remote);
    }
    if remote.without_input {
        let null = std::fs::File::open("/dev/null").map_err(|e| format!("/dev/null: {}", errno::text(&e)))?;
        rustix::stdio::dup2_stdin(null).map_err(|e| format!("/dev/null: {}", errno::text(&e.into())))?;
    }
    if remote.command.is_empty() {
        return Ok(unreachable_if_failed(shell::start(&remote.host)));
    }
    // A remote shell starts in the user's home directory, wherever its caller is.
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir());
    let _ = std::env::set_current_dir(home.unwrap_or_else(|| "/".into()));
    Ok(unreachable_if_failed(run::start(&RunArgs {
        adapters: AdapterArgs::of_host(&remote.host),
        command: vec!["/bin/sh".into(), "-c".into(), remote.command.clone()],
        ..RunArgs::default()
    })))
}

fn unreachable_if_failed(code: u8) -> u8 {
    if code == FAILED { UNREACHABLE } else { code }
}

/// Starts the command and leaves it to itself (`-f`).
fn background(remote: &RemoteCommand) -> Result<u8, String> {
    let cannot = |e: std::io::Error| format!("cannot start in the background: {}", errno::text(&e));
    let exe = std::env::current_exe().map_err(cannot)?;
    let mut command = Command::new(exe);
    command.args(["rsh", "--", &remote.host]).arg(&remote.command).stdin(Stdio::null());
    command.spawn().map_err(cannot)?;
    Ok(0)
}

/// Programs of a host run as the caller: there is no other user to become.
fn check_user(name: &str) -> Result<(), String> {
    let uid = Command::new("id").args(["-u", "--", name]).stderr(Stdio::null()).output();
    let uid = uid.ok().filter(|output| output.status.success());
    let uid: Option<u32> = uid.and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse().ok());
    let own = weft_sys::process::euid();
    match uid {
        Some(uid) if uid == own => Ok(()),
        Some(_) => Err(format!("cannot run as {name}: programs of a fabric's hosts run as you; leave the user out")),
        None => Err(format!("unknown user {name}")),
    }
}
