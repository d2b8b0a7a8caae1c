//! Errno values of refused commands, as Linux numbers them on every architecture that Weft runs on.

pub use weft_verbs::Errno;

#[allow(missing_docs)] // The names are errno.h's.
mod numbers {
    use super::Errno;
    pub const EPERM: Errno = 1;
    pub const ENOENT: Errno = 2;
    pub const EAGAIN: Errno = 11;
    pub const ENOMEM: Errno = 12;
    pub const EACCES: Errno = 13;
    pub const EBUSY: Errno = 16;
    pub const ENODEV: Errno = 19;
    pub const EINVAL: Errno = 22;
    pub const EMFILE: Errno = 24;
    pub const ENOSPC: Errno = 28;
    pub const ENOSYS: Errno = 38;
    pub const EPROTONOSUPPORT: Errno = 93;
    pub const EOPNOTSUPP: Errno = 95;
    pub const EAFNOSUPPORT: Errno = 97;
    pub const EADDRINUSE: Errno = 98;
    pub const EADDRNOTAVAIL: Errno = 99;
    pub const ENETUNREACH: Errno = 101;
    pub const ECONNRESET: Errno = 104;
    pub const ENOBUFS: Errno = 105;
    pub const EISCONN: Errno = 106;
    pub const ECONNREFUSED: Errno = 111;
    pub const ETIMEDOUT: Errno = 110;
    pub const EHOSTUNREACH: Errno = 113;
}
pub use numbers::*;
