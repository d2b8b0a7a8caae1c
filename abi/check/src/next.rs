//! The next definition of a wrapped call: that of libibverbs or the C library.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Finds a call once.
pub struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    /// The call of this name.
    pub const fn new(name: &'static CStr) -> Next {
        Next { name, found: AtomicPtr::new(null_mut()) }
    }

    /// Its address, if it was found before; null otherwise.
    pub fn known(&self) -> *mut c_void {
        self.found.load(Ordering::Relaxed)
    }

    /// Its address; null if no library has it.
    pub fn address(&self) -> *mut c_void {
        let known = self.known();
        if !known.is_null() {
            return known;
        }
        // SAFETY: a C string; the loader returns the next definition after this library's.
        let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if found.is_null() {
            found = self.in_verbs();
        }
        self.found.store(found, Ordering::Relaxed);
        found
    }

    /// Looks in a libibverbs that a plug-in of the program has loaded for itself.
    fn in_verbs(&self) -> *mut c_void {
        // SAFETY: C strings; the library stays loaded, and loading it again returns the same.
        unsafe {
            let library = libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if library.is_null() { null_mut() } else { libc::dlsym(library, self.name.as_ptr()) }
        }
    }
}

/// The next definition of the call `$name` as an `Option` of the function type `$type`.
macro_rules! next {
    ($name:ident: $type:ty) => {{
        static NEXT: $crate::next::Next = $crate::next::Next::new(
            match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name without zeros"),
            },
        );
        // SAFETY: the symbol has this type in every library that defines it; null is `None`.
        #[allow(unused_unsafe, reason = "some callers are unsafe blocks")]
        let next = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Option<$type>>(NEXT.address()) };
        next
    }};
}
pub(crate) use next;
