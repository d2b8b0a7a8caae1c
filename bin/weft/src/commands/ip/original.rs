//! The system's `ip`.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

/// The system's command in the view of `weft run`, below the directory of a class.
pub const ORIGINAL: &str = "/sys/class/infiniband_verbs/.original/ip";

/// Returns the exit code for its exit status; `written`: whether its output was written.
pub fn code_of(status: ExitStatus, written: bool) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?)).and_then(|code| u8::try_from(code).ok());
    match code {
        Some(0) if !written => ExitCode::FAILURE,
        code => ExitCode::from(code.unwrap_or(1)),
    }
}

/// Returns its command line.
pub fn original(args: &[OsString]) -> Command {
    let program = if Path::new(ORIGINAL).exists() { ORIGINAL } else { "ip" };
    let mut command = Command::new(program);
    command.arg0("ip").args(args);
    command
}
