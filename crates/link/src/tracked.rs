//! The descriptors that a forked child must close: a child that kept its copies would hold the parent's place in the
//! socket group and its connection to the daemon open after the parent died. The list is a fixed array of atomics, so
//! that the handler that runs in the child, where any lock may be held for ever, can read it.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// Descriptors that are remembered; more are made only by going past the bound of the socket pool.
pub const TRACKED_MAX: usize = 512;

static FDS: [AtomicI32; TRACKED_MAX] = [const { AtomicI32::new(-1) }; TRACKED_MAX];

/// Remember a descriptor. If there is no room it is not remembered: a child then keeps it until it runs a program.
pub fn track(fd: impl AsFd) {
    let fd = fd.as_fd().as_raw_fd();
    for place in &FDS {
        if place.compare_exchange(-1, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// Forget a descriptor that is about to be closed.
pub fn forget(fd: impl AsFd) {
    let fd = fd.as_fd().as_raw_fd();
    for place in &FDS {
        if place.compare_exchange(fd, -1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// Take all that are remembered: the child closes them.
pub fn take_all(mut each: impl FnMut(i32)) {
    for place in &FDS {
        let fd = place.swap(-1, Ordering::Relaxed);
        if fd >= 0 {
            each(fd);
        }
    }
}
