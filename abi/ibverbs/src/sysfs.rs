//! Files of /sys that programs read through this library.

use libc::{c_char, c_int};
use std::ffi::{CStr, OsStr};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::errors::fail_minus_one;

/// Returns the mount point of sysfs.
pub extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

/// Reads `dir/file` into `buf` and returns the number of bytes read. A newline at the end becomes the terminating zero;
/// text that fills the buffer is not terminated.
pub unsafe extern "C" fn ibv_read_sysfs_file(
    dir: *const c_char,
    file: *const c_char,
    buf: *mut c_char,
    size: usize,
) -> c_int {
    if dir.is_null() || file.is_null() || buf.is_null() {
        return fail_minus_one(libc::EINVAL);
    }
    // SAFETY: the caller passes two C strings and a buffer of `size` bytes, which no other code uses during the call;
    // it is zeroed before it becomes a slice.
    let (dir, file, out) = unsafe {
        buf.write_bytes(0, size);
        (CStr::from_ptr(dir), CStr::from_ptr(file), std::slice::from_raw_parts_mut(buf.cast::<u8>(), size))
    };
    let path = Path::new(OsStr::from_bytes(dir.to_bytes())).join(OsStr::from_bytes(file.to_bytes()));
    let read = std::fs::File::open(path).and_then(|mut f| f.read(out));
    match read {
        Err(e) => fail_minus_one(e.raw_os_error().unwrap_or(libc::EIO)),
        Ok(mut n) => {
            if n > 0 && out[n - 1] == b'\n' {
                n -= 1;
                out[n] = 0;
            }
            n as c_int
        }
    }
}
