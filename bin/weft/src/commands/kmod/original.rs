//! The system's `kmod`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::commands::modules::ModuleFiles;

/// Directories of the system's commands, for a view that covers none of them.
const DIRS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Returns the command line of one of its commands; `None` if it is not installed.
pub fn command(files: Option<&ModuleFiles>, name: &str) -> Option<Command> {
    let own = identity(Path::new("/proc/self/exe"));
    let places = DIRS.iter().map(|dir| PathBuf::from(dir).join(name));
    let mut all = files.map(ModuleFiles::original).into_iter().chain(places);
    // Never this command under another name, which would start itself without end.
    let program = all.find(|place| identity(place).is_some_and(|found| Some(found) != own))?;
    let mut command = Command::new(program);
    command.arg0(name);
    Some(command)
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
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
