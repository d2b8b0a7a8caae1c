//! The places of Weft's stand-ins for commands in the view of `weft run`, and of the system's commands that they cover.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use super::own_file::find_original;

/// Directory of the system's commands that stand-ins cover, below the directory of a class.
const ORIGINALS: &str = "/sys/class/infiniband_verbs/.original";

/// Directory of stand-ins for commands that are not installed; it is at the end of the programs' PATH.
pub const DIRECTORY: &str = "/sys/class/infiniband_verbs/.commands";

/// Returns the place of the system's command of this name in a view whose stand-in covers it.
pub fn original(name: &str) -> PathBuf {
    PathBuf::from(ORIGINALS).join(name)
}

/// Returns the command line of the system's command, if it is installed.
pub fn original_command(name: &str, args: &[OsString]) -> Option<Command> {
    let mut command = Command::new(find_original([original(name)])?);
    command.arg0(name).args(args);
    Some(command)
}

/// Replaces this process by the system's command.
pub fn become_original(name: &str, mut command: Command) -> ExitCode {
    crate::errln!("{name}: the system's command does not start: {}", crate::errno::text(&command.exec()));
    ExitCode::FAILURE
}
