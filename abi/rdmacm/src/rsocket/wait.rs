//! Waiting until an rsocket reaches the state that a call needs: poll for completions for a moment, then sleep until
//! one arrives.

use libc::{c_int, pollfd};
use parking_lot::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::settings;
use super::wake::{Waker, Wakers};

/// An object that advances when completions are taken.
pub(crate) trait Progress {
    /// Takes completions, and responds to them.
    fn progress(&mut self);

    /// Arms the queue: the next completion makes a descriptor of [`Progress::watch`] readable.
    fn arm(&mut self);

    /// Takes the events that made the descriptors readable, and wakes all threads: another may be about to sleep on
    /// them.
    fn drain(&mut self);

    /// Adds the descriptors that a sleeping thread watches.
    fn watch(&self, fds: &mut Vec<pollfd>);

    /// Returns the threads to wake when something changes.
    fn wakers(&mut self) -> &mut Wakers;
}

/// Waits until `ready` returns a result; EAGAIN instead of a sleep if `nonblocking`, EINTR if a signal arrived.
pub(crate) fn until<'a, P: Progress, T>(
    core: &'a Mutex<P>,
    nonblocking: bool,
    mut ready: impl FnMut(&mut P) -> Option<T>,
) -> Result<(MutexGuard<'a, P>, T), c_int> {
    let mut look = |core: &mut P| {
        core.progress();
        ready(core)
    };
    let polling = Duration::from_micros(settings().polling_time_us.into());
    let started = Instant::now();
    loop {
        let mut guard = core.lock();
        if let Some(answer) = look(&mut guard) {
            return Ok((guard, answer));
        }
        if nonblocking {
            return Err(libc::EAGAIN);
        }
        MutexGuard::unlock_fair(guard);
        if started.elapsed() >= polling {
            break;
        }
    }
    let waker = Waker::of_thread()?;
    loop {
        let mut guard = core.lock();
        guard.arm();
        // Completions from before the arming make nothing readable.
        if let Some(answer) = look(&mut guard) {
            return Ok((guard, answer));
        }
        let mut fds = vec![readable(waker.fd())];
        guard.watch(&mut fds);
        guard.wakers().register(&waker);
        drop(guard);
        let slept = sleep(&mut fds, None);
        waker.clear_if_woken(&fds);
        let mut guard = core.lock();
        guard.wakers().unregister(&waker);
        if fds.iter().skip(1).any(|fd| fd.revents != 0) {
            guard.drain();
        }
        slept?;
    }
}

/// Returns a poll entry that waits for `fd` to be readable.
pub(crate) fn readable(fd: c_int) -> pollfd {
    pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// poll(2), directly to the kernel: a preloaded library that turns the program's own poll into rpoll must not intercept
/// this one. Returns the number of ready entries.
pub(crate) fn sleep(fds: &mut [pollfd], limit: Option<Duration>) -> Result<usize, c_int> {
    let limit = limit
        .map(|limit| libc::timespec { tv_sec: limit.as_secs() as libc::time_t, tv_nsec: limit.subsec_nanos().into() });
    let limit_at = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: as many entries as stated, a limit that lives through the call or null, no signal mask.
    let ready = unsafe {
        libc::syscall(libc::SYS_ppoll, fds.as_mut_ptr(), fds.len(), limit_at, std::ptr::null::<libc::sigset_t>(), 0)
    };
    usize::try_from(ready).map_err(|_| crate::errors::errno())
}
