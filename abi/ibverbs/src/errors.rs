//! Conversion of errors to C. Calls report them in three ways: an errno value, -1 with errno, or null with errno.

use libc::c_int;
use weft_verbs::VerbsError;

/// Sets this thread's errno.
pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = errno };
}

/// Returns this thread's errno.
pub(crate) fn errno() -> c_int {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() }
}

/// Sets errno and returns it, for calls that return an errno value.
pub(crate) fn fail(errno: c_int) -> c_int {
    set_errno(errno);
    errno
}

/// Sets errno and returns -1.
pub(crate) fn fail_minus_one(errno: c_int) -> c_int {
    set_errno(errno);
    -1
}

/// Sets errno and returns null.
pub(crate) fn fail_null<T>(errno: c_int) -> *mut T {
    set_errno(errno);
    std::ptr::null_mut()
}

/// Returns 0, or the errno value of an error.
pub(crate) fn code(result: Result<(), c_int>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(e) => fail(e),
    }
}

/// Returns a pointer, or null with errno.
pub(crate) fn pointer<T>(result: Result<*mut T, c_int>) -> *mut T {
    result.unwrap_or_else(fail_null)
}

/// Returns the errno value of an adapter's error.
pub(crate) fn of_verbs(error: VerbsError) -> c_int {
    error.errno()
}
