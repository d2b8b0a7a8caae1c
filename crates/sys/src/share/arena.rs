//! The file that holds a process's shared pages.
//!
//! It is sparse and practically endless, so that no offset is ever used twice: a process that still maps a freed range
//! reads zeros there and never another region's bytes. It is sealed against shrinking, so that no reader can die of
//! SIGBUS.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, SeekFrom, fallocate, fcntl_add_seals, memfd_create, seek};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::shared;

use super::survey::FileId;

/// File length: enough for more than an hour of registering a new gibibyte a thousand times a second.
const ARENA_BYTES: u64 = 1 << 52;
/// Alignment of huge pages. An offset is congruent to its address modulo this, so that huge pages fit.
pub(super) const HUGE_BYTES: u64 = 2 << 20;

/// The arena of this process.
#[derive(Debug)]
pub struct Arena {
    file: File,
    id: FileId,
    next: u64,
}

impl Arena {
    /// Creates an empty arena.
    ///
    /// # Errors
    /// No descriptor is left; the file size limit is too low (`ulimit -f`).
    pub fn new() -> io::Result<Arena> {
        Arena::of(Arena::create_file()?)
    }

    /// Creates an arena's file, which another process may do for this one.
    ///
    /// # Errors
    /// As [`Arena::new`].
    pub fn create_file() -> io::Result<File> {
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < ARENA_BYTES) {
            // Exceeding the limit would raise SIGXFSZ, which kills the process.
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the size of files is limited (ulimit -f)"));
        }
        let file = File::from(memfd_create("weft", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        file.set_len(ARENA_BYTES)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(file)
    }

    /// Wraps the file of a new, empty arena.
    ///
    /// # Errors
    /// The file is not an arena's file.
    pub fn of(file: File) -> io::Result<Arena> {
        if !shared::is_sealed(&file, ARENA_BYTES as usize) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the file of an arena"));
        }
        let meta = file.metadata()?;
        Ok(Arena { id: FileId { device: meta.dev(), inode: meta.ino() }, file, next: 0 })
    }

    /// Returns the file, for peers.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(super) fn id(&self) -> FileId {
        self.id
    }

    /// Returns a never used offset for `len` bytes of memory at `addr`; `None` when the file is used up.
    pub fn allocate(&mut self, addr: u64, len: u64) -> Option<u64> {
        let base = self.next.checked_next_multiple_of(HUGE_BYTES)?;
        let offset = base.checked_add(addr % HUGE_BYTES)?;
        let end = offset.checked_add(len).filter(|&end| end <= ARENA_BYTES)?;
        self.next = end;
        Some(offset)
    }

    /// Allocates memory for a range; an error if there is none.
    pub(super) fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        Ok(fallocate(&self.file, FallocateFlags::KEEP_SIZE, offset, len)?)
    }

    /// Returns the memory of a range to the system; the range reads as zeros from now on.
    pub fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        Ok(fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len)?)
    }
}

/// Iterates over the data runs of a memory file's range, as distance from the range's start and length; the rest reads
/// as zeros. A file that cannot report its holes is one run. Async-signal-safe.
pub(super) fn data_runs(file: BorrowedFd<'_>, offset: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = offset + len;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) if start < end => start,
            Ok(_) | Err(Errno::NXIO) => return None,
            Err(_) => at,
        };
        let stop = seek(file, SeekFrom::Hole(start)).unwrap_or(end).clamp(start, end);
        at = stop;
        (start < stop).then_some((start - offset, stop - start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_fit_huge_pages_and_are_never_used_twice() {
        let mut arena = Arena::new().unwrap();
        let mut last = 0;
        for addr in [0x7f00_0000_1000u64, 0x7f00_0020_0000, 0x5555_5555_5000, 0x5555_5555_5000] {
            let offset = arena.allocate(addr, 0x3000).unwrap();
            assert_eq!(offset % HUGE_BYTES, addr % HUGE_BYTES);
            assert!(offset >= last);
            last = offset + 0x3000;
        }
        assert_eq!(arena.allocate(0, ARENA_BYTES), None);
        assert_eq!(arena.allocate(0, u64::MAX), None);
    }

    #[test]
    fn only_what_has_memory_is_a_run_of_data() {
        use std::os::unix::fs::FileExt;
        let arena = Arena::new().unwrap();
        let page = crate::share::page_size();
        let runs = |offset, len| data_runs(arena.fd(), offset, len).collect::<Vec<_>>();
        assert_eq!(runs(0, 512 * page), []);
        for at in [3, 4, 9] {
            arena.file.write_all_at(&[1], at * page).unwrap();
        }
        assert_eq!(runs(0, 512 * page), [(3 * page, 2 * page), (9 * page, page)]);
        assert_eq!(runs(4 * page, 5 * page), [(0, page)]);
        assert_eq!(runs(5 * page, 4 * page), []);
        assert_eq!(runs(0, 0), []);
    }
}
