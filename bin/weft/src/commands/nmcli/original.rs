//! NetworkManager's own command, and when it is the right one.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use crate::commands::own_file::find_original;

/// The system's command in the view of `weft run`, below the directory of a class.
pub const ORIGINAL: &str = "/sys/class/infiniband_verbs/.original/nmcli";

/// Directory of stand-ins for commands that are not installed; it is at the end of the programs' PATH.
pub const DIRECTORY: &str = "/sys/class/infiniband_verbs/.commands";

/// Name of NetworkManager's process in `/proc/PID/comm`.
const DAEMON: &str = "NetworkManager\n";

/// Returns the system's command if it is the one to run: NetworkManager runs in this network, or the command needs none.
pub fn chosen(args: &[OsString]) -> Option<Command> {
    let original = find_original([ORIGINAL.into()])?;
    let needs_none = args.iter().take_while(|arg| arg.to_string_lossy().starts_with('-')).any(|arg| arg == "--offline");
    (needs_none || is_managed()).then(|| {
        let mut command = Command::new(original);
        command.arg0("nmcli").args(args);
        command
    })
}

/// Replaces this process by the command.
pub fn become_it(mut command: Command) -> ExitCode {
    crate::errln!("nmcli: the system's command does not start: {}", crate::errno::text(&command.exec()));
    ExitCode::FAILURE
}

/// Whether NetworkManager runs in the network namespace of this process. That of the machine manages no host of a fabric.
fn is_managed() -> bool {
    let Ok(own) = fs::read_link("/proc/self/ns/net") else { return false };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut processes = all.map(|entry| entry.path());
    processes.any(|process| {
        fs::read_to_string(process.join("comm")).is_ok_and(|name| name == DAEMON)
            && fs::read_link(process.join("ns/net")).is_ok_and(|network| network == own)
    })
}
