//! Pages of shared memory in the address space.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use rustix::mm::{madvise, mmap, mmap_anonymous, mprotect, munmap};

use crate::sync::AtomicU64;

pub(super) const READ_ONLY: MprotectFlags = MprotectFlags::READ;
pub(super) const READ_WRITE: MprotectFlags = MprotectFlags::READ.union(MprotectFlags::WRITE);

/// Pages mapped separately in the address space, unmapped on drop. A forked child does not inherit them.
#[derive(Debug)]
pub(super) struct Pages {
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
    pub fn map(fd: Option<BorrowedFd<'_>>, len: usize, rights: MprotectFlags) -> io::Result<Pages> {
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
            match madvise(at, len, Advice::LinuxDontFork) {
                // The kernel knows this advice since 2.6.16. QEMU's user emulation does not; a child that shares the
                // pages is all that it costs.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(pages)
    }

    /// Returns the words from an offset on.
    ///
    /// # Panics
    /// They lie beyond the end, or are not aligned: an internal error, as offsets never come from another process.
    #[inline]
    pub fn words<const N: usize>(&self, offset: usize) -> &[AtomicU64; N] {
        assert!(offset.is_multiple_of(8) && offset <= self.len && self.len - offset >= N * 8, "outside shared memory");
        // SAFETY: in bounds and aligned, checked above; mapped as long as `self` lives; every access is atomic.
        unsafe { &*self.base.as_ptr().add(offset).cast::<[AtomicU64; N]>() }
    }

    /// Calls `f` with the address of bytes that it reads; another process may write them at the same time.
    ///
    /// # Panics
    /// They lie beyond the end.
    #[inline]
    pub fn read<R>(&self, offset: usize, len: usize, f: impl FnOnce(*const u8) -> R) -> R {
        f(self.at(offset, len))
    }

    /// Calls `f` with the address of bytes that it writes; likewise.
    ///
    /// # Panics
    /// They lie beyond the end.
    #[inline]
    pub fn write<R>(&self, offset: usize, len: usize, f: impl FnOnce(*mut u8) -> R) -> R {
        f(self.at(offset, len))
    }

    /// Prefetches bytes for writing, as far as they are there.
    #[inline]
    pub fn expect_write(&self, offset: usize, len: usize) {
        #[cfg(target_arch = "x86_64")]
        for at in (offset..offset.saturating_add(len).min(self.len)).step_by(64) {
            let line = self.at(at, 0);
            // SAFETY: a hint about an address; it neither reads nor writes, nor faults.
            unsafe { std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags)) };
        }
        #[cfg(target_arch = "aarch64")]
        for at in (offset..offset.saturating_add(len).min(self.len)).step_by(64) {
            let line = self.at(at, 0);
            // SAFETY: as above.
            unsafe { std::arch::asm!("prfm pstl1keep, [{}]", in(reg) line, options(nostack, preserves_flags)) };
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = (offset, len);
    }

    #[inline]
    fn at(&self, offset: usize, len: usize) -> *mut u8 {
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
