//! Getters and setters for socket options that are plain C integers or structures.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `setsockopt` with an int.
pub fn set_int(fd: impl AsFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    let value: libc::c_int = value;
    // SAFETY: the pointer and the length name `value`, which lives across the call.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `setsockopt` with a C structure, plain data that the kernel reads.
pub(crate) fn set<T: Copy>(fd: impl AsFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and the length name `value`, which lives across the call.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `getsockopt` of an int.
pub fn int(fd: impl AsFd, level: i32, option: i32) -> io::Result<i32> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` and `len` are valid for writing, `len` is the size of `value`.
    let rc = unsafe { libc::getsockopt(fd.as_fd().as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut len) };
    if rc == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// `getsockopt` of the first words of a C structure; of one with fewer words, the rest is zero.
pub(crate) fn words<const N: usize>(fd: impl AsFd, level: i32, option: i32) -> io::Result<[u32; N]> {
    let mut words = [0; N];
    let mut len = size_of_val(&words) as libc::socklen_t;
    // SAFETY: `words` and `len` are valid for writing, `len` is the size of `words`.
    let rc = unsafe { libc::getsockopt(fd.as_fd().as_raw_fd(), level, option, (&raw mut words).cast(), &raw mut len) };
    if rc == 0 { Ok(words) } else { Err(io::Error::last_os_error()) }
}

/// Returns the unique ID of a socket in this boot (SO_COOKIE): two descriptors with the same cookie refer to one
/// socket.
pub fn cookie(fd: impl AsFd) -> io::Result<u64> {
    Ok(rustix::net::sockopt::socket_cookie(fd)?)
}
