//! Memory that has a descriptor.

use std::fs::File;
use std::io;

use rustix::fs::MemfdFlags;

/// A file in memory without a name anywhere: it lives for as long as somebody has it open. Close-on-exec.
pub fn anonymous_file(label: &str) -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create(label, MemfdFlags::CLOEXEC)?))
}
