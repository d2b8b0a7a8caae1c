//! The view's directory, from the environment.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The variable that names the directory.
const VARIABLE: &[u8] = b"WEFT_VIEW=";

/// Maximum length of the directory's path: paths below it must stay under the kernel's limit.
const BYTES_MAX: usize = 1024;

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The directory's path in the environment that the process started with, which stays where it is; null: not looked
/// for yet.
static START: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Returns the directory; empty if there is none. The first call is the loader's, before any thread starts.
pub fn directory() -> &'static [u8] {
    let mut start = START.load(Ordering::Acquire);
    if start.is_null() {
        // SAFETY: the C library keeps a null-terminated array of C strings here, or null before it is ready; the
        // strings of the process's start are never freed.
        let found = unsafe { find(environ) };
        LENGTH.store(found.len(), Ordering::Release);
        start = found.as_ptr().cast_mut();
        START.store(start, Ordering::Release);
    }
    // SAFETY: both were stored together, from a string that lives as long as the process.
    unsafe { core::slice::from_raw_parts(start, LENGTH.load(Ordering::Acquire)) }
}

/// # Safety
/// `entry` is null or starts a null-terminated array of C strings that live as long as the process.
unsafe fn find(mut entry: *const *const c_char) -> &'static [u8] {
    // SAFETY: the caller's promise.
    unsafe {
        while !entry.is_null() && !(*entry).is_null() {
            let bytes: &'static [u8] = CStr::from_ptr(*entry).to_bytes();
            if let Some(directory) = bytes.strip_prefix(VARIABLE) {
                return if is_usable(directory) { directory } else { b"" };
            }
            entry = entry.add(1);
        }
    }
    b""
}

fn is_usable(directory: &[u8]) -> bool {
    directory.starts_with(b"/") && !directory.ends_with(b"/") && directory.len() <= BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_absolute_and_short() {
        for (entry, wanted) in [
            (c"WEFT_VIEW=/run/weft/1", "/run/weft/1"),
            (c"WEFT_VIEW=run", ""),
            (c"WEFT_VIEW=/", ""),
            (c"WEFT_VIEW=", ""),
            (c"WEFT_VIEWS=/x", ""),
        ] {
            let environment = [c"A=b".as_ptr(), entry.as_ptr(), core::ptr::null()];
            // SAFETY: an array of literals.
            let found = unsafe { find(environment.as_ptr()) };
            assert_eq!(found, wanted.as_bytes(), "{entry:?}");
        }
        // SAFETY: null is allowed.
        assert!(unsafe { find(core::ptr::null()) }.is_empty());
        assert!(!is_usable(format!("/{}", "x".repeat(BYTES_MAX)).as_bytes()));
    }
}
