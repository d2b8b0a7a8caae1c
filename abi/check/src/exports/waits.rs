//! Calls of the C library that wait for descriptors: programs wait for channels with them.

use libc::{c_int, epoll_event, nfds_t, pollfd, sigset_t, timespec};

use crate::call::Call;
use crate::next::next;
use crate::{state, waiting};

type Poll = unsafe extern "C" fn(*mut pollfd, nfds_t, c_int) -> c_int;
type Ppoll = unsafe extern "C" fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int;
type EpollCtl = unsafe extern "C" fn(c_int, c_int, c_int, *mut epoll_event) -> c_int;

/// Looks at a wait before the program begins it. Returns the number of descriptors that are ready at once.
///
/// # Safety
/// There are `count` descriptors at `fds`.
unsafe fn look(name: &'static str, fds: *mut pollfd, count: nfds_t, limit_ms: c_int) -> Option<c_int> {
    if limit_ms == 0 || !state::has_stash() || fds.is_null() {
        return None;
    }
    let call = Call::enter_unnoted(name)?;
    // SAFETY: the caller's promise.
    let list = unsafe { std::slice::from_raw_parts_mut(fds, usize::try_from(count).ok()?) };
    if waiting::undrained_among(&call, list).is_empty() {
        return None;
    }
    let poll = next!(poll: Poll)?;
    // SAFETY: the caller's promise.
    let ready = unsafe { poll(fds, count, waiting::grace_ms(limit_ms)) };
    if ready != 0 {
        return Some(ready);
    }
    let found = waiting::undrained_among(&call, list);
    waiting::promise(&call, &found);
    let mut count = 0;
    for fd in list.iter_mut().filter(|fd| found.iter().any(|(channel, _)| *channel == fd.fd)) {
        fd.revents = fd.events & libc::POLLIN;
        count += usize::from(fd.revents != 0);
    }
    (count > 0).then(|| c_int::try_from(count).unwrap_or(c_int::MAX))
}

/// poll(2).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poll(fds: *mut pollfd, count: nfds_t, limit_ms: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match (look("poll", fds, count, limit_ms), next!(poll: Poll)) {
            (Some(ready), _) => ready,
            (None, Some(next)) => next(fds, count, limit_ms),
            (None, None) => -1,
        }
    }
}

/// ppoll(2).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    limit: *const timespec,
    signals: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let limit_ms = limit.as_ref().map_or(-1, milliseconds);
        match (look("ppoll", fds, count, limit_ms), next!(ppoll: Ppoll)) {
            (Some(ready), _) => ready,
            (None, Some(next)) => next(fds, count, limit, signals),
            (None, None) => -1,
        }
    }
}

fn milliseconds(limit: &timespec) -> c_int {
    let whole = limit.tv_sec.saturating_mul(1000).saturating_add(limit.tv_nsec / 1_000_000);
    c_int::try_from(whole).unwrap_or(c_int::MAX)
}

/// epoll_ctl(2).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    if operation == libc::EPOLL_CTL_ADD
        && let Some(_call) = Call::enter_unnoted("epoll_ctl")
    {
        waiting::note_epoll(fd);
    }
    match next!(epoll_ctl: EpollCtl) {
        // SAFETY: the caller's promise.
        Some(next) => unsafe { next(epoll, operation, fd, event) },
        None => -1,
    }
}
