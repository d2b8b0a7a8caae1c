//! Process that stays after the command ends.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::args::MountArgs;

/// Starts this command again as a process of its own, and returns when it has mounted the directory.
///
/// # Errors
/// It has not; it printed the reason.
pub fn start(args: &MountArgs, directory: &Path) -> Result<()> {
    let program = std::env::current_exe().context("this program's file")?;
    let mut command = Command::new(program);
    // The file may be a stand-in's place, under another name.
    command
        .arg0("weft")
        .args(["nfs", "mount", "--foreground", "--detached"])
        .arg(args.source.to_string())
        .arg(directory);
    if args.system {
        command.arg("--system");
    }
    if !args.options.is_empty() {
        command.arg("-o").arg(args.options.join(","));
    }
    let line = first_line(command)?;
    if line.is_empty() {
        // The process printed why.
        std::process::exit(32);
    }
    Ok(())
}

/// Starts a process, and returns the first line that it prints; empty if it ends before.
pub fn first_line(mut command: Command) -> Result<String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("the process in the background")?;
    let Some(out) = child.stdout.take() else { bail!("the process in the background has no output") };
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    if line.is_empty() {
        child.wait()?;
    }
    Ok(line.trim_end().to_owned())
}
