//! rsockets: none can be opened, so no descriptor is one (EBADF). `rpoll` and `rselect` take ordinary descriptors
//! too, and pass those on.

use libc::{EBADF, ENODEV, c_int, fd_set, nfds_t, pollfd, timeval};

use crate::errors::fail;

/// No rsocket can be opened.
pub extern "C" fn rsocket(_domain: c_int, _kind: c_int, _protocol: c_int) -> c_int {
    fail(ENODEV)
}

/// As poll(2).
pub unsafe extern "C" fn rpoll(fds: *mut pollfd, nfds: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the caller's promises are those of poll(2).
    unsafe { libc::poll(fds, nfds, timeout) }
}

/// As select(2).
pub unsafe extern "C" fn rselect(
    nfds: c_int,
    readfds: *mut fd_set,
    writefds: *mut fd_set,
    exceptfds: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: the caller's promises are those of select(2).
    unsafe { libc::select(nfds, readfds, writefds, exceptfds, timeout) }
}

// The descriptor that each of these takes first cannot be an rsocket; the other arguments stay unread.

/// EBADF.
pub extern "C" fn rbind(_socket: c_int) -> c_int {
    fail(EBADF)
}

/// EBADF.
pub extern "C" fn rlisten(_socket: c_int) -> c_int {
    fail(EBADF)
}

/// EBADF.
pub extern "C" fn raccept(_socket: c_int) -> c_int {
    fail(EBADF)
}

/// EBADF.
pub extern "C" fn rconnect(_socket: c_int) -> c_int {
    fail(EBADF)
}

/// EBADF.
pub extern "C" fn rshutdown(_socket: c_int) -> c_int {
    fail(EBADF)
}

/// EBADF.
pub extern "C" fn rclose(_socket: c_int) -> c_int {
    fail(EBADF)
}

/// EBADF.
pub extern "C" fn rgetpeername(_socket: c_int) -> c_int {
    fail(EBADF)
}

/// EBADF.
pub extern "C" fn rgetsockname(_socket: c_int) -> c_int {
    fail(EBADF)
}

/// EBADF.
pub extern "C" fn rsetsockopt(_socket: c_int) -> c_int {
    fail(EBADF)
}

/// EBADF.
pub extern "C" fn rgetsockopt(_socket: c_int) -> c_int {
    fail(EBADF)
}

/// EBADF.
pub extern "C" fn rfcntl(_socket: c_int) -> c_int {
    fail(EBADF)
}

/// EBADF.
pub extern "C" fn riounmap(_socket: c_int) -> c_int {
    fail(EBADF)
}

/// EBADF.
pub extern "C" fn rrecv(_socket: c_int) -> isize {
    fail(EBADF) as isize
}

/// EBADF.
pub extern "C" fn rrecvfrom(_socket: c_int) -> isize {
    fail(EBADF) as isize
}

/// EBADF.
pub extern "C" fn rrecvmsg(_socket: c_int) -> isize {
    fail(EBADF) as isize
}

/// EBADF.
pub extern "C" fn rsend(_socket: c_int) -> isize {
    fail(EBADF) as isize
}

/// EBADF.
pub extern "C" fn rsendto(_socket: c_int) -> isize {
    fail(EBADF) as isize
}

/// EBADF.
pub extern "C" fn rsendmsg(_socket: c_int) -> isize {
    fail(EBADF) as isize
}

/// EBADF.
pub extern "C" fn rread(_socket: c_int) -> isize {
    fail(EBADF) as isize
}

/// EBADF.
pub extern "C" fn rreadv(_socket: c_int) -> isize {
    fail(EBADF) as isize
}

/// EBADF.
pub extern "C" fn rwrite(_socket: c_int) -> isize {
    fail(EBADF) as isize
}

/// EBADF.
pub extern "C" fn rwritev(_socket: c_int) -> isize {
    fail(EBADF) as isize
}

/// EBADF.
pub extern "C" fn riomap(_socket: c_int) -> isize {
    fail(EBADF) as isize
}

/// EBADF.
pub extern "C" fn riowrite(_socket: c_int) -> isize {
    fail(EBADF) as isize
}
