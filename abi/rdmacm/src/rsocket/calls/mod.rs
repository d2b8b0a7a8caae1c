//! The exported calls, by family. Each finds the rsocket of its descriptor and converts errors to errno.

pub(crate) mod data;
pub(crate) mod direct;
pub(crate) mod names;
pub(crate) mod open;
pub(crate) mod settings;

use libc::c_int;

use crate::errors::set_errno;

/// Returns a size or a descriptor, or -1 with errno.
fn sized(result: Result<usize, c_int>) -> isize {
    match result {
        Ok(size) => size as isize,
        Err(errno) => {
            set_errno(errno);
            -1
        }
    }
}
