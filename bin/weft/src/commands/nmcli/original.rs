//! NetworkManager's own command, and when it is the right one.

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use crate::commands::stand_in::original_command;

/// Name of NetworkManager's process in `/proc/PID/comm`.
const DAEMON: &str = "NetworkManager\n";

/// Returns the system's command if it is the one to run: NetworkManager runs in this network, or the command needs none.
pub fn chosen(args: &[OsString]) -> Option<Command> {
    let command = original_command("nmcli", args)?;
    let needs_none = args.iter().take_while(|arg| arg.to_string_lossy().starts_with('-')).any(|arg| arg == "--offline");
    (needs_none || is_managed()).then_some(command)
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
