//! Failures as C programs see them.

use std::io;
use std::os::fd::BorrowedFd;

use libc::{c_int, ssize_t};

/// Value of errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure(pub c_int);

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// Returns the failure of a call that may wait: a time limit of the socket has passed, if it waited.
pub fn waited(fd: c_int, flags: c_int, error: io::Error) -> Failure {
    // SAFETY: the program keeps its descriptor open during the call.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let waits = flags & libc::MSG_DONTWAIT == 0
        && rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| !flags.contains(rustix::fs::OFlags::NONBLOCK));
    if error.kind() == io::ErrorKind::WouldBlock && waits { Failure(libc::ETIMEDOUT) } else { error.into() }
}

/// Sets errno, and returns -1.
pub fn fail(failure: Failure) -> c_int {
    // SAFETY: the C library's errno of this thread is always valid.
    unsafe { *libc::__errno_location() = failure.0 };
    -1
}

/// Returns a result as a call returns it.
pub fn status(result: Result<c_int, Failure>) -> c_int {
    result.unwrap_or_else(fail)
}

/// Returns a number of bytes as a call returns it.
pub fn count(result: Result<usize, Failure>) -> ssize_t {
    match result {
        Ok(bytes) => bytes as ssize_t,
        Err(failure) => fail(failure) as ssize_t,
    }
}
