//! Leases on files (fcntl(2), F_SETLEASE). A process that opens a leased file waits until the lease holder, notified by
//! a signal, has prepared its content. A file that no process opens costs nothing.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Returns a descriptor that becomes readable when a process waits for a leased file of this process. It blocks the
/// kernel's lease signal in the calling thread, which must be the only thread.
///
/// # Errors
/// No descriptor is left.
pub fn waiting() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by sigemptyset before it is read; blocking a signal touches no memory of ours.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGIO);
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // The kernel just made it for us.
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Consumes the events of [`waiting`].
pub fn take(waiting: impl AsFd) {
    let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
    while rustix::io::read(&waiting, &mut info).is_ok_and(|len| len > 0) {}
}

/// Leases a file that this process owns and that no other process has open. `WouldBlock`: another process has it open.
///
/// # Errors
/// As above; the file system does not support leases, or the system forbids them.
pub fn lease(file: impl AsFd) -> io::Result<()> {
    set(file, libc::F_WRLCK)
}

/// Ends the lease: waiting opens proceed.
///
/// # Errors
/// There is no lease.
pub fn release(file: impl AsFd) -> io::Result<()> {
    set(file, libc::F_UNLCK)
}

fn set(file: impl AsFd, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: fcntl with a number for its argument touches no memory.
    let rc = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_SETLEASE, kind) };
    if rc != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
