//! The next definition of a wrapped call: the C library's, or that of another preloaded library.

use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The objects after this library.
const RTLD_NEXT: *mut c_void = core::ptr::without_provenance_mut(usize::MAX);

/// A call's next definition. dlsym takes the loader's lock, so it is looked up when this library is initialised.
pub struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    /// The definition of this name.
    pub const fn new(name: &'static CStr) -> Next {
        Next { name, found: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Returns its address; null if the C library has no such call.
    pub fn address(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if !found.is_null() {
            return found;
        }
        // SAFETY: a C string. Another library's initialiser may run before ours.
        let found = unsafe { dlsym(RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}
