//! Detects I/O that may write to the memory's physical pages instead of its addresses: input that the kernel has under
//! way into pinned pages. Giving such an address other pages would lose the input, and nothing reports whether input is
//! under way; but it needs one of these descriptors or mappings.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Character devices that never pin a process's memory.
const HARMLESS_DEVICES: [&[u8]; 17] = [
    b"/dev/null",
    b"/dev/zero",
    b"/dev/full",
    b"/dev/random",
    b"/dev/urandom",
    b"/dev/tty",
    b"/dev/pts/",
    b"/dev/ptmx",
    b"/dev/console",
    b"/dev/kmsg",
    b"/dev/net/tun",
    b"/dev/fuse",
    b"/dev/cpu_dma_latency",
    b"/dev/hpet",
    b"/dev/rtc",
    b"/dev/shm/",
    b"/dev/hugepages",
];

/// Returns the reason why memory of this process may be pinned, if any; `threads` means that other threads may be in
/// the middle of a direct read.
pub(super) fn pinning(threads: bool) -> io::Result<Option<&'static str>> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        // Closed meanwhile, or the directory's own descriptor.
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        if let Some(why) = by_name(&target) {
            return Ok(Some(why));
        }
        if threads && target.is_absolute() && is_direct(&entry.file_name().to_string_lossy()) {
            return Ok(Some("a file is open for direct input (O_DIRECT)"));
        }
    }
    let table = std::fs::read_to_string("/proc/self/maps")?;
    Ok(table.lines().find_map(by_mapping))
}

fn by_name(target: &Path) -> Option<&'static str> {
    let name = target.as_os_str().as_bytes();
    if name == b"anon_inode:[io_uring]" {
        return Some("an io_uring is open");
    }
    if name.starts_with(b"/dev/") && !HARMLESS_DEVICES.iter().any(|harmless| name.starts_with(harmless)) {
        return Some("a device is open that may pin memory");
    }
    None
}

fn by_mapping(line: &str) -> Option<&'static str> {
    let name = line.splitn(6, ' ').nth(5)?.trim_start();
    if name.starts_with("/[aio]") {
        return Some("asynchronous input (libaio) is set up");
    }
    if name.contains("[io_uring]") {
        return Some("an io_uring is mapped");
    }
    name.starts_with("socket:[").then_some("a socket's ring is mapped")
}

fn is_direct(fd: &str) -> bool {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|text| i32::from_str_radix(text.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_DIRECT != 0)
}

/// Returns the number of threads of this process; `usize::MAX` if it cannot be determined.
pub(super) fn threads() -> usize {
    use std::os::unix::fs::MetadataExt;
    // A directory has two links, and one more for each subdirectory.
    std::fs::metadata("/proc/self/task").map_or(usize::MAX, |task| (task.nlink() as usize).saturating_sub(2).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_and_devices_are_known_by_name() {
        assert!(by_name(Path::new("anon_inode:[io_uring]")).is_some());
        assert!(by_name(Path::new("/dev/vfio/12")).is_some());
        assert!(by_name(Path::new("/dev/nvidia0")).is_some());
        for harmless in ["/dev/null", "/dev/pts/3", "socket:[12]", "anon_inode:[eventpoll]", "/home/x", "pipe:[3]"] {
            assert_eq!(by_name(Path::new(harmless)), None, "{harmless}");
        }
        assert!(by_mapping("7f0-7f1 rw-s 00000000 00:10 44     /[aio] (deleted)").is_some());
        assert!(by_mapping("7f0-7f1 rw-s 10000000 00:10 44     anon_inode:[io_uring]").is_some());
        assert!(by_mapping("7f0-7f1 rw-s 00000000 00:08 44     socket:[99]").is_some());
        assert_eq!(by_mapping("7f0-7f1 rw-p 00000000 00:00 0 "), None);
        assert_eq!(by_mapping("7f0-7f1 rw-p 00000000 00:00 0                          [heap]"), None);
    }

    #[test]
    fn files_read_directly_are_noticed() {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::OpenOptionsExt;
        let path = std::env::current_exe().unwrap();
        let direct = std::fs::File::options().read(true).custom_flags(libc::O_DIRECT).open(&path);
        if let Ok(direct) = direct {
            assert!(is_direct(&direct.as_raw_fd().to_string()));
        }
        let usual = std::fs::File::open(&path).unwrap();
        assert!(!is_direct(&usual.as_raw_fd().to_string()));
    }

    #[test]
    fn threads_are_counted() {
        let before = threads();
        let (tx, rx) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || rx.recv());
        assert!(threads() > 1 && before >= 1);
        drop(tx);
        let _ = thread.join();
    }
}
