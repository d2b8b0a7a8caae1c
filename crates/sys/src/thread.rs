//! Threads inside programs that are not ours: they take no signals.

use std::io;

/// Starts a thread that no signal is delivered to: handlers of the program run on the program's own threads only.
pub fn spawn_without_signals(
    name: &str,
    stack_bytes: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<std::thread::JoinHandle<()>> {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are valid for writing; sigfillset makes `all` a set before pthread_sigmask reads it. A thread
    // starts with the mask of the one that made it, so the mask is changed around the start only.
    let masked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    let started = std::thread::Builder::new().name(name.to_owned()).stack_size(stack_bytes).spawn(body);
    if masked {
        // SAFETY: `before` was filled in by the call above.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    started
}

/// Lets the calling thread's sleeps end within a microsecond of their time instead of the usual fifty.
pub fn sleep_precisely() {
    const SLACK_NS: libc::c_ulong = 1000;
    // SAFETY: PR_SET_TIMERSLACK takes a number and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0) };
}
