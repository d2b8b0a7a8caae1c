//! Calls that report paths: a path of the view is reported as the one that it stands for.

use core::ffi::{c_char, c_int};

use crate::kernel::AT_FDCWD;
use crate::redirect::{self, ENOSYS};

/// A call that writes a path without a zero, and returns its length.
macro_rules! links {
    ($($name:ident ($($directory:ident)?) [$($room:ident)?];)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(
                $($directory: c_int,)? path: *const c_char, buffer: *mut c_char, size: usize $(, $room: usize)?
            ) -> isize {
                type Call = unsafe extern "C" fn(
                    $(links!(@int $directory),)? *const c_char, *mut c_char, usize $(, links!(@size $room))?
                ) -> isize;
                let next = next::$name.address();
                if next.is_null() {
                    return redirect::fail(ENOSYS);
                }
                #[allow(unused_mut, unused_assignments, reason = "not every call names a directory")]
                let mut relative_to = AT_FDCWD;
                $(relative_to = $directory;)?
                // SAFETY: the next definition has the type of the C library's call, the caller keeps to its rules, and
                // the result counts bytes in the caller's buffer.
                unsafe {
                    let next = redirect::function::<Call>(next);
                    let length = redirect::with(relative_to, path, |path| {
                        next($($directory,)? path, buffer, size $(, $room)?)
                    });
                    match usize::try_from(length) {
                        Ok(length) => redirect::restore_bytes(buffer, length) as isize,
                        Err(_) => length,
                    }
                }
            }
        )*
    };
    (@int $directory:ident) => { c_int };
    (@size $room:ident) => { usize };
}

links! {
    readlink () [];
    readlinkat (dir) [];
    __readlink_chk () [room];
    __readlinkat_chk (dir) [room];
}

/// A call that returns a path, in the caller's room or in new memory.
macro_rules! paths {
    ($($name:ident ($($path:ident)?) [$($argument:ident: $type:ty),*];)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($path: *const c_char,)? $($argument: $type),*) -> *mut c_char {
                type Call = unsafe extern "C" fn($(paths!(@path $path),)? $($type),*) -> *mut c_char;
                let next = next::$name.address();
                if next.is_null() {
                    return redirect::fail(ENOSYS);
                }
                // SAFETY: the next definition has the type of the C library's call, the caller keeps to its rules, and
                // a returned path is the caller's to write.
                unsafe {
                    let next = redirect::function::<Call>(next);
                    redirect::restore(paths!(@call next, ($($path)?), ($($argument),*)))
                }
            }
        )*
    };
    (@path $path:ident) => { *const c_char };
    (@call $next:ident, ($path:ident), ($($argument:ident),*)) => {
        redirect::with(AT_FDCWD, $path, |path| $next(path $(, $argument)*))
    };
    (@call $next:ident, (), ($($argument:ident),*)) => { $next($($argument),*) };
}

paths! {
    realpath (path) [resolved: *mut c_char];
    __realpath_chk (path) [resolved: *mut c_char, room: usize];
    canonicalize_file_name (path) [];
    getcwd () [buffer: *mut c_char, size: usize];
    __getcwd_chk () [buffer: *mut c_char, size: usize, room: usize];
    get_current_dir_name () [];
}

#[allow(non_upper_case_globals, reason = "the names of the calls")]
mod next {
    use crate::next::Next;

    pub static readlink: Next = Next::new(c"readlink");
    pub static readlinkat: Next = Next::new(c"readlinkat");
    pub static __readlink_chk: Next = Next::new(c"__readlink_chk");
    pub static __readlinkat_chk: Next = Next::new(c"__readlinkat_chk");
    pub static realpath: Next = Next::new(c"realpath");
    pub static __realpath_chk: Next = Next::new(c"__realpath_chk");
    pub static canonicalize_file_name: Next = Next::new(c"canonicalize_file_name");
    pub static getcwd: Next = Next::new(c"getcwd");
    pub static __getcwd_chk: Next = Next::new(c"__getcwd_chk");
    pub static get_current_dir_name: Next = Next::new(c"get_current_dir_name");
}

/// Looks up the calls that are allowed in signal handlers and after fork. The others take locks of their own.
pub fn resolve() {
    for next in [&next::readlink, &next::readlinkat, &next::__readlink_chk, &next::__readlinkat_chk, &next::getcwd] {
        next.address();
    }
}
