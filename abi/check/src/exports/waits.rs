//! Calls of the C library that wait for descriptors: programs wait for channels with them.

use std::time::{Duration, Instant};

use libc::{c_int, epoll_event, nfds_t, pollfd, sigset_t, timespec};

use weft_check::model::Handle;

use crate::call::Call;
use crate::next::next;
use crate::{state, waiting};

type Poll = unsafe extern "C" fn(*mut pollfd, nfds_t, c_int) -> c_int;
type Ppoll = unsafe extern "C" fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int;
type EpollCtl = unsafe extern "C" fn(c_int, c_int, c_int, *mut epoll_event) -> c_int;

/// The outcome of looking at a wait before it begins.
enum Look {
    /// It is over, with this result.
    Over(c_int),
    /// It begins. So much of its time is spent.
    Begins(Duration),
}

/// Looks at a wait before the program begins it. `wait` waits for so many milliseconds.
///
/// # Safety
/// There are `count` descriptors at `fds`.
unsafe fn look(
    name: &'static str,
    fds: *mut pollfd,
    count: nfds_t,
    limit_ms: c_int,
    wait: impl FnOnce(c_int) -> c_int,
) -> Look {
    let unspent = Look::Begins(Duration::ZERO);
    let Ok(count) = usize::try_from(count) else { return unspent };
    // SAFETY: the caller's promise; no other reference to the descriptors exists while the list does.
    let list = || unsafe { std::slice::from_raw_parts_mut(fds, count) };
    if limit_ms == 0 || !state::has_held() || fds.is_null() || undrained(name, list()).is_empty() {
        return unspent;
    }
    let begun = Instant::now();
    // Not in a call: other preloaded libraries may read events when they wait.
    let ready = wait(waiting::grace_ms(limit_ms));
    if ready != 0 {
        return Look::Over(ready);
    }
    let list = list();
    let found = undrained(name, list);
    promise(name, &found);
    let mut ready = 0;
    for fd in list.iter_mut().filter(|fd| found.iter().any(|(channel, _)| *channel == fd.fd)) {
        fd.revents = fd.events & libc::POLLIN;
        ready += c_int::from(fd.revents != 0);
    }
    if ready > 0 { Look::Over(ready) } else { Look::Begins(begun.elapsed()) }
}

fn undrained(name: &'static str, list: &[pollfd]) -> Vec<(c_int, Handle)> {
    Call::enter_unnoted(name).map_or_else(Vec::new, |call| waiting::undrained_among(&call, list))
}

fn promise(name: &'static str, found: &[(c_int, Handle)]) {
    if let Some(call) = Call::enter_unnoted(name) {
        waiting::promise(&call, found);
    }
}

/// poll(2).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poll(fds: *mut pollfd, count: nfds_t, limit_ms: c_int) -> c_int {
    let Some(next) = next!(poll: Poll) else { return -1 };
    // SAFETY: the caller's promise.
    unsafe {
        match look("poll", fds, count, limit_ms, |limit_ms| next(fds, count, limit_ms)) {
            Look::Over(result) => result,
            Look::Begins(spent) => next(fds, count, rest_ms(limit_ms, spent)),
        }
    }
}

/// The rest of a limit; a negative one is none.
fn rest_ms(limit_ms: c_int, spent: Duration) -> c_int {
    let spent_ms = c_int::try_from(spent.as_millis()).unwrap_or(c_int::MAX);
    if limit_ms < 0 { limit_ms } else { limit_ms.saturating_sub(spent_ms).max(0) }
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
    let Some(next) = next!(ppoll: Ppoll) else { return -1 };
    // SAFETY: the caller's promise. The program's signals are blocked in each wait.
    unsafe {
        let time = limit.as_ref().map(duration);
        let limit_ms = time.map_or(-1, |time| c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX));
        let wait = |limit_ms| next(fds, count, &after(Duration::from_millis(limit_ms as u64)), signals);
        match look("ppoll", fds, count, limit_ms, wait) {
            Look::Over(result) => result,
            Look::Begins(spent) => match time.filter(|_| spent > Duration::ZERO) {
                Some(time) => next(fds, count, &after(time.saturating_sub(spent)), signals),
                None => next(fds, count, limit, signals),
            },
        }
    }
}

/// A limit's time; that of one that the kernel refuses is 0.
fn duration(limit: &timespec) -> Duration {
    match (u64::try_from(limit.tv_sec), u32::try_from(limit.tv_nsec)) {
        (Ok(seconds), Ok(nanoseconds)) if nanoseconds < 1_000_000_000 => Duration::new(seconds, nanoseconds),
        _ => Duration::ZERO,
    }
}

fn after(time: Duration) -> timespec {
    timespec { tv_sec: time.as_secs() as libc::time_t, tv_nsec: time.subsec_nanos() as libc::c_long }
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
