//! A view as it stands in the file system.

use std::os::fd::OwnedFd;

use super::issm::IssmPipe;
use super::live_file::LiveFile;
use super::nodes::Nodes;
use super::sys_files::SysFiles;

/// A view's files and nodes.
#[derive(Debug)]
pub struct Built {
    /// Its files below /sys.
    pub sys: SysFiles,
    /// Its nodes in /dev/infiniband.
    pub nodes: Nodes,
    /// The files with changing content.
    pub live: Vec<LiveFile>,
    /// The issm nodes.
    pub pipes: Vec<IssmPipe>,
    /// The pipes for SRP logins.
    pub srp_logins: Vec<OwnedFd>,
}
