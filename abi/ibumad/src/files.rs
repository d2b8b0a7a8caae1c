//! Reading the small files of sysfs, one value each.

use libc::{EINVAL, ENOENT, c_int};
use std::ffi::{CStr, CString};

use crate::errors::errno;

/// Maximum length of a file that is read here; the rest is ignored.
const FILE_BYTES_MAX: usize = 256;

/// Returns the text of a file up to its last newline.
pub(crate) fn text(path: &str) -> Result<Vec<u8>, c_int> {
    let path = CString::new(path).map_err(|_| ENOENT)?;
    let mut buffer = [0u8; FILE_BYTES_MAX];
    // SAFETY: the path is a C string; the descriptor is closed below and nowhere else; the buffer has the stated
    // length.
    let length = unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return Err(errno());
        }
        let length = libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len());
        let failure = errno();
        libc::close(fd);
        usize::try_from(length).map_err(|_| failure)?
    };
    let text = buffer.get(..length).unwrap_or_default();
    let end = text.iter().rposition(|b| *b == b'\n').unwrap_or(length);
    Ok(text[..end].to_vec())
}

/// Returns the number at the start of a file: hexadecimal after `0x`, octal after `0`, else decimal; 0 if there is
/// none.
pub(crate) fn number(path: &str) -> Result<u32, c_int> {
    Ok(leading_number(&text(path)?))
}

fn leading_number(text: &[u8]) -> u32 {
    let text = text.trim_ascii_start();
    let (radix, digits) = match text {
        [b'0', b'x' | b'X', digits @ ..] => (16, digits),
        [b'0', digits @ ..] => (8, digits),
        digits => (10, digits),
    };
    let values = digits.iter().map_while(|b| char::from(*b).to_digit(radix));
    values.fold(0u32, |sum, digit| sum.wrapping_mul(radix).wrapping_add(digit))
}

/// Returns hexadecimal groups of 16 bits separated by colons, the format of GUIDs (4) and GIDs (8).
pub(crate) fn groups<const N: usize>(path: &str) -> Result<[u16; N], c_int> {
    parse_groups(&text(path)?).ok_or(EINVAL)
}

fn parse_groups<const N: usize>(text: &[u8]) -> Option<[u16; N]> {
    let mut groups = [0; N];
    let mut words = text.split(|b| matches!(b, b':' | b' ' | b'\t'));
    for group in &mut groups {
        let word = std::str::from_utf8(words.next()?).ok()?;
        *group = u16::from_str_radix(word, 16).ok()?;
    }
    Some(groups)
}

/// Returns a GUID.
pub(crate) fn guid(path: &str) -> Result<u64, c_int> {
    Ok(join(&groups::<4>(path)?))
}

/// Joins groups into one number.
pub(crate) fn join(groups: &[u16]) -> u64 {
    groups.iter().fold(0, |sum, group| sum << 16 | u64::from(*group))
}

/// Returns the entries of a directory, except itself and its parent, in the system's order.
pub(crate) fn entries(path: &str) -> Result<Vec<Vec<u8>>, c_int> {
    let path = CString::new(path).map_err(|_| ENOENT)?;
    let mut names = Vec::new();
    // SAFETY: the path is a C string; an entry is used before the next is read; the directory is closed once.
    unsafe {
        let dir = libc::opendir(path.as_ptr());
        if dir.is_null() {
            return Err(errno());
        }
        while let Some(entry) = libc::readdir(dir).as_ref() {
            let name = CStr::from_ptr(entry.d_name.as_ptr()).to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        libc::closedir(dir);
    }
    Ok(names)
}
