//! Memory that processes share: a mapped memory file. Its creator fixes its size for good, and a process that receives
//! the file checks that, so that no process can pull the pages out from under another. Another process may change the
//! content at any moment: code reads and writes it by atomic words and plain copies, and never borrows it as bytes.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use rustix::mm::{madvise, mmap, mmap_anonymous, mprotect, munmap};

const READ_WRITE: MprotectFlags = MprotectFlags::READ.union(MprotectFlags::WRITE);

/// Pages mapped separately in the address space, unmapped on drop. A forked child does not inherit them.
#[derive(Debug)]
struct Pages {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the pages are ordinary memory, and every access to them goes through atomics or copies of the caller's.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps `len` bytes of a file, or of anonymous memory. The rights are set after the mapping: a program may have
    /// asked for all its mappings to be made present and locked (mlockall), and a file with holes must keep them. The
    /// calls bypass the C library, whose mmap and madvise Open MPI and UCX overwrite while our threads may be inside of
    /// them.
    fn map(fd: Option<BorrowedFd<'_>>, len: usize, rights: MprotectFlags) -> io::Result<Pages> {
        let (anywhere, none) = (std::ptr::null_mut(), ProtFlags::empty());
        // SAFETY: a new mapping at an address of the kernel's choice affects no existing memory.
        let at = unsafe {
            match fd {
                Some(fd) => mmap(anywhere, len, none, MapFlags::SHARED | MapFlags::NORESERVE, fd, 0),
                None => mmap_anonymous(anywhere, len, none, MapFlags::PRIVATE | MapFlags::NORESERVE),
            }
        }?;
        let base = NonNull::new(at.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let pages = Pages { base, len };
        // SAFETY: the mapping is ours alone, and no other code knows its address yet.
        unsafe {
            mprotect(at, len, rights)?;
            madvise(at, len, Advice::LinuxDontFork)?;
        }
        Ok(pages)
    }

    /// Returns the words from an offset on.
    ///
    /// # Panics
    /// They lie beyond the end, or are not aligned: an internal error, as offsets never come from another process.
    #[inline]
    fn words<const N: usize>(&self, offset: usize) -> &[AtomicU64; N] {
        assert!(offset.is_multiple_of(8) && offset <= self.len && self.len - offset >= N * 8, "outside shared memory");
        // SAFETY: in bounds and aligned, checked above; mapped as long as `self` lives; every access is atomic.
        unsafe { &*self.base.as_ptr().add(offset).cast::<[AtomicU64; N]>() }
    }

    /// Returns the address of the bytes from an offset on.
    ///
    /// # Panics
    /// They lie beyond the end.
    #[inline]
    fn bytes(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.len && self.len - offset >= len, "outside shared memory");
        // SAFETY: in bounds, checked above.
        unsafe { self.base.as_ptr().add(offset) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and every borrow of its words has ended.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

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
        #[cfg(target_arch = "x86_64")]
        for at in (offset..offset.saturating_add(len).min(self.0.len)).step_by(64) {
            let line = self.0.bytes(at, 0);
            // SAFETY: a hint about an address; it neither reads nor writes, nor faults.
            unsafe { std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags)) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (offset, len);
    }

    /// Maps memory of another process; the file must have this fixed size.
    ///
    /// # Errors
    /// `InvalidData` if it does not; no address space is left.
    pub fn map(file: impl AsFd, len: usize) -> io::Result<Shared> {
        check(&file, len)?;
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

    /// Returns the address of bytes, for a copy to or from them.
    ///
    /// # Panics
    /// They lie beyond the end: an internal error.
    #[inline]
    pub fn bytes(&self, offset: usize, len: usize) -> *mut u8 {
        self.0.bytes(offset, len)
    }
}

impl SharedView {
    /// Maps memory of another process; the file must have this fixed size.
    ///
    /// # Errors
    /// `InvalidData` if it does not; no address space is left.
    pub fn map(file: impl AsFd, len: usize) -> io::Result<SharedView> {
        check(&file, len)?;
        Ok(SharedView(Pages::map(Some(file.as_fd()), len, MprotectFlags::READ)?))
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

fn check(file: &impl AsFd, len: usize) -> io::Result<()> {
    if is_sealed(file, len) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "memory of another size, or of one that can change"))
}

#[cfg(test)]
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
