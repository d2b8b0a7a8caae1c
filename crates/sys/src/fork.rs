//! Cleanup in a forked child. A child that kept its copies of our descriptors would hold the parent's place in the
//! socket group, and its connection to the daemon, open after the parent died; so this module tracks them and closes
//! them in the child. The list is a fixed array of atomics: the child has only the thread that forked, and any lock may
//! be held for ever, so the child may only do what a signal handler may do.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// Maximum number of tracked descriptors.
pub const TRACKED_MAX: usize = 512;

static FDS: [AtomicI32; TRACKED_MAX] = [const { AtomicI32::new(-1) }; TRACKED_MAX];

/// Tracks a descriptor, so that every child closes it. If the table is full, a child keeps the descriptor until it
/// executes a program.
pub fn track(fd: impl AsFd) {
    let fd = fd.as_fd().as_raw_fd();
    let _ = FDS.iter().find(|place| place.compare_exchange(-1, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok());
}

/// Stops tracking a descriptor, before its owner closes it.
pub fn forget(fd: impl AsFd) {
    let fd = fd.as_fd().as_raw_fd();
    let _ = FDS.iter().find(|place| place.compare_exchange(fd, -1, Ordering::Relaxed, Ordering::Relaxed).is_ok());
}

static HANDLER: OnceLock<fn()> = OnceLock::new();

/// Closes the tracked descriptors and calls `handler` in every future child, before fork returns there. The handler may
/// only do what a signal handler may do, and the owner of a tracked descriptor must neither use nor drop it in the
/// child. There is one handler for each process; a second call changes nothing.
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
            // SAFETY: the owner of a tracked descriptor leaves it alone in a child, so closing it here is sound.
            unsafe { libc::close(fd) };
        }
    }
    if let Some(handler) = HANDLER.get() {
        handler();
    }
}
