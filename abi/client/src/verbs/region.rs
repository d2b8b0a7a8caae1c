//! Registered parts of memory files, which other processes map, too.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use weft_abi_types::ibv_mr;

use super::{Pd, Sge, check_ptr};

/// Mapped and registered part of a memory file. An adapter and other processes may change it at any time, so it is never a
/// slice. Its addresses count from the beginning of its first page, as in zero-based regions.
#[derive(Debug)]
pub struct Region {
    pd: Pd,
    mr: *mut ibv_mr,
    mapping: Mapping,
    /// Bytes of the first page before the region.
    offset: usize,
    length: usize,
}

/// Whole pages of a file.
#[derive(Debug)]
struct Mapping {
    start: *mut libc::c_void,
    length: usize,
}

impl Mapping {
    fn new(file: impl AsFd, at: u64, length: usize) -> io::Result<Mapping> {
        let at = libc::off_t::try_from(at).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, rights, flags, file.as_fd().as_raw_fd(), at) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if !self.start.is_null() {
            // SAFETY: our own mapping, and no region refers to it.
            unsafe { libc::munmap(self.start, self.length) };
        }
    }
}

impl Region {
    /// Maps `length` bytes of a file from `at` on, and registers them with the rights `access`.
    ///
    /// # Errors
    /// The file is not sealed against becoming shorter than that, they cannot be mapped or registered, or the library is too old
    /// for regions with an address of their own.
    pub fn new(pd: &Pd, file: impl AsFd, at: u64, length: usize, access: u32) -> io::Result<Region> {
        let end = at.checked_add(length as u64).ok_or(io::ErrorKind::InvalidInput)?;
        if !keeps_length(file.as_fd(), end)? {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // SAFETY: a number alone.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        let offset = (at % page) as usize;
        let whole = (offset + length).next_multiple_of(page as usize);
        let mapping = Mapping::new(file, at - offset as u64, whole)?;
        let verbs = pd.context().library().verbs;
        let register = verbs.ibv_reg_mr_iova.ok_or(io::ErrorKind::Unsupported)?;
        let start = mapping.start.cast::<u8>().wrapping_add(offset);
        // SAFETY: the bytes stay mapped until the region is gone (see drop).
        let mr = unsafe { register(pd.ptr(), start.cast(), length, offset as u64, access as i32) };
        Ok(Region { pd: pd.clone(), mr: check_ptr(mr)?, mapping, offset, length })
    }

    /// R_Key, for the peer's work requests.
    pub fn rkey(&self) -> u32 {
        // SAFETY: the region is registered; its keys do not change.
        unsafe { (*self.mr).rkey }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The entry for all of it, for a work request.
    pub fn sge(&self) -> Sge {
        // SAFETY: as for `rkey`.
        let lkey = unsafe { (*self.mr).lkey };
        Sge { addr: self.offset as u64, length: self.length as u32, lkey }
    }

    /// Copies bytes to an address of the region, as a peer's WRITE does. Returns whether all of them are within it.
    pub fn write(&self, address: u64, bytes: &[u8]) -> bool {
        let Some(to) = self.place(address, bytes.len()) else { return false };
        // SAFETY: within the mapping; the source is no part of it, because no reference to it exists.
        unsafe { std::ptr::copy(bytes.as_ptr(), to, bytes.len()) };
        true
    }

    /// Copies bytes from an address of the region, as a peer's READ does. Returns whether all of them are within it.
    pub fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let Some(from) = self.place(address, into.len()) else { return false };
        // SAFETY: as for write.
        unsafe { std::ptr::copy(from, into.as_mut_ptr(), into.len()) };
        true
    }

    fn place(&self, address: u64, length: usize) -> Option<*mut u8> {
        let at = usize::try_from(address).ok()?;
        let is_within = at >= self.offset && at.checked_add(length)? <= self.offset + self.length;
        is_within.then(|| self.mapping.start.cast::<u8>().wrapping_add(at))
    }

    /// Lowest address of the region.
    pub fn first_address(&self) -> u64 {
        self.offset as u64
    }
}

/// Whether the file has at least this length for good. Access to a mapping beyond a file's end would kill the process.
fn keeps_length(file: BorrowedFd<'_>, length: u64) -> io::Result<bool> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: numbers, and a structure to fill.
    let (seals, done) =
        unsafe { (libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS), libc::fstat(file.as_raw_fd(), stat.as_mut_ptr())) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has filled it.
    let size = unsafe { stat.assume_init() }.st_size;
    Ok(seals >= 0 && seals & libc::F_SEAL_SHRINK != 0 && u64::try_from(size).is_ok_and(|size| size >= length))
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the region is deregistered before its memory goes.
        let failed = unsafe { (self.pd.context().library().verbs.ibv_dereg_mr)(self.mr) } != 0;
        if failed {
            // An adapter may still use it, so it stays mapped.
            self.mapping.start = std::ptr::null_mut();
        }
    }
}
