//! What a forked child must undo. A child that kept its copies of our descriptors would hold the parent's place in the
//! socket group, and its connection to the daemon, open after the parent died; so they are remembered here and closed in
//! the child. The list is a fixed array of atomics, because the child has only the thread that forked and any lock may
//! be held for ever: nothing may be done there that a signal handler may not.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// Descriptors that are remembered at most.
pub const TRACKED_MAX: usize = 512;

static FDS: [AtomicI32; TRACKED_MAX] = [const { AtomicI32::new(-1) }; TRACKED_MAX];

/// Have a descriptor closed in every child. If there is no room it is not: a child then keeps it until it executes a
/// program.
pub fn track(fd: impl AsFd) {
    let fd = fd.as_fd().as_raw_fd();
    let _ = FDS.iter().find(|place| place.compare_exchange(-1, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok());
}

/// Forget a descriptor, before it is closed.
pub fn forget(fd: impl AsFd) {
    let fd = fd.as_fd().as_raw_fd();
    let _ = FDS.iter().find(|place| place.compare_exchange(fd, -1, Ordering::Relaxed, Ordering::Relaxed).is_ok());
}

static HANDLER: OnceLock<fn()> = OnceLock::new();

/// In every child from now on, before fork returns there, the tracked descriptors are closed and `handler` is called.
/// It may do no more than a signal handler may, and whoever owns a tracked descriptor must neither use nor drop it in
/// the child any more. One handler for each process; a second call changes nothing.
pub fn at_fork_in_child(handler: fn()) -> io::Result<()> {
    if HANDLER.set(handler).is_err() {
        return Ok(());
    }
    // SAFETY: the handler is a function of the C calling convention and lives for ever (this code is never unloaded:
    // our libraries are linked with -z nodelete); the other two are absent.
    match unsafe { libc::pthread_atfork(None, None, Some(in_child)) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

unsafe extern "C" fn in_child() {
    for place in &FDS {
        let fd = place.swap(-1, Ordering::Relaxed);
        if fd >= 0 {
            // SAFETY: whoever tracked it leaves it alone in a child, so it is ours to close.
            unsafe { libc::close(fd) };
        }
    }
    if let Some(handler) = HANDLER.get() {
        handler();
    }
}
