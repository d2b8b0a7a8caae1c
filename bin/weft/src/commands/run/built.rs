//! A view as it stands in the file system.

use super::class_files::ClassFiles;
use super::issm::IssmPipe;
use super::live_file::LiveFile;
use super::nodes::Nodes;

/// A view's files and nodes.
#[derive(Debug)]
pub struct Built {
    /// Its files below /sys/class.
    pub classes: ClassFiles,
    /// Its nodes in /dev/infiniband.
    pub nodes: Nodes,
    /// The files with changing content.
    pub live: Vec<LiveFile>,
    /// The issm nodes.
    pub pipes: Vec<IssmPipe>,
}
