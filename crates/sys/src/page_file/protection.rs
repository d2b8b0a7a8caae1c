//! Write protection of pages that move, by userfaultfd(2): writers wait until it ends.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::ioctl::{Opcode, opcode};
use rustix::mm::{Advice, UserfaultfdFlags};

use super::failure::{Immovable, MoveError};
use super::range::Run;

/// Faults of system calls need not wait: without privilege the kernel offers no more. Such a call fails with EFAULT.
const USER_MODE_ONLY: u32 = 1;
/// Version of the interface.
const API: u64 = 0xaa;
/// Feature: pages can be write-protected.
const FEATURE_WRITE_PROTECT: u64 = 1;
/// Mode of a registration: faults of write protection.
const REGISTER_WRITE_PROTECT: u64 = 2;
/// Mode of a change: protect.
const PROTECT: u64 = 1;

/// `struct uffdio_api`.
#[repr(C)]
struct ApiCall {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct RegisterCall {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

/// `struct uffdio_writeprotect`.
#[repr(C)]
struct ProtectCall {
    start: u64,
    length: u64,
    mode: u64,
}

const GROUP: u8 = 0xaa;
const UFFDIO_API: Opcode = opcode::read_write::<ApiCall>(GROUP, 0x3f);
const UFFDIO_REGISTER: Opcode = opcode::read_write::<RegisterCall>(GROUP, 0);
const UFFDIO_WRITEPROTECT: Opcode = opcode::read_write::<ProtectCall>(GROUP, 6);

/// The protection of some pages. When it is dropped, the writers that wait go on, with what is mapped then.
#[derive(Debug)]
pub struct Protection(OwnedFd);

impl Protection {
    /// Prepares to protect pages, and makes all of them present: there is no protection of others.
    pub fn of(run: &Run) -> Result<Protection, MoveError> {
        if !run.is_anonymous {
            return Err(MoveError::Immovable(Immovable::Threads));
        }
        let Ok(protection) = Protection::open() else { return Err(MoveError::Immovable(Immovable::Threads)) };
        let (start, length) = (run.start, run.end - run.start);
        let pages = std::ptr::with_exposed_provenance_mut(start as usize);
        // SAFETY: populating makes pages present as an access would, and changes no byte.
        unsafe { rustix::mm::madvise(pages, length as usize, Advice::LinuxPopulateWrite) }.map_err(io::Error::from)?;
        let mut call = RegisterCall { start, length, mode: REGISTER_WRITE_PROTECT, ioctls: 0 };
        protection.call(UFFDIO_REGISTER, (&raw mut call).cast())?;
        Ok(protection)
    }

    fn open() -> io::Result<Protection> {
        let open = |flags: UserfaultfdFlags| {
            // SAFETY: a new descriptor, which has no effect until it is used.
            unsafe { rustix::mm::userfaultfd(flags | UserfaultfdFlags::CLOEXEC) }
        };
        let unprivileged = UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY);
        let protection = Protection(open(UserfaultfdFlags::empty()).or_else(|_| open(unprivileged))?);
        let mut call = ApiCall { api: API, features: FEATURE_WRITE_PROTECT, ioctls: 0 };
        protection.call(UFFDIO_API, (&raw mut call).cast())?;
        Ok(protection)
    }

    /// Protects some of the pages.
    pub fn protect(&self, start: u64, length: u64) -> io::Result<()> {
        let mut call = ProtectCall { start, length, mode: PROTECT };
        self.call(UFFDIO_WRITEPROTECT, (&raw mut call).cast())
    }

    fn call(&self, operation: Opcode, argument: *mut c_void) -> io::Result<()> {
        // SAFETY: the structure of this operation, which lives as long as the call.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), operation as _, argument) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
