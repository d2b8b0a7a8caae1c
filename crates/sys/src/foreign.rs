//! Memory files of another process of our own user, found through /proc. The kernel itself names the owner, so no
//! intermediary needs to be trusted.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use crate::pidfd;

/// Maximum number of descriptors of a process that are examined.
const DESCRIPTORS_MAX: usize = 1 << 16;

/// Returns the PID of a live process whose user IDs all equal our effective one.
fn number_of_our_user(process: impl AsFd) -> Option<i32> {
    let pid = pidfd::number(&process)?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let own = crate::process::euid();
    // The overflow UID also stands for unknown users.
    if !crate::process::euid_is_ours_alone() {
        return None;
    }
    let same = users.split_ascii_whitespace().all(|uid| uid.parse() == Ok(own));
    // The PID may have been reused before the lookup.
    (same && !pidfd::is_dead(&process)).then_some(pid)
}

/// Returns the first memory file with this label that a process of our user has open and that `accept` takes.
pub fn find_memory_file<R>(process: impl AsFd, label: &str, mut accept: impl FnMut(OwnedFd) -> Option<R>) -> Option<R> {
    let pid = number_of_our_user(&process)?;
    let name = format!("/memfd:{label} (deleted)");
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().take(DESCRIPTORS_MAX);
    let found = descriptors
        .map(|entry| entry.path())
        .filter(|path| std::fs::read_link(path).is_ok_and(|target| target.as_os_str() == name.as_str()))
        .find_map(|path| accept(File::open(path).ok()?.into()))?;
    (!pidfd::is_dead(process)).then_some(found)
}

/// Whether a process of our user maps one of our memory files.
///
/// # Errors
/// The file's metadata cannot be read.
pub fn maps(process: impl AsFd, file: &File) -> io::Result<bool> {
    let inode = file.metadata()?.ino().to_string();
    let Some(pid) = number_of_our_user(&process) else { return Ok(false) };
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let is_ours = |line: &str| {
        let mut columns = line.split_ascii_whitespace().skip(4);
        columns.next() == Some(inode.as_str()) && columns.next().is_some_and(|name| name.starts_with("/memfd:"))
    };
    Ok(maps.lines().any(is_ours) && !pidfd::is_dead(process))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::{self, SharedView};

    #[test]
    fn a_memory_file_is_found_in_the_process_that_has_it() {
        let own = pidfd::open(std::process::id()).unwrap();
        let label = format!("weft-test-{}", std::process::id());
        assert!(find_memory_file(&own, &label, Some).is_none());
        let file = shared::create_file(&label, 4096).unwrap();
        assert!(!maps(&own, &file).unwrap());
        let found = find_memory_file(&own, &label, Some).unwrap();
        let _view = SharedView::map(&found, 4096).unwrap();
        assert!(maps(&own, &file).unwrap());
        let init = pidfd::open(1).unwrap();
        let is_ours = crate::process::euid() == 0;
        assert!(is_ours || number_of_our_user(&init).is_none());
    }
}
