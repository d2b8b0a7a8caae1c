//! Text in the C structures: arrays of a fixed size, terminated by a zero.

use libc::c_char;
use std::ffi::CStr;

/// Copies `text` into `to`, truncated if necessary, and terminates it.
pub(crate) fn put<const N: usize>(to: &mut [c_char; N], text: &[u8]) {
    *to = [0; N];
    for (to, from) in to.iter_mut().take(N - 1).zip(text) {
        *to = *from as c_char;
    }
}

/// Returns a name that a program passes; `None` for null, which means any.
///
/// # Safety
/// `name` is null or a C string that outlives the answer.
pub(crate) unsafe fn name<'a>(name: *const c_char) -> Option<&'a [u8]> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller upholds the contract.
    Some(unsafe { CStr::from_ptr(name) }.to_bytes())
}
