//! Many messages by one system call: sendmmsg(2) and recvmmsg(2), or one message a call in a sandbox that refuses them.
//!
//! The calls bypass the C library, whose wrappers are cancellation points: a program's thread cancelled while it polls
//! would end in the middle of our work, with our locks held.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{SYS_recvmmsg, SYS_recvmsg, SYS_sendmmsg, SYS_sendmsg, c_int, c_long, mmsghdr, syscall};

/// Whether a sandbox refuses a call. That lasts for the life of the process.
struct Refusal {
    number: c_long,
    is_refused: AtomicBool,
}

static SENDMMSG: Refusal = Refusal { number: SYS_sendmmsg, is_refused: AtomicBool::new(false) };
static RECVMMSG: Refusal = Refusal { number: SYS_recvmmsg, is_refused: AtomicBool::new(false) };

impl Refusal {
    fn is_known(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    /// Whether the last error came from a sandbox: then the call fails for no messages, too. A packet filter also
    /// answers EPERM.
    #[cold]
    fn is_new(&self, fd: c_int) -> bool {
        let error = io::Error::last_os_error();
        let is_refusal = |errno: Option<i32>| matches!(errno, Some(libc::EPERM | libc::ENOSYS));
        if !is_refusal(error.raw_os_error()) {
            return false;
        }
        // SAFETY: there are no headers, and no time limit.
        let rc = unsafe { syscall(self.number, fd, 0usize, 0usize, libc::MSG_DONTWAIT, 0usize) };
        let is_refused = rc < 0 && is_refusal(io::Error::last_os_error().raw_os_error());
        self.is_refused.store(is_refused, Ordering::Relaxed);
        set_errno(error.raw_os_error().unwrap_or(0));
        is_refused
    }
}

/// sendmmsg(2).
///
/// # Safety
/// There are `count` headers, which may be written to; the names and control blocks that they name are valid. (The
/// kernel checks the pieces.)
#[inline]
pub(crate) unsafe fn send(fd: c_int, headers: *mut mmsghdr, count: u32, flags: c_int) -> c_long {
    // SAFETY: the caller upholds the contract.
    unsafe {
        if !SENDMMSG.is_known() {
            let sent = syscall(SYS_sendmmsg, fd, headers, count, flags);
            if sent >= 0 || !SENDMMSG.is_new(fd) {
                return sent;
            }
        }
        one_by_one(SYS_sendmsg, fd, headers, count, flags)
    }
}

/// recvmmsg(2) without a time limit.
///
/// # Safety
/// There are `count` headers, and the memory that they name is valid for writing.
#[inline]
pub(crate) unsafe fn receive(fd: c_int, headers: *mut mmsghdr, count: u32, flags: c_int) -> c_long {
    // SAFETY: the caller upholds the contract.
    unsafe {
        if !RECVMMSG.is_known() {
            let received = syscall(SYS_recvmmsg, fd, headers, count, flags, std::ptr::null_mut::<libc::timespec>());
            if received >= 0 || !RECVMMSG.is_new(fd) {
                return received;
            }
        }
        one_by_one(SYS_recvmsg, fd, headers, count, flags)
    }
}

/// Makes a call for each header until one fails. Returns how many succeeded, or -1 if the first failed.
///
/// # Safety
/// As for sendmmsg or recvmmsg.
#[cold]
unsafe fn one_by_one(number: c_long, fd: c_int, headers: *mut mmsghdr, count: u32, flags: c_int) -> c_long {
    for done in 0..count {
        // SAFETY: the caller upholds the contract, and `done` is below `count`.
        unsafe {
            let header = headers.add(done as usize);
            match syscall(number, fd, &raw mut (*header).msg_hdr, flags) {
                ..0 if done == 0 => return -1,
                ..0 => return c_long::from(done),
                length => (*header).msg_len = length as u32,
            }
        }
    }
    c_long::from(count)
}

fn set_errno(errno: c_int) {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = errno };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn one_by_one_does_what_the_calls_do() {
        let (a, b) = crate::unix::pair().unwrap();
        let mut bytes = [[1u8; 3], [2; 3], [3; 3]];
        let mut vectors: Vec<libc::iovec> = bytes
            .iter_mut()
            .map(|bytes| libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() })
            .collect();
        let header = |vector: &mut libc::iovec| {
            // SAFETY: an all-zero header is valid and names nothing.
            let mut header: mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header
        };
        let mut headers: Vec<mmsghdr> = vectors.iter_mut().map(header).collect();
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: every header names one vector, and every vector bytes of its own.
        let (sent, received, empty) = unsafe {
            let sent = one_by_one(SYS_sendmsg, a.as_raw_fd(), headers.as_mut_ptr(), 2, flags);
            (sent, one_by_one(SYS_recvmsg, b.as_raw_fd(), headers.as_mut_ptr(), 3, flags), {
                one_by_one(SYS_recvmsg, b.as_raw_fd(), headers.as_mut_ptr(), 3, flags)
            })
        };
        assert_eq!((sent, received, empty, headers[1].msg_len), (2, 2, -1, 3));
    }

    #[test]
    fn another_error_is_no_refusal() {
        set_errno(libc::EPERM);
        let (a, _b) = crate::unix::pair().unwrap();
        assert!(!SENDMMSG.is_new(a.as_raw_fd()), "sendmmsg for no messages succeeds here");
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EPERM));
    }
}
