//! The adapter of a process on this machine: its memory, its peers, its paths.

use weft_hca::{Hca, HostInterface, HostParts};

use crate::host_peers::HostPeers;
use crate::known_paths::KnownPaths;
use crate::memory::HostMemory;

/// The parts of a process on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Process;

impl HostInterface for Process {
    type Memory = HostMemory;
    type Peers = HostPeers;
    type Paths = KnownPaths;
}

/// The adapter of a process on this machine.
pub type Adapter = Hca<Process>;

impl Process {
    /// Returns the parts of a process that has met no other and knows no path.
    pub(crate) fn parts() -> HostParts<Process> {
        HostParts { memory: HostMemory, peers: HostPeers::default(), paths: KnownPaths::default() }
    }
}
