//! Process that stays after the command ends.

use std::path::Path;

use anyhow::Result;
use weft_rdma_service::detached;

use super::args::MountArgs;

/// Starts this command again as a process of its own, and returns when it has mounted the directory.
///
/// # Errors
/// It has not; it printed the reason.
pub fn start(args: &MountArgs, directory: &Path) -> Result<()> {
    let mut command = detached::again()?;
    command.args(["nfs", "mount", "--foreground", "--detached"]).arg(args.source.to_string()).arg(directory);
    if args.system {
        command.arg("--system");
    }
    if !args.options.is_empty() {
        command.arg("-o").arg(args.options.join(","));
    }
    let line = detached::first_line(command)?;
    if line.is_empty() {
        // The process printed why.
        std::process::exit(32);
    }
    Ok(())
}
