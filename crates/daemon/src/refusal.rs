//! Refusals: an errno for programs, a sentence for people.

use weft_ipc::Refusal;

/// Not allowed.
pub const EPERM: i32 = 1;
/// Nothing there now; a limit is reached.
pub const EAGAIN: i32 = 11;
/// No room.
pub const ENOMEM: i32 = 12;
/// Not the device that was meant.
pub const ENODEV: i32 = 19;
/// Exists already.
pub const EEXIST: i32 = 17;
/// Not a value that can be.
pub const EINVAL: i32 = 22;
/// Too many open in the whole system.
pub const ENFILE: i32 = 23;
/// Too many open.
pub const EMFILE: i32 = 24;
/// Full.
pub const ENOSPC: i32 = 28;
/// Not for this kind of thing.
pub const EOPNOTSUPP: i32 = 95;
/// The port is taken.
pub const EADDRINUSE: i32 = 98;
/// Too many descriptors in flight.
pub const ETOOMANYREFS: i32 = 109;
/// Already in that state.
pub const EALREADY: i32 = 114;

/// A refusal.
pub fn refuse(errno: i32, text: impl Into<String>) -> Refusal {
    Refusal { errno, text: text.into() }
}
