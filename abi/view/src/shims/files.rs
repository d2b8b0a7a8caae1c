//! Calls that open a file or describe it.

use core::ffi::{c_char, c_int, c_uint, c_void};

use super::define::shims;

type File = *mut c_void;
/// `struct stat` in one of its forms: the callee knows which.
type Stat = *mut c_void;

shims! {
    // open(2) has a variable argument, `mode`; on the supported architectures it is passed like a named one, and one
    // that the caller left out is not used.
    open [] () [flags: c_int, mode: c_uint] -> c_int;
    open64 [] () [flags: c_int, mode: c_uint] -> c_int;
    openat [] (dir) [flags: c_int, mode: c_uint] -> c_int;
    openat64 [] (dir) [flags: c_int, mode: c_uint] -> c_int;
    __open [] () [flags: c_int, mode: c_uint] -> c_int;
    __open64 [] () [flags: c_int, mode: c_uint] -> c_int;
    __open_2 [] () [flags: c_int] -> c_int;
    __open64_2 [] () [flags: c_int] -> c_int;
    __openat_2 [] (dir) [flags: c_int] -> c_int;
    __openat64_2 [] (dir) [flags: c_int] -> c_int;
    fopen [] () [mode: *const c_char] -> File;
    fopen64 [] () [mode: *const c_char] -> File;
    freopen [] () [mode: *const c_char, file: File] -> File;
    freopen64 [] () [mode: *const c_char, file: File] -> File;
    opendir [] () [] -> *mut c_void;

    stat [] () [buffer: Stat] -> c_int;
    stat64 [] () [buffer: Stat] -> c_int;
    lstat [] () [buffer: Stat] -> c_int;
    lstat64 [] () [buffer: Stat] -> c_int;
    fstatat [] (dir) [buffer: Stat, flags: c_int] -> c_int;
    fstatat64 [] (dir) [buffer: Stat, flags: c_int] -> c_int;
    // Programs built before glibc 2.33.
    __xstat [version: c_int] () [buffer: Stat] -> c_int;
    __xstat64 [version: c_int] () [buffer: Stat] -> c_int;
    __lxstat [version: c_int] () [buffer: Stat] -> c_int;
    __lxstat64 [version: c_int] () [buffer: Stat] -> c_int;
    __fxstatat [version: c_int] (dir) [buffer: Stat, flags: c_int] -> c_int;
    __fxstatat64 [version: c_int] (dir) [buffer: Stat, flags: c_int] -> c_int;
    statx [] (dir) [flags: c_int, mask: c_uint, buffer: *mut c_void] -> c_int;

    access [] () [mode: c_int] -> c_int;
    faccessat [] (dir) [mode: c_int, flags: c_int] -> c_int;
    euidaccess [] () [mode: c_int] -> c_int;
    eaccess [] () [mode: c_int] -> c_int;
    // `ls -l` asks for access control lists.
    getxattr [] () [name: *const c_char, value: *mut c_void, size: usize] -> isize;
    lgetxattr [] () [name: *const c_char, value: *mut c_void, size: usize] -> isize;
    listxattr [] () [list: *mut c_char, size: usize] -> isize;
    llistxattr [] () [list: *mut c_char, size: usize] -> isize;
    inotify_add_watch [fd: c_int] () [mask: c_uint] -> c_int;
    chdir [] () [] -> c_int;
}
