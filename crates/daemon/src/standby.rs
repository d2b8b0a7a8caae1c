//! The standby. Processes of users whom the daemon does not trust with all sockets cannot bring the pool to a
//! successor. While such a process has a slot, a copy of the daemon sleeps with the anchor in its hands, and becomes
//! the successor when the daemon dies.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use weft_sys::unix::{self, Wait};

/// The daemon's end of the socket to its standby.
#[derive(Debug)]
pub(crate) struct Standby {
    line: OwnedFd,
}

impl Standby {
    /// Starts a standby that holds the anchor. If the daemon dies, it calls `take_over` with the anchor.
    pub(crate) fn start(anchor: BorrowedFd<'_>, take_over: impl FnOnce(OwnedFd) + 'static) -> io::Result<Standby> {
        let (line, theirs) = unix::pair()?;
        let anchor = anchor.try_clone_to_owned()?;
        weft_sys::spawn::fork_apart(vec![theirs, anchor], move |keep| {
            if let Ok([line, anchor]) = <[OwnedFd; 2]>::try_from(keep)
                && is_left_alone(line)
            {
                take_over(anchor);
            }
        })?;
        Ok(Standby { line })
    }

    /// Ends the standby.
    pub(crate) fn dismiss(self) {
        let _ = unix::send(&self.line, &[0], &[], Wait::No);
    }
}

/// Waits for the end of the daemon (true), or until it dismisses the standby (false).
fn is_left_alone(line: OwnedFd) -> bool {
    // A byte dismisses the standby; an end without one means that the daemon died.
    !matches!(unix::recv(&line, &mut [0], 0, Wait::Block), Ok(received) if received.len > 0)
}
