//! Signals wait while pages change places: a handler that touched them would wait for the very thread that it runs on.

use std::mem::MaybeUninit;

/// While this lives, no signal from elsewhere is delivered to this thread.
#[derive(Debug)]
pub(super) struct Blocked(Option<libc::sigset_t>);

impl Blocked {
    pub(super) fn new() -> Blocked {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: both sets are valid for writing; sigfillset makes `all` a set before it is read, pthread_sigmask
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
            // SAFETY: the set that the thread had before.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
        }
    }
}
