//! poll(2) on one descriptor.

use libc::c_int;

use crate::errors::errno;

/// Returns the ready events of a descriptor, none on timeout; an errno value if poll(2) fails.
pub(crate) fn poll(fd: c_int, events: i16, timeout_ms: c_int) -> Result<i16, c_int> {
    let mut poll = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: `poll` points to one structure, as stated.
    match unsafe { libc::poll(&raw mut poll, 1, timeout_ms) } {
        1.. => Ok(poll.revents),
        0 => Ok(0),
        _ => Err(errno()),
    }
}
