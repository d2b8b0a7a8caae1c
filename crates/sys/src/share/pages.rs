//! Mappings and pages by address, as the kernel's calls take them. Straight to the kernel, past the C library's functions: UCX,
//! Open MPI and libfabric hook those, and drop the registration of memory whose pages seem to go.

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

/// A mapping of our own that goes when it is dropped, unless it was moved away.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) addr: u64,
    len: u64,
}

impl Scratch {
    /// A piece of a file, shared, at an address as far from a multiple of `align` as its offset is.
    pub(super) fn of_file(file: BorrowedFd<'_>, offset: u64, len: u64, align: u64) -> io::Result<Scratch> {
        let room = Scratch::aligned(offset % align, len, align)?;
        // SAFETY: over a mapping of our own that nobody uses.
        let addr = unsafe {
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            mmap(pointer(room.addr), len as usize, READ_WRITE, flags, file, offset)
        };
        mapped(addr).map(|_| room)
    }

    /// Fresh private memory, `skip` bytes beyond a multiple of `align`.
    pub(super) fn fresh(skip: u64, len: u64, align: u64) -> io::Result<Scratch> {
        let room = Scratch::aligned(skip, len, align)?;
        fresh_at(room.addr, len).map(|()| room)
    }

    /// Address space that nothing can be done with yet.
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

    /// Pages that were taken away from somewhere.
    pub(super) fn taken(addr: u64, len: u64) -> Scratch {
        Scratch { addr, len }
    }

    /// Puts it in the place of what stands at `to`, at once, with its pages.
    pub(super) fn move_to(self, to: u64) -> Result<(), (Scratch, io::Error)> {
        // SAFETY: our own mapping goes to `to`, where the caller wants it: the pages there have the same bytes.
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

/// Unmaps what is ours.
fn unmap(addr: u64, len: u64) {
    if len > 0 {
        // SAFETY: only address space of scratch mappings comes here.
        let _ = unsafe { munmap(pointer(addr), len as usize) };
    }
}

/// Fresh private memory in place of whatever stands at an address.
pub(super) fn fresh_at(addr: u64, len: u64) -> io::Result<()> {
    // SAFETY: the caller gives the range up.
    let got = unsafe { mmap_anonymous(pointer(addr), len as usize, READ_WRITE, MapFlags::PRIVATE | MapFlags::FIXED) };
    mapped(got).map(drop)
}

/// A piece of a file, private, in place of whatever stands at an address.
pub(super) fn private_at(addr: u64, len: u64, file: BorrowedFd<'_>, offset: u64) -> io::Result<()> {
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    // SAFETY: as above; what stood there shows the same bytes of the same file.
    let got = unsafe { mmap(pointer(addr), len as usize, READ_WRITE, flags, file, offset) };
    mapped(got).map(drop)
}

/// Gives a range that was mapped readable and writable the rights that it had, if they were others.
pub(super) fn protect(addr: u64, len: u64, rights: c_int) -> io::Result<()> {
    let rights = MprotectFlags::from_bits_retain(rights.cast_unsigned());
    if rights.bits() == READ_WRITE.bits() {
        return Ok(());
    }
    // SAFETY: mapped in place of something with these rights.
    Ok(unsafe { mprotect(pointer(addr), len as usize, rights) }?)
}

/// Takes the pages of a private anonymous range away; the range stays, empty.
pub(super) fn take(addr: u64, len: u64) -> io::Result<Scratch> {
    // SAFETY: the pages go to an address of the kernel's choice. The caller has everybody who touches the range wait.
    let got = unsafe {
        // rustix's call does not say that the kernel may choose, which this flag needs.
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
        libc::syscall(libc::SYS_mremap, pointer(addr), len, len, flags, std::ptr::null_mut::<c_void>())
    };
    let got = if got == -1 { Err(io::Error::last_os_error()) } else { Ok(got.cast_unsigned()) };
    got.map(|got| Scratch::taken(got, len))
}

/// Makes every page of a range present and writable: an error where touching it would kill.
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
    // SAFETY: the file has the bytes, and who touches the range finds them there.
    Ok(unsafe { madvise(pointer(addr), len as usize, Advice::LinuxDontNeed) }?)
}

/// Copies between ranges of mapped memory that do not overlap.
pub(super) fn copy(from: u64, to: u64, len: u64) {
    // SAFETY: the caller's mappings, one of them a scratch mapping that nobody else writes.
    unsafe { std::ptr::copy_nonoverlapping(pointer(from).cast::<u8>(), pointer(to).cast(), len as usize) };
}

/// Reads a piece of a file to where fresh memory was mapped. Does nothing that a signal handler must not.
pub(super) fn read_at(file: BorrowedFd<'_>, mut addr: u64, mut len: u64, mut offset: u64) -> io::Result<()> {
    while len > 0 {
        // SAFETY: the caller's memory, which nobody uses yet.
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

/// Tells which pages of this process there are.
#[derive(Debug)]
pub(super) struct PageMap(Option<File>);

/// Pages that are looked at in one go.
pub(super) const LOOK_PAGES: usize = 512;

impl PageMap {
    pub(super) fn open() -> PageMap {
        PageMap(File::open("/proc/self/pagemap").ok())
    }

    /// The runs of pages of a range (of [`LOOK_PAGES`] at most) that are in memory or swapped out; all of them if that
    /// cannot be found out. No memory is allocated.
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

/// Runs of pages, as distance from the range's start and length in bytes.
#[derive(Debug)]
pub(super) struct Runs {
    is_there: [bool; LOOK_PAGES],
    count: usize,
    next: usize,
    page: u64,
}

impl Runs {
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
