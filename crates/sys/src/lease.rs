//! Leases on files (fcntl(2), F_SETLEASE): whoever opens a leased file waits until its holder has put in order what is to
//! be read, which the holder learns by a signal. A file that nobody opens costs nobody anything.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// What becomes readable when somebody waits for a leased file of this process. The signal that the kernel sends is
/// blocked for it in the calling thread, which is to be the only one.
///
/// # Errors
/// There is no descriptor left.
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

/// Take what [`waiting`] told.
pub fn take(waiting: impl AsFd) {
    let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
    while rustix::io::read(&waiting, &mut info).is_ok_and(|len| len > 0) {}
}

/// Lease a file that this process alone has open, and owns. `WouldBlock`: somebody else has it open.
///
/// # Errors
/// As above; the file system knows no leases, or the machine forbids them.
pub fn lease(file: impl AsFd) -> io::Result<()> {
    set(file, libc::F_WRLCK)
}

/// End the lease: who waits goes on.
///
/// # Errors
/// There is none.
pub fn release(file: impl AsFd) -> io::Result<()> {
    set(file, libc::F_UNLCK)
}

fn set(file: impl AsFd, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: fcntl with a number for its argument touches no memory.
    let rc = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_SETLEASE, kind) };
    if rc != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
