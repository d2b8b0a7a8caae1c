//! Memory that processes share: a memory file, mapped. Whoever makes one fixes its size for good, and whoever is handed
//! one checks that, so that nobody can pull the pages out from under another. What stands in it is another process's to
//! change at any moment: it is read and written by atomic words and plain copies, never borrowed as bytes.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use rustix::mm::{madvise, mmap, mmap_anonymous, mprotect, munmap};

const READ_WRITE: MprotectFlags = MprotectFlags::READ.union(MprotectFlags::WRITE);

/// Pages of memory on their own in the address space, given back when dropped. A forked child does not have them.
#[derive(Debug)]
struct Pages {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the pages are memory like any other, and every access to them goes through atomics or copies of the caller's.
unsafe impl Send for Pages {}
// SAFETY: likewise.
unsafe impl Sync for Pages {}

impl Pages {
    /// Map `len` bytes of a file, or of nothing. The rights are given afterwards, because a program may have asked for
    /// all that it maps to be made present and locked (mlockall), and a file with holes must keep them. The calls go past
    /// the C library, whose mmap and madvise Open MPI and UCX overwrite while our threads may be inside of them.
    fn map(fd: Option<BorrowedFd<'_>>, len: usize, rights: MprotectFlags) -> io::Result<Pages> {
        let (anywhere, none) = (std::ptr::null_mut(), ProtFlags::empty());
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory there is.
        let at = unsafe {
            match fd {
                Some(fd) => mmap(anywhere, len, none, MapFlags::SHARED | MapFlags::NORESERVE, fd, 0),
                None => mmap_anonymous(anywhere, len, none, MapFlags::PRIVATE | MapFlags::NORESERVE),
            }
        }?;
        let base = NonNull::new(at.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let pages = Pages { base, len };
        // SAFETY: the mapping is ours alone, and nobody knows its address yet.
        unsafe {
            mprotect(at, len, rights)?;
            madvise(at, len, Advice::LinuxDontFork)?;
        }
        Ok(pages)
    }

    /// The words from an offset on.
    ///
    /// # Panics
    /// They lie beyond the end, or are not aligned: an error of ours, for offsets never come from another process.
    #[inline]
    fn words<const N: usize>(&self, offset: usize) -> &[AtomicU64; N] {
        assert!(offset.is_multiple_of(8) && offset <= self.len && self.len - offset >= N * 8, "outside shared memory");
        // SAFETY: in bounds and aligned, checked above; mapped as long as `self` lives; all access is atomic.
        unsafe { &*self.base.as_ptr().add(offset).cast::<[AtomicU64; N]>() }
    }

    /// Where the bytes from an offset on stand.
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
        // SAFETY: the mapping is ours, and whoever borrowed words of it is gone.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Shared memory that we may write.
#[derive(Debug)]
pub struct Shared(Pages);

/// Shared memory that we may only read.
#[derive(Debug)]
pub struct SharedView(Pages);

/// A word that is read only.
#[derive(Debug)]
#[repr(transparent)]
pub struct Word(AtomicU64);

impl Word {
    /// Its value now.
    #[inline]
    pub fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }
}

impl Shared {
    /// New memory, all zeros, of a size that stays; the file is to be handed to others.
    ///
    /// # Errors
    /// Descriptors, memory or address space are used up.
    pub fn create(label: &str, len: usize) -> io::Result<(Shared, File)> {
        let file = create_file(label, len)?;
        Ok((Shared(Pages::map(Some(file.as_fd()), len, READ_WRITE)?), file))
    }

    /// Memory of this process alone, to be used in the same way.
    ///
    /// # Errors
    /// Memory or address space are used up.
    pub fn private(len: usize) -> io::Result<Shared> {
        Ok(Shared(Pages::map(None, len, READ_WRITE)?))
    }

    /// These bytes are written soon: the processor may fetch them out of another's cache meanwhile, so that the stores
    /// need not wait. Beyond the end nothing happens.
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

    /// Memory that another process made; it must be of this size for good.
    ///
    /// # Errors
    /// `InvalidData` if it is not; address space is used up.
    pub fn map(file: impl AsFd, len: usize) -> io::Result<Shared> {
        check(&file, len)?;
        Ok(Shared(Pages::map(Some(file.as_fd()), len, READ_WRITE)?))
    }

    /// The word at an offset.
    ///
    /// # Panics
    /// The offset, which must be ours, is beyond the end or not aligned.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        let [word] = self.0.words::<1>(offset);
        word
    }

    /// The words from an offset on.
    ///
    /// # Panics
    /// As [`Shared::word`].
    #[inline]
    pub fn words<const N: usize>(&self, offset: usize) -> &[AtomicU64; N] {
        self.0.words(offset)
    }

    /// Where bytes stand, for a copy to or from there.
    ///
    /// # Panics
    /// They lie beyond the end: an error of ours.
    #[inline]
    pub fn bytes(&self, offset: usize, len: usize) -> *mut u8 {
        self.0.bytes(offset, len)
    }
}

impl SharedView {
    /// Memory that another process made; it must be of this size for good.
    ///
    /// # Errors
    /// `InvalidData` if it is not; address space is used up.
    pub fn map(file: impl AsFd, len: usize) -> io::Result<SharedView> {
        check(&file, len)?;
        Ok(SharedView(Pages::map(Some(file.as_fd()), len, MprotectFlags::READ)?))
    }

    /// The word at an offset.
    ///
    /// # Panics
    /// The offset, which must be ours, is beyond the end or not aligned.
    #[inline]
    pub fn word(&self, offset: usize) -> &Word {
        let [word] = self.words::<1>(offset);
        word
    }

    /// The words from an offset on.
    ///
    /// # Panics
    /// As [`SharedView::word`].
    #[inline]
    pub fn words<const N: usize>(&self, offset: usize) -> &[Word; N] {
        let words: *const [AtomicU64; N] = self.0.words(offset);
        // SAFETY: `Word` is an `AtomicU64` by another name, and the words live as long as `self`.
        unsafe { &*words.cast() }
    }
}

/// A memory file of this size for good, all zeros.
///
/// # Errors
/// Descriptors or memory are used up.
pub fn create_file(label: &str, len: usize) -> io::Result<File> {
    let file = File::from(rustix::fs::memfd_create(label, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    crate::file_size::set_len(&file, len as u64)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// From now on nobody maps the file anew to write it; mappings there are go on.
///
/// # Errors
/// The kernel knows no such seal (before 5.1).
pub fn seal_writes(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fcntl_add_seals(file, SealFlags::FUTURE_WRITE | SealFlags::SEAL)?)
}

/// Whether it is a memory file of this size for good.
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
