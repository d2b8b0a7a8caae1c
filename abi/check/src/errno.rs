//! The calling thread's error number.

use libc::c_int;

/// The number.
pub fn get() -> c_int {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() }
}

/// Sets the number.
pub fn set(number: c_int) {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() = number };
}

/// Runs `f` and leaves the number as it was: the program reads that of the library's call after the checker's work.
pub fn preserved<R>(f: impl FnOnce() -> R) -> R {
    let before = get();
    let result = f();
    set(before);
    result
}

/// The error of a verbs call that failed. Some libraries return the number, some its negative, others -1 with errno.
pub fn of_result(result: c_int) -> c_int {
    match result {
        -1 => get(),
        _ => result.saturating_abs(),
    }
}
