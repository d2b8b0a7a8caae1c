//! Processes that stay in the background after the command ends. The command starts itself again ([`first_line`]), and returns
//! once the process prints a line; the process separates itself ([`begin`]), and gives its output up when it is ready
//! ([`ready`]).

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Separates this process from the terminal and the directory of its parent.
///
/// # Errors
/// The process leads a group already.
pub fn begin() -> Result<()> {
    rustix::process::setsid().context("setsid")?;
    std::env::set_current_dir("/")?;
    Ok(())
}

/// Gives up the parent's output, which may wait for its end.
///
/// # Errors
/// There is no /dev/null.
pub fn ready() -> Result<()> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Returns the command that starts this program again.
///
/// # Errors
/// This program's file is unknown.
pub fn again() -> Result<Command> {
    let program = std::env::current_exe().context("this program's file")?;
    let mut command = Command::new(program);
    // The file may be a stand-in's place, under another name.
    command.arg0("weft");
    Ok(command)
}

/// Starts a process, and returns the first line that it prints; empty if it ends before.
///
/// # Errors
/// The process cannot be started.
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
