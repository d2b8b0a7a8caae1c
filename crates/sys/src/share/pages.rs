//! Mappings and pages by address, as the kernel's calls take them. The calls bypass the C library's functions: UCX,
//! Open MPI and libfabric hook those, and drop the registration of memory whose pages seem to go away.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use libc::{c_int, c_void};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags};
use rustix::mm::{madvise, mmap, mmap_anonymous, mprotect, mremap_fixed, munmap};

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

fn pointer(addr: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(addr as usize)
}

fn mapped(addr: rustix::io::Result<*mut c_void>) -> io::Result<u64> {
    Ok(addr?.expose_provenance() as u64)
}

/// A mapping of our own that is unmapped on drop, unless it was moved away.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) addr: u64,
    len: u64,
}

impl Scratch {
    /// Maps a piece of a file, shared, at an address congruent to its offset modulo `align`.
    pub(super) fn of_file(file: BorrowedFd<'_>, offset: u64, len: u64, align: u64) -> io::Result<Scratch> {
        let room = Scratch::aligned(offset % align, len, align)?;
        // SAFETY: replaces a mapping of our own that no code uses.
        let addr = unsafe {
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            mmap(pointer(room.addr), len as usize, READ_WRITE, flags, file, offset)
        };
        mapped(addr).map(|_| room)
    }

    /// Maps fresh private memory, `skip` bytes beyond a multiple of `align`.
    pub(super) fn fresh(skip: u64, len: u64, align: u64) -> io::Result<Scratch> {
        let room = Scratch::aligned(skip, len, align)?;
        fresh_at(room.addr, len).map(|()| room)
    }

    /// Reserves inaccessible address space.
    fn aligned(skip: u64, len: u64, align: u64) -> io::Result<Scratch> {
        let whole = len + align;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let addr = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mmap_anonymous(std::ptr::null_mut(), whole as usize, ProtFlags::empty(), flags)
        };
        let start = mapped(addr)?;
        let addr = start + (skip + align - start % align) % align;
        unmap(start, addr - start);
        unmap(addr + len, start + whole - (addr + len));
        Ok(Scratch { addr, len })
    }

    /// Wraps pages that [`take`] moved away from their range.
    pub(super) fn taken(addr: u64, len: u64) -> Scratch {
        Scratch { addr, len }
    }

    /// Atomically replaces the mapping at `to` with this one and its pages.
    pub(super) fn move_to(self, to: u64) -> Result<(), (Scratch, io::Error)> {
        // SAFETY: moves our own mapping to `to`, as the caller requests: the pages there have the same bytes.
        let addr = unsafe {
            let len = self.len as usize;
            mremap_fixed(pointer(self.addr), len, len, MremapFlags::MAYMOVE, pointer(to))
        };
        match mapped(addr) {
            Ok(_) => {
                std::mem::forget(self);
                Ok(())
            }
            Err(error) => Err((self, error)),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        unmap(self.addr, self.len);
    }
}

/// Unmaps a scratch mapping.
fn unmap(addr: u64, len: u64) {
    if len > 0 {
        // SAFETY: callers pass only address space of scratch mappings.
        let _ = unsafe { munmap(pointer(addr), len as usize) };
    }
}

/// Maps fresh private memory over an address range.
pub(super) fn fresh_at(addr: u64, len: u64) -> io::Result<()> {
    // SAFETY: the caller gives the range up.
    let got = unsafe { mmap_anonymous(pointer(addr), len as usize, READ_WRITE, MapFlags::PRIVATE | MapFlags::FIXED) };
    mapped(got).map(drop)
}

/// Maps a piece of a file privately over an address range.
pub(super) fn private_at(addr: u64, len: u64, file: BorrowedFd<'_>, offset: u64) -> io::Result<()> {
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    // SAFETY: as above; the replaced mapping shows the same bytes of the same file.
    let got = unsafe { mmap(pointer(addr), len as usize, READ_WRITE, flags, file, offset) };
    mapped(got).map(drop)
}

/// Restores the rights of a range that was mapped readable and writable, if they were different.
pub(super) fn protect(addr: u64, len: u64, rights: c_int) -> io::Result<()> {
    let rights = MprotectFlags::from_bits_retain(rights.cast_unsigned());
    if rights.bits() == READ_WRITE.bits() {
        return Ok(());
    }
    // SAFETY: the range replaces a mapping that had these rights.
    Ok(unsafe { mprotect(pointer(addr), len as usize, rights) }?)
}

/// Moves the pages of a private anonymous range away; the range stays mapped, but empty.
pub(super) fn take(addr: u64, len: u64) -> io::Result<Scratch> {
    // SAFETY: the pages move to an address of the kernel's choice. The caller blocks every thread that touches the
    // range.
    let got = unsafe {
        // rustix's call cannot leave the address to the kernel, which this flag requires.
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
        libc::syscall(libc::SYS_mremap, pointer(addr), len, len, flags, std::ptr::null_mut::<c_void>())
    };
    let got = if got == -1 { Err(io::Error::last_os_error()) } else { Ok(got.cast_unsigned()) };
    got.map(|got| Scratch::taken(got, len))
}

/// Makes every page of a range present and writable; returns an error where an access would raise a signal.
pub(super) fn populate(addr: u64, len: u64) -> io::Result<()> {
    loop {
        // SAFETY: populating makes pages present as a write would, and changes no byte.
        match unsafe { madvise(pointer(addr), len as usize, Advice::LinuxPopulateWrite) } {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Unmaps the pages of a shared file mapping, which the file keeps.
pub(super) fn forget_pages(addr: u64, len: u64) -> io::Result<()> {
    // SAFETY: the file has the bytes, and an access to the range finds them there.
    Ok(unsafe { madvise(pointer(addr), len as usize, Advice::LinuxDontNeed) }?)
}

/// Copies between ranges of mapped memory that do not overlap.
pub(super) fn copy(from: u64, to: u64, len: u64) {
    // SAFETY: the caller's mappings, one of them a scratch mapping that no other thread writes.
    unsafe { std::ptr::copy_nonoverlapping(pointer(from).cast::<u8>(), pointer(to).cast(), len as usize) };
}

/// Reads a piece of a file into freshly mapped memory. Async-signal-safe.
pub(super) fn read_at(file: BorrowedFd<'_>, mut addr: u64, mut len: u64, mut offset: u64) -> io::Result<()> {
    while len > 0 {
        // SAFETY: the caller's memory, which no other code uses yet.
        let got = unsafe { libc::pread(file.as_raw_fd(), pointer(addr), len as usize, offset as i64) };
        match u64::try_from(got) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(got) => {
                addr += got;
                offset += got;
                len -= got;
            }
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// The page map of this process, which tells the pages that exist.
#[derive(Debug)]
pub(super) struct PageMap(Option<File>);

/// Maximum number of pages in one query.
pub(super) const LOOK_PAGES: usize = 512;

impl PageMap {
    pub(super) fn open() -> PageMap {
        PageMap(File::open("/proc/self/pagemap").ok())
    }

    /// Returns the runs of a range (at most [`LOOK_PAGES`] pages) that are in memory or swapped out; the whole range if
    /// that cannot be determined. Allocates no memory.
    pub(super) fn runs(&self, addr: u64, len: u64) -> Runs {
        let page = super::page_size();
        let count = (len / page) as usize;
        let mut runs = Runs { is_there: [true; LOOK_PAGES], count: count.min(LOOK_PAGES), next: 0, page };
        let mut entries = [0u8; LOOK_PAGES * 8];
        if let Some(file) = &self.0
            && let Some(entries) = entries.get_mut(..runs.count * 8)
            && file.read_exact_at(entries, addr / page * 8).is_ok()
        {
            const PRESENT_OR_SWAPPED: u8 = 0xc0;
            for (is_there, entry) in runs.is_there.iter_mut().zip(entries.chunks_exact(8)) {
                let top = if cfg!(target_endian = "little") { entry.last() } else { entry.first() };
                *is_there = top.is_some_and(|top| top & PRESENT_OR_SWAPPED != 0);
            }
        }
        runs
    }
}

/// Returns whether a page holds only zeros.
fn is_zero(page: u64, len: u64) -> bool {
    let words = len as usize / size_of::<u64>();
    // SAFETY: the caller's pages, aligned and mapped, which no other thread touches.
    let words = unsafe { std::slice::from_raw_parts(pointer(page).cast::<u64>().cast_const(), words) };
    // In steps, so that a page with data ends it early and a page without is checked at the speed of memory.
    words.chunks(64).all(|step| step.iter().fold(0, |all, word| all | word) == 0)
}

/// Runs of pages, as distance from the range's start and length in bytes.
#[derive(Debug)]
pub(super) struct Runs {
    is_there: [bool; LOOK_PAGES],
    count: usize,
    next: usize,
    page: u64,
}

impl Runs {
    /// Leaves out the pages that hold only zeros. The range lies at `addr`, mapped, and no other thread touches it.
    pub(super) fn without_zeros(mut self, addr: u64) -> Runs {
        for (number, is_there) in self.is_there.iter_mut().take(self.count).enumerate() {
            *is_there = *is_there && !is_zero(addr + number as u64 * self.page, self.page);
        }
        self
    }

    /// Whether no page is missing.
    pub(super) fn all(&self) -> bool {
        self.is_there.iter().take(self.count).all(|&there| there)
    }
}

impl Iterator for Runs {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let left = self.is_there.get(self.next..self.count)?;
        let skip = left.iter().position(|&there| there)?;
        let run = left.iter().skip(skip).take_while(|&&there| there).count();
        let start = self.next + skip;
        self.next = start + run;
        Some((start as u64 * self.page, run as u64 * self.page))
    }
}
