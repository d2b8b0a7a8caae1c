//! Memory that has a descriptor.

use std::fs::File;
use std::io;

use rustix::fs::{MemfdFlags, SealFlags};

/// A file in memory without a name anywhere: it lives for as long as somebody has it open. Close-on-exec.
pub fn anonymous_file(label: &str) -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create(label, MemfdFlags::CLOEXEC)?))
}

/// The same, zeroes of this length, which nobody can change any more, whoever gets the descriptor.
pub fn sealed_file(label: &str, len: u64) -> io::Result<File> {
    let file = File::from(rustix::fs::memfd_create(label, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    crate::file_size::set_len(&file, len)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}
