//! One wrapped call: the decision, and the call with the path that it yields.

use core::ffi::{CStr, c_char, c_int, c_void};

use crate::decide::{self, Decision};
use crate::kernel::{self, Kernel};
use crate::text::Text;
use crate::view;

pub const ENOSYS: c_int = 38;

/// The result of a call that failed.
pub trait Failed {
    const FAILED: Self;
}

impl Failed for c_int {
    const FAILED: c_int = -1;
}

impl Failed for isize {
    const FAILED: isize = -1;
}

impl<T> Failed for *mut T {
    const FAILED: *mut T = core::ptr::null_mut();
}

/// Fails with an errno.
pub fn fail<R: Failed>(errno: c_int) -> R {
    kernel::set_errno(errno);
    R::FAILED
}

/// Makes `call` with the path that the program means by `path`, relative to `directory`.
///
/// # Safety
/// `path` is null or a C string.
#[inline]
pub unsafe fn with<R: Failed>(directory: c_int, path: *const c_char, call: impl FnOnce(*const c_char) -> R) -> R {
    if path.is_null() || view::directory().is_empty() {
        return call(path);
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    if decide::may_concern(bytes) { decided(directory, path, bytes, call) } else { call(path) }
}

/// Kept apart, so that the path's room is on the stack of few calls.
#[inline(never)]
fn decided<R: Failed>(directory: c_int, path: *const c_char, bytes: &[u8], call: impl FnOnce(*const c_char) -> R) -> R {
    let mut out = Text::new();
    match decide::decide(bytes, &Kernel { directory }, &mut out) {
        Decision::Keep => call(path),
        Decision::Replace => call(out.as_c()),
        Decision::Fail(errno) => fail(errno),
    }
}

/// Removes the view's directory from the front of a path that a call reported.
///
/// # Safety
/// `path` is null or a C string that may be written to.
pub unsafe fn restore(path: *mut c_char) -> *mut c_char {
    if path.is_null() || view::directory().is_empty() {
        return path;
    }
    // SAFETY: the caller's promise; the text and its zero move within the string.
    unsafe {
        let length = CStr::from_ptr(path).count_bytes();
        let kept = restore_bytes(path, length);
        path.add(kept).write(0);
    }
    path
}

/// As [`restore`], for bytes without a zero. Returns how many are left.
///
/// # Safety
/// `start` points to `length` bytes that may be written to.
pub unsafe fn restore_bytes(start: *mut c_char, length: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        let surplus = decide::surplus(core::slice::from_raw_parts(start.cast::<u8>(), length), view::directory());
        if surplus > 0 {
            core::ptr::copy(start.add(surplus), start, length - surplus);
        }
        length - surplus
    }
}

/// An address as the function that it is.
///
/// # Safety
/// `F` is the type of the function at this address, which is not null.
pub unsafe fn function<F: Copy>(address: *mut c_void) -> F {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the caller's promise; the sizes agree.
    unsafe { core::mem::transmute_copy(&address) }
}
