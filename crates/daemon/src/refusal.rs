//! Refusals: an errno for programs, a sentence for people.

pub use libc::{
    EADDRINUSE, EAGAIN, EALREADY, ECANCELED, EEXIST, EINVAL, EMFILE, ENFILE, ENODEV, ENOENT, ENOMEM, ENOSPC, ENOTUNIQ,
    EOPNOTSUPP, EPERM, ESRCH, ETOOMANYREFS,
};
use weft_ipc::Refusal;

/// Makes a refusal.
pub fn refuse(errno: i32, text: impl Into<String>) -> Refusal {
    Refusal { errno, text: text.into() }
}
