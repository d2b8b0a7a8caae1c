//! Questions to the kernel, by system calls that no other preloaded library changes. They leave errno as it was.

use core::ffi::{c_char, c_int, c_long};

use crate::decide::Surroundings;
use crate::text::Text;
use crate::view;

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn __errno_location() -> *mut c_int;
    #[cfg(not(test))]
    fn _exit(status: c_int) -> !;
}

#[cfg(target_arch = "x86_64")]
mod number {
    pub const OPENAT: i64 = 257;
    pub const READLINKAT: i64 = 267;
    pub const CLOSE: i64 = 3;
}
#[cfg(target_arch = "aarch64")]
mod number {
    pub const OPENAT: i64 = 56;
    pub const READLINKAT: i64 = 78;
    pub const CLOSE: i64 = 57;
}

/// Relative paths start at the working directory.
pub const AT_FDCWD: c_int = -100;

const O_PATH: c_int = 0o10_000_000;
const O_CLOEXEC: c_int = 0o2_000_000;
#[cfg(target_arch = "x86_64")]
const O_DIRECTORY: c_int = 0o200_000;
#[cfg(target_arch = "x86_64")]
const O_NOFOLLOW: c_int = 0o400_000;
#[cfg(target_arch = "aarch64")]
const O_DIRECTORY: c_int = 0o40_000;
#[cfg(target_arch = "aarch64")]
const O_NOFOLLOW: c_int = 0o100_000;

const ENOENT: c_int = 2;

/// Reads errno.
pub fn errno() -> c_int {
    // SAFETY: the C library's own place for this thread.
    unsafe { *__errno_location() }
}

/// Sets errno.
pub fn set_errno(errno: c_int) {
    // SAFETY: as above.
    unsafe { *__errno_location() = errno };
}

/// Ends the process. Unreachable: the code has no panic, but the compiler cannot tell.
#[cfg(not(test))]
pub fn abort() -> ! {
    // SAFETY: takes a number and does not return.
    unsafe { _exit(127) }
}

/// The kernel's answers about a call relative to a directory.
pub struct Kernel {
    /// The directory's descriptor, or [`AT_FDCWD`].
    pub directory: c_int,
}

impl Surroundings for Kernel {
    fn view(&self) -> &[u8] {
        view::directory()
    }

    fn base(&self, into: &mut Text) -> bool {
        let mut link = Text::<LINK_BYTES_MAX>::new();
        let named = match self.directory {
            AT_FDCWD => link.push(b"/proc/self/cwd"),
            ..0 => return false,
            number => link.push(b"/proc/self/fd/").and_then(|()| push_number(&mut link, number)),
        };
        named.is_ok() && read_link(&link, into)
    }

    fn enter(&self, path: &Text) -> Result<(), c_int> {
        let before = errno();
        let result = open_directory(path, O_NOFOLLOW).map(close);
        set_errno(before);
        result
    }

    fn follow(&self, path: &mut Text) -> Result<(), c_int> {
        let before = errno();
        let result = open_directory(path, 0).and_then(|descriptor| {
            let mut link = Text::<LINK_BYTES_MAX>::new();
            let named = link.push(b"/proc/self/fd/").and_then(|()| push_number(&mut link, descriptor));
            let is_read = named.is_ok() && read_link(&link, path);
            close(descriptor);
            if is_read { Ok(()) } else { Err(ENOENT) }
        });
        set_errno(before);
        result
    }
}

/// Opens a directory, without access to its content. Changes errno.
fn open_directory(path: &Text, flags: c_int) -> Result<c_int, c_int> {
    let flags = O_PATH | O_CLOEXEC | O_DIRECTORY | flags;
    // SAFETY: a C string.
    let descriptor = unsafe { syscall(number::OPENAT, AT_FDCWD, path.as_c(), flags, 0) };
    c_int::try_from(descriptor).ok().filter(|descriptor| *descriptor >= 0).ok_or_else(errno)
}

fn close(descriptor: c_int) {
    // SAFETY: takes a number; callers pass a descriptor of their own, once.
    unsafe { syscall(number::CLOSE, descriptor) };
}

/// Room for `/proc/self/fd/` and a number.
const LINK_BYTES_MAX: usize = 32;

fn read_link(link: &Text<LINK_BYTES_MAX>, into: &mut Text) -> bool {
    let before = errno();
    let read = |room: &mut [u8]| {
        let (start, length) = (room.as_mut_ptr().cast::<c_char>(), room.len());
        // SAFETY: a C string, and room of this length, which the kernel fills without a zero.
        let count = unsafe { syscall(number::READLINKAT, AT_FDCWD, link.as_c(), start, length) };
        usize::try_from(count).ok().filter(|count| *count < length)
    };
    let is_read = into.fill(read);
    set_errno(before);
    is_read
}

fn push_number(text: &mut Text<LINK_BYTES_MAX>, number: c_int) -> Result<(), crate::text::TooLong> {
    let mut digits = [0; 10];
    let (mut at, mut rest) = (digits.len(), number.unsigned_abs());
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        at -= 1;
        if rest == 0 {
            break;
        }
    }
    text.push(digits.get(at..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_all_their_digits() {
        for number in [0, 7, 10, 4095, c_int::MAX] {
            let mut text = Text::new();
            push_number(&mut text, number).unwrap();
            assert_eq!(text.as_bytes(), number.to_string().as_bytes());
        }
    }

    #[test]
    fn the_kernel_names_directories() {
        use std::os::fd::AsRawFd;
        let file = std::fs::File::open("/proc/self").unwrap();
        let mut found = Text::new();
        assert!(Kernel { directory: file.as_raw_fd() }.base(&mut found));
        assert_eq!(found.as_bytes(), format!("/proc/{}", std::process::id()).as_bytes());
        assert!(!Kernel { directory: -1 }.base(&mut found));
        assert!(!Kernel { directory: c_int::MAX }.base(&mut found));
        assert!(Kernel { directory: AT_FDCWD }.base(&mut found));
        let here = std::env::current_dir().unwrap();
        assert_eq!(found.as_bytes(), here.as_os_str().as_encoded_bytes());
    }

    #[test]
    fn only_plain_directories_are_entered() {
        let of = |path: &str| {
            let mut text = Text::new();
            text.push(path.as_bytes()).unwrap();
            Kernel { directory: AT_FDCWD }.enter(&text)
        };
        assert_eq!(of("/proc"), Ok(()));
        assert_eq!(of("/proc/self"), Err(20));
        assert_eq!(of("/proc/version"), Err(20));
        assert_eq!(of("/nonexistent"), Err(2));
    }

    #[test]
    fn links_are_followed_to_the_kernel_s_name() {
        let of = |path: &str| {
            let mut text = Text::new();
            text.push(path.as_bytes()).unwrap();
            let followed = Kernel { directory: AT_FDCWD }.follow(&mut text);
            followed.map(|()| String::from_utf8(text.as_bytes().to_vec()).unwrap())
        };
        assert_eq!(of("/proc/self"), Ok(format!("/proc/{}", std::process::id())));
        assert_eq!(of("/proc/self/../self/task/."), Ok(format!("/proc/{}/task", std::process::id())));
        assert_eq!(of("/proc/version"), Err(20));
        assert_eq!(of("/nonexistent"), Err(2));
    }
}
