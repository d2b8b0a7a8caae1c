//! The decision at each step of the loader's search.

use core::ffi::{CStr, c_uint};

use crate::names;

/// The search begins, with the name as the program or a dependency wrote it (`LA_SER_ORIG`).
const BEGINS: c_uint = 0x01;

/// The loader tries a file in a default directory, after all others (`LA_SER_DEFAULT`).
const IN_DEFAULT_DIRECTORY: c_uint = 0x40;

/// Returns the file name of Weft's library if it is to take the place of `path`.
///
/// A path with a slash is all that the loader searches, so it is answered when the search begins. A bare name is
/// answered when the loader tries the first file that exists. None exists if the program relies on having loaded a
/// copy of that name before (ours has another SONAME): then the default directory answers.
pub fn redirect(path: &CStr, step: c_uint, exists: &dyn Fn(&CStr) -> bool) -> Option<&'static [u8]> {
    let bytes = path.to_bytes();
    let library = names::library(names::file_name(bytes))?;
    let is_bare = !bytes.contains(&b'/');
    let is_answered = match step {
        BEGINS if is_bare => false,
        IN_DEFAULT_DIRECTORY => true,
        _ => exists(path),
    };
    is_answered.then_some(library)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY_RUNPATH: c_uint = 0x04;

    #[test]
    fn files_that_exist_and_the_last_resort_are_answered() {
        for (path, step, exists, answered) in [
            (c"libibverbs.so.1", BEGINS, true, false),
            (c"/x/libibverbs-12.so.1", BEGINS, true, true),
            (c"/x/libibverbs-12.so.1", BEGINS, false, false),
            (c"/x/glibc-hwcaps/x86-64-v3/libibverbs.so.1", BY_RUNPATH, false, false),
            (c"/x/libibverbs.so.1", BY_RUNPATH, true, true),
            (c"/lib/libibverbs-12.so.1", IN_DEFAULT_DIRECTORY, false, true),
            (c"/x/libm.so.6", BY_RUNPATH, true, false),
        ] {
            let found = redirect(path, step, &|_| exists);
            assert_eq!(found.is_some(), answered, "{path:?} at step {step}");
        }
    }
}
