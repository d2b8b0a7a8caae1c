//! The mapped memory of this process: checks that ranges are mapped, persistence, and release of unused pages.

use std::io;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::mm::Advice;

/// Ranges up to this length are made present when they are checked, as registration with a hardware adapter pins them:
/// no page fault then delays a packet. Longer ranges are checked only at their ends and for holes.
pub const POPULATE_BYTES_MAX: u64 = 4 << 30;

fn page_size() -> u64 {
    static SIZE: OnceLock<u64> = OnceLock::new();
    *SIZE.get_or_init(|| rustix::param::page_size() as u64)
}

/// Checks that every page of the range is mapped and readable, or writable if `write`; `InvalidInput` if not.
pub fn check(addr: u64, len: u64, write: bool) -> io::Result<()> {
    let page = page_size();
    let fault = || io::Error::from(io::ErrorKind::InvalidInput);
    let end = addr.checked_add(len).and_then(|end| end.checked_next_multiple_of(page)).ok_or_else(fault)?;
    let start = addr & !(page - 1);
    if len == 0 {
        return Ok(());
    }
    if end - start <= POPULATE_BYTES_MAX {
        return populate(start, end - start, write).or_else(|error| match error.raw_os_error() {
            // Mapped, but an access would raise SIGBUS: a file that ends before its mapping, or broken memory.
            Some(libc::EFAULT | libc::EHWPOISON) => Err(fault()),
            _ => by_table(start, end, write),
        });
    }
    by_table(start, end, write)
}

fn populate(start: u64, len: u64, write: bool) -> io::Result<()> {
    let advice = if write { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
    let pages = std::ptr::with_exposed_provenance_mut(start as usize);
    loop {
        // SAFETY: populating makes pages present as an access would, and changes no byte; the kernel refuses a range
        // that is not mapped.
        match unsafe { rustix::mm::madvise(pages, len as usize, advice) } {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Checks the kernel's list of mappings: for kernels before 5.14, device memory, and very long ranges.
fn by_table(start: u64, end: u64, write: bool) -> io::Result<()> {
    let table = std::fs::read_to_string("/proc/self/maps")?;
    if covered(&table, start, end, write) { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn covered(table: &str, start: u64, end: u64, write: bool) -> bool {
    let mut at = start;
    for line in table.lines() {
        let Some(Mapping { start: first, end: last, rights, .. }) = Mapping::parse(line) else { continue };
        if last <= at {
            continue;
        }
        let right = rights.starts_with('r') && (!write || rights.as_bytes().get(1) == Some(&b'w'));
        if first > at || !right {
            return false;
        }
        at = last;
        if at >= end {
            return true;
        }
    }
    false
}

/// Whether [`sync`] makes the whole range survive a power failure: all of it is shared mappings of files that are not
/// in memory only.
pub fn persists(addr: u64, len: u64) -> bool {
    let Ok(table) = std::fs::read_to_string("/proc/self/maps") else { return false };
    let Some(end) = addr.checked_add(len.max(1)) else { return false };
    let mut at = addr;
    while at < end {
        match Mapping::of(&table, at) {
            Some(mapping) if mapping.rights.ends_with('s') && is_stored(mapping.name) => at = mapping.end,
            _ => return false,
        }
    }
    true
}

/// Whether a mapped file is on a file system with permanent storage, or is a persistent memory device.
fn is_stored(name: &str) -> bool {
    /// Magic numbers of tmpfs (which /dev/shm and /dev are, too), ramfs and hugetlbfs.
    const IN_MEMORY: [i64; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];
    let in_memory = |name: &str| rustix::fs::statfs(name).map_or(true, |fs| IN_MEMORY.contains(&fs.f_type));
    name.starts_with("/dev/dax") || (name.starts_with('/') && !in_memory(name))
}

/// Writes the range back to the file mapped there, if any; returns when the write is complete.
pub fn sync(addr: u64, len: u64) {
    let page = page_size();
    let start = addr & !(page - 1);
    let len = addr.saturating_add(len) - start;
    // SAFETY: msync changes no byte of memory; the kernel refuses a range that is not mapped, which is harmless here.
    unsafe { libc::msync(std::ptr::with_exposed_provenance_mut(start as usize), len as usize, libc::MS_SYNC) };
}

/// Returns the file that the code at this address was loaded from.
pub fn file_of_code(code: usize) -> Option<std::path::PathBuf> {
    let table = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mapping = Mapping::of(&table, code as u64)?;
    mapping.name.starts_with('/').then(|| mapping.name.into())
}

/// Releases the code and constant pages of the program and its libraries. Pages in use come back from the page cache,
/// sixteen at a time; pages that only startup needed stay out. Returns the number of bytes that were in memory.
///
/// # Errors
/// The kernel does not report the mappings, or refuses; nothing is lost then.
pub fn release_code() -> io::Result<u64> {
    let table = std::fs::read_to_string("/proc/self/smaps")?;
    let mut bytes = 0;
    for (Mapping { start, end, .. }, rss) in unchanged(&table) {
        let pages = std::ptr::with_exposed_provenance_mut(start as usize);
        // SAFETY: the pages are not writable and hold no private copies, so the file has the same content. A running
        // thread faults its pages in again.
        unsafe { rustix::mm::madvise(pages, (end - start) as usize, Advice::LinuxDontNeed) }?;
        bytes += rss;
    }
    Ok(bytes)
}

/// Returns the unmodified, read-only file mappings of an smaps table, each with its bytes in memory. A mapping with a
/// private page, written by a loader or a debugger before the mapping became read-only, is left out.
fn unchanged(table: &str) -> Vec<(Mapping<'_>, u64)> {
    let mut found = Vec::new();
    let (mut mapping, mut rss) = (None, 0);
    let bytes = |text: &str| text.trim().trim_end_matches(" kB").parse::<u64>().map_or(0, |kib| kib << 10);
    for line in table.lines() {
        if let Some(figure) = line.strip_prefix("Rss:") {
            rss = bytes(figure);
        } else if line.strip_prefix("Anonymous:").is_some_and(|figure| figure.trim() == "0 kB") {
            found.extend(mapping.take().filter(|_| rss > 0).map(|mapping| (mapping, rss)));
        } else if let Some(next) = Mapping::parse(line) {
            let fixed = matches!(next.rights, "r-xp" | "r--p") && next.inode != 0;
            (mapping, rss) = (Some(next).filter(|_| fixed), 0);
        }
    }
    found
}

/// A line of /proc/self/maps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping<'a> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Access rights such as `r-xp`.
    pub(crate) rights: &'a str,
    pub(crate) offset: u64,
    /// Major and minor device number.
    pub(crate) device: (u64, u64),
    pub(crate) inode: u64,
    /// The file's path, a name in brackets, or empty.
    pub(crate) name: &'a str,
}

impl<'a> Mapping<'a> {
    pub(crate) fn parse(line: &'a str) -> Option<Mapping<'a>> {
        let mut columns = line.trim_end().splitn(6, ' ');
        let (range, rights, offset) = (columns.next()?, columns.next()?, columns.next()?);
        let (device, inode) = (columns.next()?, columns.next()?);
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = range.split_once('-')?;
        let (major, minor) = device.split_once(':')?;
        Some(Mapping {
            start: hex(start)?,
            end: hex(end)?,
            rights,
            offset: hex(offset)?,
            device: (hex(major)?, hex(minor)?),
            inode: inode.parse().ok()?,
            name: columns.next().unwrap_or("").trim_start(),
        })
    }

    /// Returns the mapping of a table that contains an address.
    fn of(table: &'a str, addr: u64) -> Option<Mapping<'a>> {
        table.lines().filter_map(Mapping::parse).find(|mapping| mapping.holds(addr))
    }

    pub(crate) fn holds(&self, addr: u64) -> bool {
        (self.start..self.end).contains(&addr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn mapped_memory_passes_and_holes_do_not() {
        let memory = vec![1u8; 100_000];
        let addr = memory.as_ptr() as u64;
        assert!(check(addr, 100_000, true).is_ok());
        assert!(check(addr, 1, false).is_ok());
        assert!(check(4096, 1, false).is_err());
        assert!(check(u64::MAX - 10, 5, false).is_err());
        assert!(check(u64::MAX - 10, 50, false).is_err());
        assert!(check(addr, 1 << 46, false).is_err(), "runs off the end of memory");
        // Code is readable and not writable.
        let code = mapped_memory_passes_and_holes_do_not as *const () as u64;
        assert!(check(code, 16, false).is_ok());
        assert!(check(code, 16, true).is_err());
    }

    #[test]
    fn a_mapping_longer_than_its_file_is_not_there() {
        let file = crate::memory::anonymous_file("short").unwrap();
        file.set_len(4096).unwrap();
        // SAFETY: a new mapping at an address of the kernel's choice, which no code accesses.
        let addr = unsafe {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), 1 << 20, rights, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(addr, libc::MAP_FAILED);
        let addr = addr.expose_provenance() as u64;
        assert!(check(addr, 4096, true).is_ok());
        assert!(check(addr, 1 << 20, true).is_err());
        assert!(check(addr + 8192, 8, false).is_err());
    }

    #[test]
    fn shared_mappings_of_stored_files_persist_and_nothing_else_does() {
        let map = |file: &std::fs::File, flags: libc::c_int| {
            // SAFETY: a new mapping at an address of the kernel's choice, which no code accesses.
            let addr = unsafe { libc::mmap(std::ptr::null_mut(), 8192, libc::PROT_READ, flags, file.as_raw_fd(), 0) };
            assert_ne!(addr, libc::MAP_FAILED);
            addr.expose_provenance() as u64
        };
        // The test program itself is a file on permanent storage.
        let stored = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let memory = crate::memory::anonymous_file("not stored").unwrap();
        memory.set_len(8192).unwrap();
        assert!(persists(map(&stored, libc::MAP_SHARED), 8192));
        assert!(!persists(map(&stored, libc::MAP_PRIVATE), 8192));
        assert!(!persists(map(&memory, libc::MAP_SHARED), 8192));
        let heap = vec![1u8; 8192];
        assert!(!persists(heap.as_ptr() as u64, 8192));
        assert!(!persists(u64::MAX - 10, 50));
    }

    #[test]
    fn the_table_must_cover_the_range_without_holes() {
        let table = "1000-3000 r--p 0 0:0 0\n3000-4000 rw-p 0 0:0 0\n5000-6000 rw-p 0 0:0 0 /x y\n";
        assert!(covered(table, 0x1000, 0x4000, false));
        assert!(!covered(table, 0x1000, 0x4000, true));
        assert!(covered(table, 0x3000, 0x4000, true));
        assert!(!covered(table, 0x3000, 0x5000, false));
        assert!(!covered(table, 0x6000, 0x7000, false));
    }

    /// Returns the size of the mapping at an address, and how many of its bytes are resident.
    fn in_memory(addr: u64) -> (u64, u64) {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = smaps.lines().skip_while(|line| !Mapping::parse(line).is_some_and(|m| m.holds(addr)));
        let mapping = lines.next().and_then(Mapping::parse).unwrap();
        let rss = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
        (mapping.end - mapping.start, rss.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10)
    }

    #[test]
    fn code_that_is_given_back_leaves_memory_and_runs_again() {
        let here = code_that_is_given_back_leaves_memory_and_runs_again as *const () as u64;
        let table = std::fs::read_to_string("/proc/self/maps").unwrap();
        let Mapping { start, end, .. } = Mapping::of(&table, here).unwrap();
        check(start, end - start, false).unwrap();
        assert_eq!(in_memory(here), (end - start, end - start), "all of it is there");
        assert!(release_code().unwrap() >= end - start);
        let (all, left) = in_memory(here);
        assert!(left < all, "what ran since is back, no more");
    }

    /// Pages that a loader relocated, or in which a debugger set a breakpoint, differ from the file.
    #[test]
    fn what_was_written_before_it_was_locked_stays() {
        let file = crate::memory::anonymous_file("written").unwrap();
        file.set_len(8192).unwrap();
        // SAFETY: a new mapping at an address of the kernel's choice; only its first byte is written.
        let addr = unsafe {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let addr = libc::mmap(std::ptr::null_mut(), 8192, rights, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
            assert_ne!(addr, libc::MAP_FAILED);
            addr.cast::<u8>().write_volatile(7);
            assert_eq!(libc::mprotect(addr, 8192, libc::PROT_READ), 0);
            addr.cast::<u8>()
        };
        release_code().unwrap();
        // SAFETY: the address is mapped, and only this test uses it.
        assert_eq!(unsafe { addr.read_volatile() }, 7);
    }

    #[test]
    fn only_what_is_as_its_file_is_is_given_back() {
        let table = "1000-3000 r-xp 0 0:1 9 /x\nSize: 8 kB\nRss:                  8 kB\nAnonymous:            0 kB\n\
                     3000-4000 rw-p 0 0:1 9 /x\nRss:                  4 kB\nAnonymous:            0 kB\n\
                     4000-5000 r--p 0 0:1 9 /x\nRss:                  4 kB\nAnonymous:            4 kB\n\
                     5000-6000 r--s 0 0:1 8 /y\nRss:                  4 kB\nAnonymous:            0 kB\n\
                     6000-7000 r--p 0 0:1 9 /x\nRss:                  0 kB\nAnonymous:            0 kB\n\
                     7000-8000 r-xp 0 0:0 0 [vdso]\nRss:                  4 kB\nAnonymous:            0 kB\n\
                     8000-9000 r--p 0 0:1 9 /x\nRss:                  4 kB\nAnonymous:            0 kB\n";
        let found: Vec<_> = unchanged(table).into_iter().map(|(mapping, rss)| (mapping.start, rss)).collect();
        assert_eq!(found, [(0x1000, 8192), (0x8000, 4096)]);
    }

    #[test]
    fn code_knows_its_file() {
        let code = code_knows_its_file as *const () as usize;
        assert_eq!(file_of_code(code), std::env::current_exe().ok());
    }
}
