//! The file size limit (`ulimit -f`). A call that exceeds it raises SIGXFSZ, which kills a program that does not expect
//! it. In calls of ours that signal is blocked and discarded, and the call fails with EFBIG.

use std::fs::File;
use std::io::{self, Write};

use rustix::process::{Resource, Rlimit};

/// Runs a call that may exceed the limit. The kernel sends the signal only to the calling thread.
pub fn without_signal<R>(call: impl FnOnce() -> R) -> R {
    let mut only: libc::sigset_t = empty_set();
    let mut before: libc::sigset_t = empty_set();
    let mut pending: libc::sigset_t = empty_set();
    // SAFETY: three sets of our own; the mask is the calling thread's.
    let waited = unsafe {
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, libc::SIGXFSZ);
        libc::sigpending(&raw mut pending);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const only, &raw mut before);
        libc::sigismember(&raw const pending, libc::SIGXFSZ) == 1
    };
    let result = call();
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the set, the timeout and the previous mask are live; a signal that was pending before the call stays
    // pending.
    unsafe {
        if !waited {
            while libc::sigtimedwait(&raw const only, std::ptr::null_mut(), &raw const now) == -1
                && *libc::__errno_location() == libc::EINTR
            {}
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
    result
}

fn empty_set() -> libc::sigset_t {
    // SAFETY: a signal set is an array of bits, so all zeroes are a valid set.
    unsafe { std::mem::zeroed() }
}

/// Sets the length of a file.
///
/// # Errors
/// The limit is lower (EFBIG), and all errors of ftruncate(2).
pub fn set_len(file: &File, len: u64) -> io::Result<()> {
    without_signal(|| file.set_len(len))
}

/// Writes all bytes, or as many as fit; returns the number written and the error that ended the call.
pub fn write(mut file: &File, bytes: &[u8]) -> (usize, Option<io::Error>) {
    without_signal(|| {
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            match file.write(rest) {
                Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (written, Some(error)),
            }
        }
        (written, None)
    })
}

/// Whether the limit allows a file of this length.
pub fn allows(len: u64) -> bool {
    rustix::process::getrlimit(Resource::Fsize).current.is_none_or(|limit| limit >= len)
}

/// Raises the limit to the maximum, for a service that creates memory files.
///
/// # Errors
/// The kernel refuses even the current limit.
pub fn lift() -> io::Result<()> {
    let limit = rustix::process::getrlimit(Resource::Fsize);
    let lift_to = |maximum| rustix::process::setrlimit(Resource::Fsize, Rlimit { current: maximum, maximum });
    if lift_to(None).is_err() {
        lift_to(limit.maximum)?;
    }
    // SAFETY: ignoring a signal installs no handler of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beyond_the_limit_is_an_error_and_no_signal() {
        // The limit applies to the whole process, and a child has its own.
        // SAFETY: the child takes no lock that another thread might hold, and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let _ = rustix::process::setrlimit(Resource::Fsize, Rlimit { current: Some(4096), maximum: Some(4096) });
            let file = crate::memory::anonymous_file("limited");
            let fails = file.is_ok_and(|file| {
                let too_long = set_len(&file, 8192).is_err() && !allows(8192) && allows(4096);
                let (written, error) = write(&file, &[7; 8192]);
                too_long && written == 4096 && error.is_some()
            });
            // SAFETY: the child exits without running destructors or exit handlers, and needs none.
            unsafe { libc::_exit(if fails { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: our own child.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0, "ended by a signal, or the limit was not kept");
    }
}
