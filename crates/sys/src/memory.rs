//! Memory with a file descriptor.

use std::fs::File;
use std::io;

use rustix::fs::{MemfdFlags, SealFlags};

/// Creates an unnamed memory file, which exists as long as a process has it open. Close-on-exec.
pub fn anonymous_file(label: &str) -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create(label, MemfdFlags::CLOEXEC)?))
}

/// Creates a memory file of this length, filled with zeroes and sealed against any change by any holder.
pub fn sealed_file(label: &str, len: u64) -> io::Result<File> {
    let file = File::from(rustix::fs::memfd_create(label, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    crate::file_size::set_len(&file, len)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}
