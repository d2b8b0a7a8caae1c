//! The system's `kmod`.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::commands::modules::ModuleFiles;
use crate::commands::own_file::find_original;

/// Directories of the system's commands, for a view that covers none of them.
const DIRS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Returns the command line of one of its commands; `None` if it is not installed.
pub fn command(files: Option<&ModuleFiles>, name: &str) -> Option<Command> {
    let places = DIRS.iter().map(|dir| PathBuf::from(dir).join(name));
    let mut command = Command::new(find_original(files.map(ModuleFiles::original).into_iter().chain(places))?);
    command.arg0(name);
    Some(command)
}

/// Becomes the system's command.
pub fn pass<S: AsRef<OsStr>>(files: Option<&ModuleFiles>, name: &str, args: &[S]) -> ExitCode {
    let error = match command(files, name) {
        Some(mut command) => command.args(args).exec(),
        None => io::ErrorKind::NotFound.into(),
    };
    match error.kind() {
        io::ErrorKind::NotFound => crate::errln!("{name}: the system has no such command: kmod is not installed"),
        _ => crate::errln!("{name}: the system's command does not start: {}", crate::errno::text(&error)),
    }
    ExitCode::FAILURE
}
