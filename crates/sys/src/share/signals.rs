//! Blocks signals while pages move: a handler that touched them would wait for the very thread that it runs on.

use std::mem::MaybeUninit;

/// Blocks delivery of external signals to this thread while it lives.
#[derive(Debug)]
pub(super) struct Blocked(Option<libc::sigset_t>);

impl Blocked {
    pub(super) fn new() -> Blocked {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: both sets are valid for writing; sigfillset initialises `all` before it is read, pthread_sigmask
        // `before` if it succeeds.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            let blocked = libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0;
            Blocked(blocked.then(|| before.assume_init()))
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // SAFETY: the thread's previous signal set.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
        }
    }
}
