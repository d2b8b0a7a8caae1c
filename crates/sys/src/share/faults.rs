//! Blocks threads that touch memory while its pages are being moved: userfaultfd(2) puts them to sleep until the pages
//! are back.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::{c_int, c_ulong};

/// Only faults in user mode, not in system calls: an ordinary user always has this right.
const UFFD_USER_MODE_ONLY: c_int = 1;
const UFFD_API: u64 = 0xaa;
const UFFDIO_API: c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: c_ulong = 0xc020_aa00;
const UFFDIO_UNREGISTER: c_ulong = 0x8010_aa01;
const UFFDIO_WAKE: c_ulong = 0x8010_aa02;
const UFFDIO_REGISTER_MODE_MISSING: u64 = 1;
const UFFDIO_REGISTER_MODE_MINOR: u64 = 4;
const UFFD_FEATURE_MINOR_SHMEM: u64 = 1 << 10;
/// Request of /dev/userfaultfd, whose permissions an administrator may have opened.
const USERFAULTFD_IOC_NEW: c_ulong = 0xaa00;

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Range {
    start: u64,
    len: u64,
}

#[repr(C)]
struct Register {
    range: Range,
    mode: u64,
    ioctls: u64,
}

/// A userfaultfd, which keeps other threads away from a range.
#[derive(Debug)]
pub(super) struct Faults {
    fd: OwnedFd,
    /// System calls that touch the range sleep too; without this right they fail with EFAULT.
    pub(super) complete: bool,
    /// The kernel supports minor faults on memory files, so their pages can be guarded as well.
    pub(super) minor: bool,
}

impl Faults {
    /// Opens a userfaultfd with the most rights available to this process.
    ///
    /// # Errors
    /// The kernel has no userfaultfd, or a seccomp filter denies it.
    pub(super) fn new() -> io::Result<Faults> {
        let (fd, complete) = match open(0).or_else(|_| open_device()) {
            Ok(fd) => (fd, true),
            Err(_) => (open(UFFD_USER_MODE_ONLY)?, false),
        };
        let mut minor = true;
        let mut api = Api { api: UFFD_API, features: UFFD_FEATURE_MINOR_SHMEM, ioctls: 0 };
        if call(&fd, UFFDIO_API, &raw mut api).is_err() {
            minor = false;
            api = Api { api: UFFD_API, features: 0, ioctls: 0 };
            call(&fd, UFFDIO_API, &raw mut api)?;
        }
        Ok(Faults { fd, complete, minor })
    }

    /// Blocks every thread that touches a missing page of this private anonymous range, until [`Faults::wake`].
    pub(super) fn hold(&self, addr: u64, len: u64) -> io::Result<()> {
        self.register(addr, len, UFFDIO_REGISTER_MODE_MISSING)
    }

    /// As [`Faults::hold`], for the unmapped pages of a shared memory file mapping.
    pub(super) fn hold_shared(&self, addr: u64, len: u64) -> io::Result<()> {
        self.register(addr, len, UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR)
    }

    /// Ends the guard: threads may touch the range again as it is.
    pub(super) fn release(&self, addr: u64, len: u64) -> io::Result<()> {
        call(&self.fd, UFFDIO_UNREGISTER, &mut Range { start: addr, len })
    }

    /// Wakes the threads that sleep on this range, whose pages have been replaced; they retry.
    pub(super) fn wake(&self, addr: u64, len: u64) {
        // This fails only if the range is not page-aligned; and closing the descriptor wakes every sleeper in any case.
        let _ = call(&self.fd, UFFDIO_WAKE, &mut Range { start: addr, len });
    }

    fn register(&self, addr: u64, len: u64, mode: u64) -> io::Result<()> {
        let mut what = Register { range: Range { start: addr, len }, mode, ioctls: 0 };
        call(&self.fd, UFFDIO_REGISTER, &raw mut what)
    }
}

fn open(flags: c_int) -> io::Result<OwnedFd> {
    // SAFETY: the call takes flags and touches no memory.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | flags) };
    owned(fd)
}

fn open_device() -> io::Result<OwnedFd> {
    let device = std::fs::File::open("/dev/userfaultfd")?;
    // SAFETY: the call takes flags and touches no memory.
    let fd = unsafe { libc::ioctl(device.as_raw_fd(), USERFAULTFD_IOC_NEW, libc::O_CLOEXEC) };
    owned(fd.into())
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    match c_int::try_from(fd) {
        // SAFETY: the kernel just returned this descriptor to us, so we own it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn call<T>(fd: &OwnedFd, request: c_ulong, argument: *mut T) -> io::Result<()> {
    // SAFETY: the argument is the structure that this request takes, alive during the call.
    match unsafe { libc::ioctl(fd.as_raw_fd(), request, argument) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
