//! Threads that touch memory while its pages are elsewhere: userfaultfd(2) has them sleep until the pages are back.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::{c_int, c_ulong};

/// Only faults of programs, not those of system calls that they make: what an ordinary user may always have.
const UFFD_USER_MODE_ONLY: c_int = 1;
const UFFD_API: u64 = 0xaa;
const UFFDIO_API: c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: c_ulong = 0xc020_aa00;
const UFFDIO_UNREGISTER: c_ulong = 0x8010_aa01;
const UFFDIO_WAKE: c_ulong = 0x8010_aa02;
const UFFDIO_REGISTER_MODE_MISSING: u64 = 1;
const UFFDIO_REGISTER_MODE_MINOR: u64 = 4;
const UFFD_FEATURE_MINOR_SHMEM: u64 = 1 << 10;
/// Of /dev/userfaultfd, whose permissions an administrator may have opened.
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

/// What keeps a range away from everybody else.
#[derive(Debug)]
pub(super) struct Faults {
    fd: OwnedFd,
    /// System calls that touch the range sleep too; without this they fail with EFAULT.
    pub(super) complete: bool,
    /// Pages of files in memory can be kept away as well.
    pub(super) minor: bool,
}

impl Faults {
    /// The most that this process may have.
    ///
    /// # Errors
    /// The kernel has no userfaultfd, or a filter of system calls denies it.
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

    /// From now on whoever touches a page of this private anonymous range that is not there sleeps until [`Faults::wake`].
    pub(super) fn hold(&self, addr: u64, len: u64) -> io::Result<()> {
        self.register(addr, len, UFFDIO_REGISTER_MODE_MISSING)
    }

    /// The same for a range where a file in memory is mapped and shared, and pages that are not mapped.
    pub(super) fn hold_shared(&self, addr: u64, len: u64) -> io::Result<()> {
        self.register(addr, len, UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR)
    }

    /// Let everybody touch the range again as it is.
    pub(super) fn release(&self, addr: u64, len: u64) -> io::Result<()> {
        call(&self.fd, UFFDIO_UNREGISTER, &mut Range { start: addr, len })
    }

    /// Something else stands in this range now: who sleeps tries again.
    pub(super) fn wake(&self, addr: u64, len: u64) {
        // It refuses what is no range of pages only; and what sleeps is woken in any case when the descriptor is closed.
        let _ = call(&self.fd, UFFDIO_WAKE, &mut Range { start: addr, len });
    }

    fn register(&self, addr: u64, len: u64, mode: u64) -> io::Result<()> {
        let mut what = Register { range: Range { start: addr, len }, mode, ioctls: 0 };
        call(&self.fd, UFFDIO_REGISTER, &raw mut what)
    }
}

fn open(flags: c_int) -> io::Result<OwnedFd> {
    // SAFETY: takes flags and touches no memory.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | flags) };
    owned(fd)
}

fn open_device() -> io::Result<OwnedFd> {
    let device = std::fs::File::open("/dev/userfaultfd")?;
    // SAFETY: takes flags and touches no memory.
    let fd = unsafe { libc::ioctl(device.as_raw_fd(), USERFAULTFD_IOC_NEW, libc::O_CLOEXEC) };
    owned(fd.into())
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    match c_int::try_from(fd) {
        // SAFETY: the kernel just made it for us.
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
