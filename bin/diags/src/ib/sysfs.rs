//! Sysfs files, read by the C library's own calls so that preloaded libraries may intercept them.

use std::ffi::CString;
use std::io;

/// Maximum bytes of a file: each is one page.
const LEN_MAX: usize = 4096;

/// The directory of InfiniBand devices.
pub const INFINIBAND: &str = "/sys/class/infiniband";

/// A file's text without its newline.
///
/// # Errors
/// The file is missing or cannot be read.
pub fn read(path: &str) -> io::Result<String> {
    let path = CString::new(path)?;
    // SAFETY: `path` is a C string.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut bytes = [0u8; LEN_MAX];
    // SAFETY: the buffer has `LEN_MAX` bytes.
    let len = unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), LEN_MAX) };
    let failed = io::Error::last_os_error();
    // SAFETY: this function owns the descriptor and closes it once.
    unsafe { libc::close(fd) };
    let len = usize::try_from(len).map_err(|_| failed)?.min(LEN_MAX);
    Ok(String::from_utf8_lossy(&bytes[..len]).trim_end_matches('\n').to_owned())
}
