//! Waiting for many descriptors at the same time, rsockets and others mixed.

use libc::{c_int, nfds_t, pollfd};
use std::time::{Duration, Instant};

use super::index::{self, Rsocket};
use super::settings;
use super::wait::{readable, sleep};
use super::wake::Waker;
use crate::errors::fail;

/// poll(2).
pub unsafe extern "C" fn rpoll(fds: *mut pollfd, nfds: nfds_t, timeout: c_int) -> c_int {
    let count = usize::try_from(nfds).unwrap_or(0);
    if fds.is_null() && count > 0 {
        return fail(libc::EFAULT);
    }
    // SAFETY: the caller's entries, in the number given.
    let fds = if count == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(fds, count) } };
    let limit = u64::try_from(timeout).ok().map(Duration::from_millis);
    match wait(fds, limit, &Waker::of_thread, &|| false) {
        Ok(ready) => ready as c_int,
        Err(errno) => fail(errno),
    }
}

/// Waits until an entry is ready, `limit` has passed, or `enough` holds; returns the number of ready entries. The
/// thread that makes `enough` true wakes the waker.
pub(crate) fn wait(
    fds: &mut [pollfd],
    limit: Option<Duration>,
    waker: &dyn Fn() -> Result<Waker, c_int>,
    enough: &dyn Fn() -> bool,
) -> Result<usize, c_int> {
    let started = Instant::now();
    let rsockets: Vec<Option<Rsocket>> = fds.iter().map(|fd| index::find(fd.fd)).collect();
    if rsockets.iter().all(Option::is_none) && limit == Some(Duration::ZERO) {
        return sleep(fds, limit);
    }
    let polling = Duration::from_micros(settings().polling_time_us.into());
    loop {
        let ready = look(fds, &rsockets)?;
        if ready > 0 || limit == Some(Duration::ZERO) {
            return Ok(ready);
        }
        if started.elapsed() >= polling {
            break;
        }
    }
    let waker = waker()?;
    let wake_up = settings().wake_up_interval_ms.map(|interval| Duration::from_millis(interval.into()));
    loop {
        if enough() {
            return Ok(0);
        }
        let left = limit.map(|limit| limit.saturating_sub(started.elapsed()));
        if left == Some(Duration::ZERO) {
            return look(fds, &rsockets);
        }
        let nap = [left, wake_up].into_iter().flatten().min();
        let ready = nap_with(fds, &rsockets, &waker, nap)?;
        if ready > 0 {
            return Ok(ready);
        }
    }
}

/// Returns the number of entries that are ready now.
fn look(fds: &mut [pollfd], rsockets: &[Option<Rsocket>]) -> Result<usize, c_int> {
    let mut others: Vec<pollfd> = Vec::new();
    for (fd, rsocket) in fds.iter_mut().zip(rsockets) {
        match rsocket {
            Some(rsocket) => fd.revents = rsocket.ready(fd.events),
            None => others.push(pollfd { revents: 0, ..*fd }),
        }
    }
    if !others.is_empty() {
        sleep(&mut others, Some(Duration::ZERO))?;
    }
    let mut others = others.iter();
    for (fd, _) in fds.iter_mut().zip(rsockets).filter(|(_, rsocket)| rsocket.is_none()) {
        fd.revents = others.next().map_or(0, |other| other.revents);
    }
    Ok(fds.iter().filter(|fd| fd.revents != 0).count())
}

/// Sleeps once, unless an entry is ready; then returns the number of ready entries.
fn nap_with(
    fds: &mut [pollfd],
    rsockets: &[Option<Rsocket>],
    waker: &Waker,
    nap: Option<Duration>,
) -> Result<usize, c_int> {
    let mut watched = vec![readable(waker.fd())];
    // Index of each entry's first own descriptor among all.
    let mut starts = Vec::with_capacity(fds.len() + 1);
    let mut now = 0;
    for (fd, rsocket) in fds.iter_mut().zip(rsockets) {
        starts.push(watched.len());
        match rsocket {
            Some(rsocket) => {
                fd.revents = rsocket.ready_or_register(fd.events, waker, &mut watched);
                now |= fd.revents;
            }
            None => watched.push(pollfd { revents: 0, ..*fd }),
        }
    }
    starts.push(watched.len());
    let nap = if now != 0 { Some(Duration::ZERO) } else { nap };
    let slept = sleep(&mut watched, nap);
    waker.clear_if_woken(&watched);
    for (number, (fd, rsocket)) in fds.iter_mut().zip(rsockets).enumerate() {
        let own = starts.get(number).copied().zip(starts.get(number + 1).copied());
        let own = own.and_then(|(start, end)| watched.get(start..end)).unwrap_or_default();
        match rsocket {
            Some(rsocket) => rsocket.unregister(waker, own.iter().any(|fd| fd.revents != 0)),
            None => fd.revents = own.first().map_or(0, |fd| fd.revents),
        }
    }
    slept?;
    for (fd, rsocket) in fds.iter_mut().zip(rsockets) {
        if let Some(rsocket) = rsocket {
            fd.revents = rsocket.ready(fd.events);
        }
    }
    Ok(fds.iter().filter(|fd| fd.revents != 0).count())
}

impl Rsocket {
    fn ready(&self, events: i16) -> i16 {
        match self {
            Rsocket::Stream(stream) => stream.ready(events),
            Rsocket::Datagram(datagram) => datagram.ready(events),
            Rsocket::Interests(_) => libc::POLLNVAL,
        }
    }

    fn ready_or_register(&self, events: i16, waker: &Waker, fds: &mut Vec<pollfd>) -> i16 {
        match self {
            Rsocket::Stream(stream) => stream.ready_or_register(events, waker, fds),
            Rsocket::Datagram(datagram) => datagram.ready_or_register(events, waker, fds),
            Rsocket::Interests(_) => libc::POLLNVAL,
        }
    }

    fn unregister(&self, waker: &Waker, readable: bool) {
        match self {
            Rsocket::Stream(stream) => stream.unregister(waker, readable),
            Rsocket::Datagram(datagram) => datagram.unregister(waker, readable),
            Rsocket::Interests(_) => {}
        }
    }
}
