//! The system's `ip`.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use serde_json::Value;

use crate::commands::own_file::find_original;

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

/// Returns the system's command.
fn program() -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).map(|dir| dir.join("ip"));
    let all = std::iter::once(PathBuf::from(ORIGINAL)).chain(places);
    find_original(all).unwrap_or_else(|| PathBuf::from(ORIGINAL))
}

/// Returns its command line.
pub fn original(args: &[OsString]) -> Command {
    let mut command = Command::new(program());
    command.arg0("ip").args(args);
    command
}

/// Asks it for an answer in JSON: `Null` if there is none.
pub fn query(words: &[&str]) -> Value {
    let words: Vec<_> = words.iter().map(Into::into).collect();
    let output = original(&words).stdin(Stdio::null()).stderr(Stdio::null()).output();
    output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default()
}
