//! epoll(7) for rsockets and other descriptors: a set that is kept between waits.

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, c_int, epoll_event, pollfd};
use parking_lot::Mutex;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_sys::event::EventFd;

use super::index::{self, Rsocket};
use super::interests::{Interest, Interests};
use super::poll;
use super::service::errno_of;
use super::wake::Waker;
use crate::errors::{code, fail};

/// Events that a descriptor may be watched for; poll and epoll use the same numbers.
const EVENTS: u32 =
    (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLPRI | libc::EPOLLERR | libc::EPOLLHUP | libc::EPOLLRDHUP) as u32;

/// Returns the set of a descriptor; EINVAL for others, like epoll_ctl(2).
fn find(epfd: c_int) -> Result<Arc<Interests>, c_int> {
    match index::find(epfd) {
        Some(Rsocket::Interests(interests)) => Ok(interests),
        _ => Err(libc::EINVAL),
    }
}

/// epoll_create1(2).
pub extern "C" fn repoll_create(flags: c_int) -> c_int {
    if flags & !(libc::EPOLL_CLOEXEC | libc::O_NONBLOCK) != 0 {
        return fail(libc::EINVAL);
    }
    match EventFd::new() {
        Ok(number) => {
            let fd = number.as_raw_fd();
            let interests = Interests { number, state: Mutex::default() };
            index::insert(fd, Rsocket::Interests(Arc::new(interests)));
            fd
        }
        Err(error) => fail(errno_of(error)),
    }
}

/// epoll_ctl(2).
pub unsafe extern "C" fn repoll_ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    // SAFETY: null or the caller's event, which is packed.
    let interest = unsafe {
        (!event.is_null()).then(|| {
            let event = event.read_unaligned();
            Interest { events: event.events & EVENTS, data: event.u64 }
        })
    };
    code(find(epfd).and_then(|interests| control(&interests, op, fd, interest)))
}

fn control(interests: &Interests, op: c_int, fd: c_int, interest: Option<Interest>) -> Result<(), c_int> {
    if fd < 0 {
        return Err(libc::EBADF);
    }
    if fd == interests.number.as_raw_fd() {
        return Err(libc::EINVAL);
    }
    let mut state = interests.state.lock();
    let known = state.by_fd.contains_key(&fd);
    match (op, known) {
        (EPOLL_CTL_ADD, true) => return Err(libc::EEXIST),
        (EPOLL_CTL_MOD | EPOLL_CTL_DEL, false) => return Err(libc::ENOENT),
        (EPOLL_CTL_ADD, false) | (EPOLL_CTL_MOD, true) => {
            state.by_fd.insert(fd, interest.ok_or(libc::EFAULT)?);
        }
        (EPOLL_CTL_DEL, true) => drop(state.by_fd.remove(&fd)),
        _ => return Err(libc::EINVAL),
    }
    state.change();
    Ok(())
}

/// epoll_wait(2).
pub unsafe extern "C" fn repoll_wait(epfd: c_int, events: *mut epoll_event, maxevents: c_int, timeout: c_int) -> c_int {
    let room = usize::try_from(maxevents).unwrap_or(0);
    if room == 0 || events.is_null() {
        return fail(libc::EINVAL);
    }
    let limit = u64::try_from(timeout).ok().map(Duration::from_millis);
    match find(epfd).and_then(|interests| wait(&interests, limit)) {
        Ok(ready) => {
            for (at, event) in ready.iter().take(room).enumerate() {
                // SAFETY: the caller has room for this many events, which are packed.
                unsafe { events.add(at).write_unaligned(*event) };
            }
            ready.len().min(room) as c_int
        }
        Err(errno) => fail(errno),
    }
}

fn wait(interests: &Interests, limit: Option<Duration>) -> Result<Vec<epoll_event>, c_int> {
    let started = Instant::now();
    let waker = Waker::of_thread()?;
    interests.state.lock().wakers.register(&waker);
    let ready = loop {
        let (mut fds, data, generation) = interests.snapshot();
        let left = limit.map(|limit| limit.saturating_sub(started.elapsed()));
        let changed = || interests.state.lock().generation != generation;
        match poll::wait(&mut fds, left, &|| Ok(waker.clone()), &changed) {
            Ok(0) if changed() && !interests.state.lock().closed => {}
            Ok(0) => break Ok(Vec::new()),
            Ok(_) => break Ok(ready_of(&fds, &data)),
            Err(errno) => break Err(errno),
        }
    };
    interests.state.lock().wakers.unregister(&waker);
    ready
}

fn ready_of(fds: &[pollfd], data: &[u64]) -> Vec<epoll_event> {
    let ready = fds.iter().zip(data).filter(|(fd, _)| fd.revents != 0);
    ready.map(|(fd, data)| epoll_event { events: u32::from(fd.revents.cast_unsigned()), u64: *data }).collect()
}
