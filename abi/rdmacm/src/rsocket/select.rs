//! select(2) on top of [`super::poll`].

use libc::{c_int, fd_set, pollfd, timeval};
use std::time::Duration;

use super::poll;
use super::wake::Waker;
use crate::errors::fail;

/// The three sets of a call.
struct Sets([*mut fd_set; 3]);

/// Events that each set requests, and events that put a descriptor into it.
const MEANING: [(i16, i16); 3] = [
    (libc::POLLIN, libc::POLLIN | libc::POLLHUP | libc::POLLERR),
    (libc::POLLOUT, libc::POLLOUT | libc::POLLERR),
    (libc::POLLPRI, libc::POLLPRI),
];

impl Sets {
    fn has(&self, set: usize, fd: c_int) -> bool {
        let set = self.0[set];
        // SAFETY: null or the caller's set; descriptors are below its size.
        !set.is_null() && unsafe { libc::FD_ISSET(fd, set) }
    }

    fn entry(&self, fd: c_int) -> Option<pollfd> {
        let wanted = (0..3).filter(|set| self.has(*set, fd));
        let events = wanted.map(|set| MEANING[set].0).reduce(|all, one| all | one)?;
        Some(pollfd { fd, events, revents: 0 })
    }

    /// Writes the ready descriptors to the sets; returns their number.
    fn answer(&self, fds: &[pollfd]) -> c_int {
        let asked: Vec<[bool; 3]> = fds.iter().map(|fd| [0, 1, 2].map(|set| self.has(set, fd.fd))).collect();
        for set in self.0.into_iter().filter(|set| !set.is_null()) {
            // SAFETY: the caller's set.
            unsafe { libc::FD_ZERO(set) };
        }
        let mut count = 0;
        for (fd, asked) in fds.iter().zip(asked) {
            for (set, (_, ready)) in MEANING.into_iter().enumerate() {
                if asked[set] && fd.revents & ready != 0 {
                    // SAFETY: the caller's set, which has this descriptor.
                    unsafe { libc::FD_SET(fd.fd, self.0[set]) };
                    count += 1;
                }
            }
        }
        count
    }
}

/// select(2).
pub unsafe extern "C" fn rselect(
    nfds: c_int,
    readfds: *mut fd_set,
    writefds: *mut fd_set,
    exceptfds: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    if !(0..=libc::FD_SETSIZE as c_int).contains(&nfds) {
        return fail(libc::EINVAL);
    }
    let sets = Sets([readfds, writefds, exceptfds]);
    // SAFETY: null or the caller's limit.
    let limit = unsafe { timeout.as_ref() }.map(|limit| {
        let seconds = Duration::from_secs(limit.tv_sec.max(0).cast_unsigned());
        seconds + Duration::from_micros(limit.tv_usec.max(0).cast_unsigned())
    });
    let mut fds: Vec<pollfd> = (0..nfds).filter_map(|fd| sets.entry(fd)).collect();
    match poll::wait(&mut fds, limit, &Waker::of_thread, &|| false) {
        Ok(_) if fds.iter().any(|fd| fd.revents & libc::POLLNVAL != 0) => fail(libc::EBADF),
        Ok(_) => sets.answer(&fds),
        Err(errno) => fail(errno),
    }
}
