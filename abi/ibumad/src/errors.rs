//! errno, which accompanies a call's return value.

use libc::c_int;

/// Returns the calling thread's errno.
pub(crate) fn errno() -> c_int {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's errno.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value };
}
