//! Conversion of errors to C: -1 with errno, or null with errno.

use libc::c_int;

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

/// Sets errno and returns -1.
pub(crate) fn fail(errno: c_int) -> c_int {
    set_errno(errno);
    -1
}

/// Sets errno and returns null.
pub(crate) fn fail_null<T>(errno: c_int) -> *mut T {
    set_errno(errno);
    std::ptr::null_mut()
}

/// Returns 0, or -1 with errno.
pub(crate) fn code(result: Result<(), c_int>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => fail(errno),
    }
}

/// Converts the errno value that a verbs call returned.
pub(crate) fn verbs(errno: c_int) -> Result<(), c_int> {
    if errno == 0 { Ok(()) } else { Err(errno) }
}

/// Returns the pointer of a verbs call, or its errno if it is null.
pub(crate) fn made<T>(pointer: *mut T) -> Result<*mut T, c_int> {
    if pointer.is_null() { Err(errno()) } else { Ok(pointer) }
}
