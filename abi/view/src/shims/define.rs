//! Definition of wrapped calls from a list of them.
//!
//! `openat [] (dir) [flags: c_int, mode: c_uint] -> c_int` in a list makes a function of that name. Its path is
//! relative to the descriptor `dir`, an argument in front of the path, or to the working directory if there is none.
//! Other arguments before the path are in the first brackets, those after it in the last.

/// Defines wrapped calls, and `resolve`, which looks all of them up.
macro_rules! shims {
    ($($name:ident [$($before:ident: $before_type:ty),*] ($($directory:ident)?)
       [$($after:ident: $after_type:ty),*] -> $result:ty;)*) => {
        #[allow(non_upper_case_globals, reason = "the names of the calls")]
        mod next {
            $(pub static $name: crate::next::Next =
                crate::next::Next::new(match core::ffi::CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes()) { Ok(name) => name, Err(_) => c"" });)*
        }

        pub fn resolve() {
            $(next::$name.address();)*
        }

        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                $($before: $before_type,)* $($directory: core::ffi::c_int,)? path: *const core::ffi::c_char
                $(, $after: $after_type)*
            ) -> $result {
                let next = next::$name.address();
                if next.is_null() {
                    return crate::redirect::fail(crate::redirect::ENOSYS);
                }
                type Call = unsafe extern "C" fn(
                    $($before_type,)* $(shims!(@int $directory),)? *const core::ffi::c_char $(, $after_type)*
                ) -> $result;
                #[allow(unused_mut, unused_assignments, reason = "not every call names a directory")]
                let mut relative_to = crate::kernel::AT_FDCWD;
                $(relative_to = $directory;)?
                // SAFETY: the next definition has the type of the C library's call, and the caller keeps to its rules.
                unsafe {
                    let next = crate::redirect::function::<Call>(next);
                    crate::redirect::with(relative_to, path, |path| {
                        next($($before,)* $($directory,)? path $(, $after)*)
                    })
                }
            }
        )*
    };
    (@int $directory:ident) => { core::ffi::c_int };
}
pub(super) use shims;
