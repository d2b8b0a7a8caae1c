//! Refusals: an errno for programs, a sentence for people.

use weft_ipc::Refusal;

/// Not permitted.
pub const EPERM: i32 = 1;
/// Temporarily unavailable, or a limit is reached.
pub const EAGAIN: i32 = 11;
/// Out of memory.
pub const ENOMEM: i32 = 12;
/// No such device.
pub const ENODEV: i32 = 19;
/// Exists already.
pub const EEXIST: i32 = 17;
/// Invalid value.
pub const EINVAL: i32 = 22;
/// Too many descriptors open in the whole system.
pub const ENFILE: i32 = 23;
/// Too many descriptors open.
pub const EMFILE: i32 = 24;
/// Full.
pub const ENOSPC: i32 = 28;
/// Not supported here.
pub const EOPNOTSUPP: i32 = 95;
/// The port is taken.
pub const EADDRINUSE: i32 = 98;
/// Too many descriptors in flight.
pub const ETOOMANYREFS: i32 = 109;
/// Already in that state.
pub const EALREADY: i32 = 114;

/// Makes a refusal.
pub fn refuse(errno: i32, text: impl Into<String>) -> Refusal {
    Refusal { errno, text: text.into() }
}
