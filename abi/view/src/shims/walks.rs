//! Calls that walk directories. The C library opens directories for them by itself, past the wrappers.

use core::ffi::{CStr, c_char, c_int, c_void};

use super::define::shims;
use super::files;
use crate::next::Next;
use crate::{decide, redirect, view};

type Callback = *const c_void;

shims! {
    scandir [] () [list: *mut c_void, filter: Callback, order: Callback] -> c_int;
    scandir64 [] () [list: *mut c_void, filter: Callback, order: Callback] -> c_int;
    scandirat [] (dir) [list: *mut c_void, filter: Callback, order: Callback] -> c_int;
    scandirat64 [] (dir) [list: *mut c_void, filter: Callback, order: Callback] -> c_int;
    // These report the view's own paths, which open as well.
    ftw [] () [visit: Callback, depth: c_int] -> c_int;
    ftw64 [] () [visit: Callback, depth: c_int] -> c_int;
    nftw [] () [visit: Callback, depth: c_int, flags: c_int] -> c_int;
    nftw64 [] () [visit: Callback, depth: c_int, flags: c_int] -> c_int;
}

/// The part of `glob_t` that callers fill in: how to read directories. They are used only if GLOB_ALTDIRFUNC is set.
#[repr(C)]
struct Glob {
    found: [usize; 3],
    flags: c_int,
    closedir: unsafe extern "C" fn(*mut c_void) -> c_int,
    readdir: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    opendir: unsafe extern "C" fn(*const c_char) -> *mut c_void,
    lstat: unsafe extern "C" fn(*const c_char, *mut c_void) -> c_int,
    stat: unsafe extern "C" fn(*const c_char, *mut c_void) -> c_int,
}

/// The caller brings functions of its own to read directories.
const GLOB_ALTDIRFUNC: c_int = 1 << 9;

unsafe extern "C" {
    fn readdir(dir: *mut c_void) -> *mut c_void;
    fn closedir(dir: *mut c_void) -> c_int;
}

/// Lets the C library read directories through the wrappers.
///
/// # Safety
/// As glob(3); `next` is it, or glob64.
unsafe fn glob_with(next: &Next, pattern: *const c_char, flags: c_int, failed: Callback, found: *mut Glob) -> c_int {
    type Call = unsafe extern "C" fn(*const c_char, c_int, Callback, *mut Glob) -> c_int;
    let next = next.address();
    if next.is_null() {
        return GLOB_ABORTED;
    }
    // SAFETY: the next definition has this type; the caller passes a pattern and room for the result, whose functions
    // it does not use without the flag.
    unsafe {
        let next = redirect::function::<Call>(next);
        let is_ours = flags & GLOB_ALTDIRFUNC == 0
            && !view::directory().is_empty()
            && decide::may_match(CStr::from_ptr(pattern).to_bytes());
        if !is_ours {
            return next(pattern, flags, failed, found);
        }
        (*found).closedir = closedir;
        (*found).readdir = readdir;
        (*found).opendir = files::opendir;
        (*found).lstat = files::lstat;
        (*found).stat = files::stat;
        next(pattern, flags | GLOB_ALTDIRFUNC, failed, found)
    }
}

const GLOB_ABORTED: c_int = 2;

static GLOB: Next = Next::new(c"glob");
static GLOB64: Next = Next::new(c"glob64");

#[unsafe(no_mangle)]
unsafe extern "C" fn glob(pattern: *const c_char, flags: c_int, failed: Callback, found: *mut Glob) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { glob_with(&GLOB, pattern, flags, failed, found) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn glob64(pattern: *const c_char, flags: c_int, failed: Callback, found: *mut Glob) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { glob_with(&GLOB64, pattern, flags, failed, found) }
}
