//! What memory of this process is mapped, and memory that stands for nothing.

use std::io;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::mm::Advice;

/// Lengths up to this are made present when they are checked, as registration with an adapter pins them: no page fault
/// then lies on a packet's way. Longer ones are checked at their ends and for holes only.
pub const POPULATE_BYTES_MAX: u64 = 4 << 30;

fn page_size() -> u64 {
    static SIZE: OnceLock<u64> = OnceLock::new();
    *SIZE.get_or_init(|| rustix::param::page_size() as u64)
}

/// Checks that every page of the range is mapped and can be read, or written if `write`; `InvalidInput` if not.
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
            // Mapped, and touching it would raise SIGBUS: a file that ends before its mapping, broken memory.
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
        // SAFETY: populating makes pages present as touching them would and changes no byte; a range that is not
        // mapped is refused.
        match unsafe { rustix::mm::madvise(pages, len as usize, advice) } {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// By the kernel's list of mappings: for kernels before 5.14, memory of devices, and very long ranges.
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

/// Whether [`sync`] makes the whole range outlast the power: shared mappings of files, none of which is in memory alone.
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

/// Whether a mapped file is on a file system that stores it, or a device of persistent memory.
fn is_stored(name: &str) -> bool {
    /// Magic numbers of tmpfs (which /dev/shm and /dev are, too), ramfs and hugetlbfs.
    const IN_MEMORY: [i64; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];
    let in_memory = |name: &str| rustix::fs::statfs(name).map_or(true, |fs| IN_MEMORY.contains(&fs.f_type));
    name.starts_with("/dev/dax") || (name.starts_with('/') && !in_memory(name))
}

/// Writes the range back to the file that is mapped there, if one is; returns when that is done.
pub fn sync(addr: u64, len: u64) {
    let page = page_size();
    let start = addr & !(page - 1);
    let len = addr.saturating_add(len) - start;
    // SAFETY: msync changes no byte of memory; a range that is not mapped is refused, which changes nothing for us.
    unsafe { libc::msync(std::ptr::with_exposed_provenance_mut(start as usize), len as usize, libc::MS_SYNC) };
}

/// The file that the code at this address was loaded from.
pub fn file_of_code(code: usize) -> Option<std::path::PathBuf> {
    let table = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mapping = Mapping::of(&table, code as u64)?;
    mapping.name.starts_with('/').then(|| mapping.name.into())
}

/// Gives back the pages of code and constants of the program and of its libraries. Those that are used again come back from
/// the kernel's copy of the file, sixteen at a time; what only the start needed stays away. How many bytes were in memory.
///
/// # Errors
/// The kernel does not tell what is mapped, or refuses; nothing is lost then.
pub fn release_code() -> io::Result<u64> {
    let table = std::fs::read_to_string("/proc/self/smaps")?;
    let mut bytes = 0;
    for (Mapping { start, end, .. }, rss) in unchanged(&table) {
        let pages = std::ptr::with_exposed_provenance_mut(start as usize);
        // SAFETY: nobody can write to these pages and nobody did, so what comes back from the file is what is there now. A
        // running thread faults its pages in again.
        unsafe { rustix::mm::madvise(pages, (end - start) as usize, Advice::LinuxDontNeed) }?;
        bytes += rss;
    }
    Ok(bytes)
}

/// Mappings of a table with figures that are as their files are, and that nobody may write to: with the bytes of each that
/// are in memory. One with a page of its own, to which a loader or a debugger wrote before it was locked, is not.
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
    /// Such as `r-xp`.
    pub(crate) rights: &'a str,
    pub(crate) offset: u64,
    /// Major and minor number.
    pub(crate) device: (u64, u64),
    pub(crate) inode: u64,
    /// The file's path, or a name in brackets, or empty.
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

    /// The one of a table that an address lies in.
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
        // Code can be read and not written.
        let code = mapped_memory_passes_and_holes_do_not as *const () as u64;
        assert!(check(code, 16, false).is_ok());
        assert!(check(code, 16, true).is_err());
    }

    #[test]
    fn a_mapping_longer_than_its_file_is_not_there() {
        let file = crate::memory::anonymous_file("short").unwrap();
        file.set_len(4096).unwrap();
        // SAFETY: a new mapping at an address of the kernel's choice, which nobody touches.
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
            // SAFETY: a new mapping at an address of the kernel's choice, which nobody touches.
            let addr = unsafe { libc::mmap(std::ptr::null_mut(), 8192, libc::PROT_READ, flags, file.as_raw_fd(), 0) };
            assert_ne!(addr, libc::MAP_FAILED);
            addr.expose_provenance() as u64
        };
        // The program itself is a file that is stored somewhere.
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

    /// The bytes of the mapping at an address, and how many of them are in memory for us.
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

    /// Pages that a loader relocated, or a debugger set a breakpoint in, are not what the file has.
    #[test]
    fn what_was_written_before_it_was_locked_stays() {
        let file = crate::memory::anonymous_file("written").unwrap();
        file.set_len(8192).unwrap();
        // SAFETY: a new mapping at an address of the kernel's choice, of which the first byte is written.
        let addr = unsafe {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let addr = libc::mmap(std::ptr::null_mut(), 8192, rights, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
            assert_ne!(addr, libc::MAP_FAILED);
            addr.cast::<u8>().write_volatile(7);
            assert_eq!(libc::mprotect(addr, 8192, libc::PROT_READ), 0);
            addr.cast::<u8>()
        };
        release_code().unwrap();
        // SAFETY: it is mapped, and nobody else knows of it.
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
