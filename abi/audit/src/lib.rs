//! LD_AUDIT library (rtld-audit(7)) that gives a program Weft's RDMA libraries wherever its loader looks for them:
//! copies by RPATH or RUNPATH, absolute paths, and the hashed names that wheels bundle
//! (`libibverbs-1a2b3c4d.so.1.14.39`). It needs no namespace.
//!
//! The loader keeps the names under which it knows an object, and aborts if one that a dependent names is missing. So
//! a search for a bare name is answered only when the loader tries a file: it then opens ours, finds by device and
//! inode that it may be loaded already, and records the name itself. Hence one copy of a library serves all its names.
//!
//! The library defines no callbacks for calls or bindings: those would slow every call of the program down. It uses no
//! C library, because the loader would load a second one for it.

#![cfg_attr(not(test), no_std)]
// In the tests nothing calls the exports.
#![cfg_attr(test, allow(dead_code))]

mod directory;
mod kernel;
#[cfg(not(test))]
mod memory;
mod names;
mod search;

use core::ffi::{CStr, c_char, c_int, c_uint};

use directory::Directory;

/// Directory of Weft's libraries. Written once, by the initialiser, before any search.
static mut DIRECTORY: Directory = Directory::NONE;

/// Runs when the loader loads this library, and learns the directory of Weft's libraries from LD_AUDIT itself.
extern "C" fn initialise(_argc: c_int, _argv: *const *const c_char, envp: *const *const c_char) {
    // SAFETY: glibc passes the environment, a null-terminated array of C strings, and has one thread here.
    unsafe {
        let mut entry = envp;
        while !entry.is_null() && !(*entry).is_null() {
            let bytes = CStr::from_ptr(*entry).to_bytes();
            if let Some(list) = bytes.strip_prefix(b"LD_AUDIT=") {
                let directory = &raw mut DIRECTORY;
                (*directory).learn(list);
            }
            entry = entry.add(1);
        }
    }
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static INITIALISE: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = initialise;

/// Accepts the loader's version of the interface; the calls defined here are the same in all versions.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn la_version(version: c_uint) -> c_uint {
    version
}

/// Answers a step of the loader's search: with the file that the loader named, or with Weft's.
///
/// # Safety
/// `name` is a C string. The loader holds its lock during the call.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn la_objsearch(name: *const c_char, _cookie: *mut usize, step: c_uint) -> *const c_char {
    // SAFETY: the loader passes a C string.
    let path = unsafe { CStr::from_ptr(name) };
    let Some(library) = search::redirect(path, step, &kernel::exists) else { return name };
    // SAFETY: the loader searches under its lock, so no other thread uses the directory meanwhile.
    let ours = unsafe {
        let directory = &raw mut DIRECTORY;
        (*directory).file(library)
    };
    match ours {
        Some(ours) if kernel::exists(ours) => ours.as_ptr(),
        _ => name,
    }
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    kernel::abort()
}
