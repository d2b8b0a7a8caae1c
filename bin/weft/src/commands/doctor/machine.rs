//! Questions that the checks ask about a machine. [`super::this_machine`] answers them here; tests answer from tables.

use std::ffi::OsStr;
use std::io;

use weft_ipc::{Build, PortHealth};
use weft_sys::probe::Probe;

use crate::commands::run::program::Program;

/// A machine, as the checks see it. No answer may take longer than a few seconds.
pub trait Machine {
    /// The content of a small file, such as those in /proc.
    fn read(&self, path: &str) -> Option<String>;
    /// The names in a directory, sorted.
    fn list(&self, path: &str) -> Vec<String>;
    /// Whether this user may read and write a file.
    fn may_use(&self, path: &str) -> bool;
    /// Attempts a system call in a child process.
    fn attempt(&self, probe: Probe) -> io::Result<()>;
    /// The soft limit of open files.
    fn descriptors_max(&self) -> u64;
    /// The soft limit of locked memory in bytes.
    fn locked_bytes_max(&self) -> u64;
    /// The user that runs the command.
    fn user(&self) -> u32;
    /// The process that has a socket open, with its name.
    fn owner_of_socket(&self, inode: u64) -> Option<(u32, String)>;
    /// Weft's libraries beside the command.
    fn libraries(&self) -> Result<Vec<Library>, String>;
    /// The daemon, which is started if none runs.
    fn daemon(&self) -> Daemon;
    /// The program that is to be served, if the user named one.
    fn program(&self) -> Option<Asked<'_>>;
}

/// One of Weft's shared libraries.
#[derive(Clone, Debug)]
pub struct Library {
    /// Its name, such as `libibverbs.so.1`.
    pub soname: &'static str,
    /// Its file; `None` if it is missing.
    pub path: Option<String>,
    /// The build that its file names.
    pub build: Option<Build>,
}

/// The daemon of this network namespace.
#[derive(Clone, Debug, Default)]
pub struct Daemon {
    /// Its process and user, if one listens.
    pub process: Option<(u32, u32)>,
    /// The session, or the reason why there is none.
    pub session: Option<Result<Session, String>>,
    /// Its protocol, if that is not ours.
    pub other_protocol: Option<u32>,
}

/// Answers of a daemon of our protocol.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its release.
    pub version: String,
    /// UDP port 4791.
    pub port: PortHealth,
    /// Names of the devices.
    pub devices: Vec<String>,
}

/// The program that the user named.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The name, as typed.
    pub name: &'a OsStr,
    /// Its file.
    pub path: Option<String>,
    /// Permissions of the file.
    pub mode: u32,
    /// First line of the file, if it is a script.
    pub first_line: Option<String>,
    /// The program, or the interpreter of the script.
    pub program: Option<&'a Program>,
}
