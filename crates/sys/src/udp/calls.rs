//! The raw system calls. The C library's wrappers are cancellation points: a program's thread cancelled while it polls
//! would end in the middle of our work, with our locks held. `syscall` is not a cancellation point.

use libc::{SYS_recvfrom, SYS_recvmsg, SYS_sendmsg, SYS_sendto, c_int, c_long, iovec, msghdr, syscall};

/// recvmsg(2).
///
/// # Safety
/// As for the system call: the memory that the header names is valid for writing.
#[inline]
pub(super) unsafe fn recvmsg(fd: c_int, header: *mut msghdr, flags: c_int) -> c_long {
    // SAFETY: the caller upholds the contract.
    unsafe { syscall(SYS_recvmsg, fd, header, flags) }
}

/// recv(2).
///
/// # Safety
/// As for the system call: the `len` bytes at `room` are valid for writing.
#[inline]
pub(super) unsafe fn recv(fd: c_int, room: *mut u8, len: usize, flags: c_int) -> c_long {
    let (no_name, no_len) = (std::ptr::null_mut::<libc::sockaddr>(), std::ptr::null_mut::<libc::socklen_t>());
    // SAFETY: the caller upholds the contract; there is no name to write.
    unsafe { syscall(SYS_recvfrom, fd, room, len, flags, no_name, no_len) }
}

/// sendmsg(2).
///
/// # Safety
/// As for the system call: the name and control block that the header names are valid. (The kernel checks the pieces.)
#[inline]
pub(super) unsafe fn sendmsg(fd: c_int, header: *const msghdr, flags: c_int) -> c_long {
    // SAFETY: the caller upholds the contract.
    unsafe { syscall(SYS_sendmsg, fd, header, flags) }
}

/// send(2).
///
/// # Safety
/// No requirement: the kernel checks the piece.
#[inline]
pub(super) unsafe fn send(fd: c_int, piece: &iovec, flags: c_int) -> c_long {
    // SAFETY: the kernel checks the piece's pointer, and the address is null.
    unsafe { syscall(SYS_sendto, fd, piece.iov_base, piece.iov_len, flags, std::ptr::null::<libc::sockaddr>(), 0) }
}
