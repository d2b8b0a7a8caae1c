//! Copies by the kernel between this process's memory and a peer's. The kernel names processes by pid, and a pid may
//! belong to another process by now, or its memory to another program. So the peer's identity is checked before the
//! first copy and now and then after that, by reading words that only the intended process has.

use std::io;
use std::time::{Duration, Instant};

use weft_sys::vm::{self, Piece};
use weft_transport::frame::HostRange;

use super::copy::is_null;
use super::key_directory_view::Identity;

/// How long a recognised peer counts as the same.
const BELIEF: Duration = Duration::from_millis(10);
/// Maximum number of ranges in one call.
const RANGES_MAX: usize = 64;

/// Direction of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// From this process to the peer.
    There,
    /// From the peer to this process.
    Here,
}

/// Access to a peer's memory through the kernel.
#[derive(Debug)]
pub(super) struct Kernel {
    pid: i32,
    identity: Identity,
    recognised: Option<Instant>,
    forbidden: bool,
}

impl Kernel {
    /// Makes the access to the process with this pid, if it has this identity.
    pub fn new(pid: i32, identity: Identity) -> Kernel {
        Kernel { pid, identity, recognised: None, forbidden: false }
    }

    /// Whether copies may still succeed.
    #[inline]
    pub fn is_possible(&self) -> bool {
        !self.forbidden
    }

    /// Whether the process still has its identity; a failed check counts as yes.
    pub fn is_there(&self) -> bool {
        self.recognised.is_none() || !matches!(self.recognise(), Ok(false))
    }

    /// Copies all ranges of this process to or from one range of the peer's, whose bounds were checked. `false`: an
    /// unknown part was copied.
    pub fn copy(&mut self, way: Way, ours: &[HostRange], mut theirs: u64) -> bool {
        if self.forbidden || !self.look() {
            return false;
        }
        for ranges in ours.chunks(RANGES_MAX) {
            let mut pieces = [Piece { addr: 0, len: 0 }; RANGES_MAX];
            let mut sum = 0;
            for (piece, range) in pieces.iter_mut().zip(ranges) {
                if is_null(*range) {
                    return false;
                }
                *piece = Piece { addr: range.addr as usize, len: range.len as usize };
                sum += range.len;
            }
            let (ours, there) = (&pieces[..ranges.len()], [Piece { addr: theirs as usize, len: sum as usize }]);
            // SAFETY: the ranges are this process's registered memory that the adapter checked, or the transport's own
            // bytes; the kernel refuses addresses that are not mapped.
            let copied = unsafe {
                match way {
                    Way::There => vm::write(self.pid, ours, &there),
                    Way::Here => vm::read(self.pid, ours, &there),
                }
            };
            match copied {
                Ok(count) if count as u64 == sum => theirs = theirs.wrapping_add(sum),
                Ok(_) => return false,
                Err(error) => {
                    self.on_error(&error);
                    return false;
                }
            }
        }
        true
    }

    /// Whether the process was recognised lately, or is now.
    #[inline]
    fn look(&mut self) -> bool {
        let now = Instant::now();
        if self.recognised.is_some_and(|at| now.duration_since(at) < BELIEF) {
            return true;
        }
        match self.recognise() {
            Ok(true) => self.recognised = Some(now),
            Ok(false) => self.forbidden = true,
            Err(error) => {
                self.on_error(&error);
                return false;
            }
        }
        !self.forbidden
    }

    fn recognise(&self) -> io::Result<bool> {
        let mut found = [0; 16];
        match vm::peek(self.pid, self.identity.address, &mut found) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::FAULT.raw_os_error()) => return Ok(false),
            Err(error) => return Err(error),
        }
        let [low, high] = self.identity.secret;
        Ok(found[..8] == low.to_ne_bytes() && found[8..] == high.to_ne_bytes())
    }

    /// Records an error: unmapped memory fails only this copy; any other error is permanent.
    fn on_error(&mut self, error: &io::Error) {
        let passes = [rustix::io::Errno::FAULT, rustix::io::Errno::NOMEM, rustix::io::Errno::INTR];
        self.forbidden |= !passes.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
    }
}
