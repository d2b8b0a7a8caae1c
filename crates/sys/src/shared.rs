//! Memory that processes share: a mapped memory file. Its creator fixes its size for good, and a process that receives
//! the file checks that, so that no process can pull the pages out from under another. Another process may change the
//! content at any moment: code reads and writes it by atomic words and plain copies, and never borrows it as bytes.

#[cfg(loom)]
#[path = "shared/modelled.rs"]
mod pages;
#[cfg(not(loom))]
mod pages;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{MemfdFlags, SealFlags};

use crate::sync::{AtomicU64, Ordering};
use pages::{Pages, READ_ONLY, READ_WRITE};

/// Shared memory that this process may write.
#[derive(Debug)]
pub struct Shared(Pages);

/// Shared memory that this process may only read.
#[derive(Debug)]
pub struct SharedView(Pages);

/// A read-only word.
#[derive(Debug)]
#[repr(transparent)]
pub struct Word(AtomicU64);

impl Word {
    /// Returns its current value.
    #[inline]
    pub fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }
}

impl Shared {
    /// Creates zeroed memory of a fixed size; the returned file is for other processes.
    ///
    /// # Errors
    /// No descriptors, memory or address space are left.
    pub fn create(label: &str, len: usize) -> io::Result<(Shared, File)> {
        let file = create_file(label, len)?;
        Ok((Shared(Pages::map(Some(file.as_fd()), len, READ_WRITE)?), file))
    }

    /// Creates memory of this process alone, with the same interface.
    ///
    /// # Errors
    /// No memory or address space is left.
    pub fn private(len: usize) -> io::Result<Shared> {
        Ok(Shared(Pages::map(None, len, READ_WRITE)?))
    }

    /// Prefetches bytes for writing: the processor may fetch them from another core's cache meanwhile, so that the
    /// stores need not wait. Has no effect beyond the end.
    #[inline]
    pub fn expect_write(&self, offset: usize, len: usize) {
        self.0.expect_write(offset, len);
    }

    /// Maps memory of another process; the file must have this fixed size.
    ///
    /// # Errors
    /// `InvalidData` if it does not; no address space is left.
    pub fn map(file: impl AsFd, len: usize) -> io::Result<Shared> {
        check(&file, len)?;
        Ok(Shared(Pages::map(Some(file.as_fd()), len, READ_WRITE)?))
    }

    /// Maps a new, empty file of this process's own, which no other process shortens. Its blocks are allocated first: a
    /// full disk is an error here, and no SIGBUS later.
    ///
    /// # Errors
    /// The file system has no room, the file size limit is lower, no address space is left.
    pub fn map_own(file: &File, len: usize) -> io::Result<Shared> {
        if !allocate(file, len)? {
            fill_with_zeroes(file, len)?;
        }
        Ok(Shared(Pages::map(Some(file.as_fd()), len, READ_WRITE)?))
    }

    /// Returns the word at an offset.
    ///
    /// # Panics
    /// The offset, which must not come from another process, is beyond the end or not aligned.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        let [word] = self.0.words::<1>(offset);
        word
    }

    /// Returns the words from an offset on.
    ///
    /// # Panics
    /// As [`Shared::word`].
    #[inline]
    pub fn words<const N: usize>(&self, offset: usize) -> &[AtomicU64; N] {
        self.0.words(offset)
    }

    /// Calls `f` with the address of bytes to copy from. Another process may change them meanwhile.
    ///
    /// # Panics
    /// They lie beyond the end: an internal error.
    #[inline]
    pub fn read<R>(&self, offset: usize, len: usize, f: impl FnOnce(*const u8) -> R) -> R {
        self.0.read(offset, len, f)
    }

    /// Copies bytes in. A reader of another process may see a part of them.
    ///
    /// # Panics
    /// They lie beyond the end: an internal error.
    pub fn store(&self, offset: usize, bytes: &[u8]) {
        // SAFETY: `write` has checked that these bytes are inside the mapping, and no slice of ours overlaps it.
        self.write(offset, bytes.len(), |to| unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) });
    }

    /// Calls `f` with the address of bytes to copy to. Another process may change them meanwhile.
    ///
    /// # Panics
    /// They lie beyond the end: an internal error.
    #[inline]
    pub fn write<R>(&self, offset: usize, len: usize, f: impl FnOnce(*mut u8) -> R) -> R {
        self.0.write(offset, len, f)
    }
}

impl SharedView {
    /// Maps memory of another process; the file must have this fixed size.
    ///
    /// # Errors
    /// `InvalidData` if it does not; no address space is left.
    pub fn map(file: impl AsFd, len: usize) -> io::Result<SharedView> {
        check(&file, len)?;
        Ok(SharedView(Pages::map(Some(file.as_fd()), len, READ_ONLY)?))
    }

    /// Returns the word at an offset.
    ///
    /// # Panics
    /// The offset, which must not come from another process, is beyond the end or not aligned.
    #[inline]
    pub fn word(&self, offset: usize) -> &Word {
        let [word] = self.words::<1>(offset);
        word
    }

    /// Returns the words from an offset on.
    ///
    /// # Panics
    /// As [`SharedView::word`].
    #[inline]
    pub fn words<const N: usize>(&self, offset: usize) -> &[Word; N] {
        let words: *const [AtomicU64; N] = self.0.words(offset);
        // SAFETY: `Word` is a transparent wrapper of `AtomicU64`, and the words live as long as `self`.
        unsafe { &*words.cast() }
    }
}

/// Creates a zeroed memory file of a fixed size.
///
/// # Errors
/// No descriptors or memory are left.
pub fn create_file(label: &str, len: usize) -> io::Result<File> {
    let file = File::from(rustix::fs::memfd_create(label, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    crate::file_size::set_len(&file, len as u64)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// Seals the file against new writable mappings; existing mappings stay writable.
///
/// # Errors
/// The kernel does not support this seal (before 5.1).
pub fn seal_writes(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fcntl_add_seals(file, SealFlags::FUTURE_WRITE | SealFlags::SEAL)?)
}

/// Whether this is a memory file of this fixed size.
pub fn is_sealed(file: impl AsFd, len: usize) -> bool {
    let has_seals = |seals: SealFlags| seals.contains(SealFlags::SHRINK | SealFlags::GROW);
    rustix::fs::fcntl_get_seals(&file).is_ok_and(has_seals)
        && rustix::fs::fstat(&file).is_ok_and(|stat| u64::try_from(stat.st_size) == Ok(len as u64))
}

/// Allocates the blocks of a file; false if the file system cannot, such as NFS before version 4.2.
fn allocate(file: &File, len: usize) -> io::Result<bool> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    /// Attempts before a program with a fast timer has the file written instead.
    const ATTEMPTS_MAX: usize = 16;
    for _ in 0..ATTEMPTS_MAX {
        match crate::file_size::without_signal(|| fallocate(file, FallocateFlags::empty(), 0, len as u64)) {
            Ok(()) => return Ok(true),
            Err(Errno::INTR) => {}
            // EPERM and EACCES: a sandbox may refuse a system call that it does not know.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM | Errno::ACCESS) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// Writes zeroes, for which a file system must find room now, and then stores them: NFS would do so only later.
fn fill_with_zeroes(file: &File, len: usize) -> io::Result<()> {
    static CHUNK: [u8; 1 << 16] = [0; 1 << 16];
    let mut left = len;
    while left > 0 {
        let (written, error) = crate::file_size::write(file, &CHUNK[..left.min(CHUNK.len())]);
        if let Some(error) = error {
            return Err(error);
        }
        left -= written;
    }
    file.sync_data()
}

fn check(file: &impl AsFd, len: usize) -> io::Result<()> {
    if is_sealed(file, len) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "memory of another size, or of one that can change"))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_one_writes_the_other_reads() {
        let (ours, file) = Shared::create("test", 8192).unwrap();
        let theirs = SharedView::map(&file, 8192).unwrap();
        ours.word(4096).store(7, Ordering::Release);
        assert_eq!(theirs.word(4096).load(Ordering::Acquire), 7);
        assert_eq!(theirs.words::<2>(4088)[1].load(Ordering::Acquire), 7);
    }

    #[test]
    fn only_memory_that_stays_is_mapped() {
        let plain = crate::memory::anonymous_file("plain").unwrap();
        plain.set_len(4096).unwrap();
        assert!(SharedView::map(&plain, 4096).is_err(), "not sealed");
        let sealed = create_file("sealed", 4096).unwrap();
        assert!(SharedView::map(&sealed, 8192).is_err(), "shorter than said");
        assert!(sealed.set_len(0).is_err());
        assert!(SharedView::map(File::open("/dev/zero").unwrap(), 4096).is_err(), "no memory file");
    }

    #[test]
    fn a_file_of_zeroes_replaces_an_allocated_one() {
        let file = crate::memory::anonymous_file("own").unwrap();
        let len = (1 << 16) + 4096;
        fill_with_zeroes(&file, len).unwrap();
        assert_eq!(file.metadata().unwrap().len(), len as u64);
        let allocated = crate::memory::anonymous_file("own").unwrap();
        assert!(allocate(&allocated, len).unwrap());
        assert_eq!(allocated.metadata().unwrap().len(), len as u64);
        let (read_end, _write_end) = std::io::pipe().unwrap();
        assert!(allocate(&File::from(std::os::fd::OwnedFd::from(read_end)), len).is_err(), "no file with blocks");
        let full = File::options().write(true).open("/dev/full").unwrap();
        assert_eq!(fill_with_zeroes(&full, len).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    }

    #[test]
    fn readers_cannot_become_writers() {
        let (ours, file) = Shared::create("test", 4096).unwrap();
        seal_writes(&file).unwrap();
        assert!(Shared::map(&file, 4096).is_err());
        ours.word(0).store(1, Ordering::Relaxed);
        assert_eq!(SharedView::map(&file, 4096).unwrap().word(0).load(Ordering::Relaxed), 1);
    }

    #[test]
    #[should_panic(expected = "outside shared memory")]
    fn nothing_beyond_the_end_is_reached() {
        Shared::private(4096).unwrap().words::<2>(4088);
    }
}
