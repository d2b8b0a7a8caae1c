//! errno: set beside what a call returns.

use libc::c_int;

/// The calling thread's errno.
pub(crate) fn errno() -> c_int {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() }
}

/// Sets it.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value };
}
