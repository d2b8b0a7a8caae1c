//! Stand-in for mount(8)'s helper `mount.nfs` on a fabric's host: mounts over RDMA are Weft's, all others the system's.

use std::ffi::OsString;
use std::process::ExitCode;

use super::stand_in::{become_original, original_command};

/// Name of the helper, which is `mount.nfs4`, too.
const NAME: &str = "mount.nfs";

/// Returns whether a command's name is the helper's.
pub fn is_name(name: &str) -> bool {
    matches!(name, "mount.nfs" | "mount.nfs4")
}

/// Runs the command.
pub fn run(args: &[OsString]) -> ExitCode {
    if let Some(code) = weft_nfs::mount_over_rdma(args) {
        return code;
    }
    match original_command(NAME, args) {
        Some(command) => become_original(NAME, command),
        None => {
            crate::errln!("mount.nfs: only mounts over RDMA are possible here (-o rdma): nfs-common is not installed");
            ExitCode::FAILURE
        }
    }
}
