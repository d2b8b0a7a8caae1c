//! Attempts at the system calls that containers, seccomp filters and sysctls refuse. Each changes the calling process:
//! make it in a child (`weft doctor` starts one for each).

use std::io;
use std::path::Path;

use crate::{memory, namespace, share, vm};

/// A system call, or a step that needs several, which may be refused here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Probe {
    /// A private mount namespace, as root or through a user namespace.
    MountNamespace,
    /// A memory file system inside it.
    Mount,
    /// process_vm_readv(2), of the own process.
    ReadProcess,
    /// userfaultfd(2).
    UserFaults,
    /// memfd_create(2).
    MemoryFile,
}

/// Directories that the trial mount may cover; one of them exists on any system.
const MOUNT_PLACES: [&str; 4] = ["/mnt", "/tmp", "/run", "/var/tmp"];

/// Size of the trial mount.
const MOUNT_BYTES: usize = 4096;

impl Probe {
    /// All of them, with the names that select them on a command line.
    pub const ALL: [(&'static str, Probe); 5] = [
        ("mount-namespace", Probe::MountNamespace),
        ("mount", Probe::Mount),
        ("process_vm_readv", Probe::ReadProcess),
        ("userfaultfd", Probe::UserFaults),
        ("memfd_create", Probe::MemoryFile),
    ];

    /// Makes the attempt. The process should exit afterwards, and must have one thread.
    ///
    /// # Errors
    /// The system refused.
    pub fn attempt(self) -> io::Result<()> {
        match self {
            Probe::MountNamespace => namespace::enter_mount_namespace().map(drop),
            Probe::Mount => {
                namespace::enter_mount_namespace()?;
                let place = MOUNT_PLACES.map(Path::new).into_iter().find(|place| place.is_dir());
                namespace::mount_tmpfs(place.unwrap_or(Path::new("/")), MOUNT_BYTES)
            }
            Probe::ReadProcess => {
                let (word, mut copy) = (0x5745_4654_u64, [0; 8]);
                vm::peek(std::process::id().cast_signed(), (&raw const word).expose_provenance() as u64, &mut copy)
            }
            Probe::UserFaults => share::try_user_faults(),
            Probe::MemoryFile => memory::anonymous_file("weft-probe").map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_change_nothing_succeed_here() {
        Probe::ReadProcess.attempt().unwrap();
        Probe::MemoryFile.attempt().unwrap();
    }

    #[test]
    fn each_probe_has_one_name() {
        let names: std::collections::BTreeSet<_> = Probe::ALL.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), Probe::ALL.len());
    }
}
