//! The system's `ip`.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
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

/// Returns the system's command: never this one under another name, which would start itself without end.
fn program() -> PathBuf {
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let own = identity(Path::new("/proc/self/exe"));
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).map(|dir| dir.join("ip"));
    let mut all = std::iter::once(PathBuf::from(ORIGINAL)).chain(places);
    let found = all.find(|place| identity(place).is_some_and(|found| Some(found) != own));
    found.unwrap_or_else(|| PathBuf::from(ORIGINAL))
}

/// Returns its command line.
pub fn original(args: &[OsString]) -> Command {
    let mut command = Command::new(program());
    command.arg0("ip").args(args);
    command
}
