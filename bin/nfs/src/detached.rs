//! Separation of a process in the background from its parent.

use anyhow::{Context, Result};

/// Separates this process from the terminal and the directory of its parent.
pub fn begin() -> Result<()> {
    rustix::process::setsid().context("setsid")?;
    std::env::set_current_dir("/")?;
    Ok(())
}

/// Gives up the parent's output, which may wait for its end.
pub fn ready() -> Result<()> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
