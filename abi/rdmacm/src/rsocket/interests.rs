//! A set of descriptors that is kept between waits, as epoll(7) keeps one.

use libc::{c_int, pollfd};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use weft_sys::event::EventFd;

use super::wake::Wakers;

/// A set made by `repoll_create`.
pub(crate) struct Interests {
    /// Its descriptor serves only as a unique number.
    pub(super) number: EventFd,
    pub(super) state: Mutex<Watched>,
}

/// The watched descriptors, and the threads that wait for them.
#[derive(Default)]
pub(super) struct Watched {
    pub(super) by_fd: BTreeMap<c_int, Interest>,
    /// Number of changes so far, and whether this was the last.
    pub(super) generation: u64,
    pub(super) closed: bool,
    pub(super) wakers: Wakers,
}

/// Events for which a descriptor is watched, and the program's number for it.
#[derive(Clone, Copy)]
pub(super) struct Interest {
    pub(super) events: u32,
    pub(super) data: u64,
}

impl Watched {
    /// Notes a change, and wakes the threads that wait.
    pub(super) fn change(&mut self) {
        self.generation += 1;
        self.wakers.wake();
    }
}

impl Interests {
    /// Returns the entries, the program's number for each, and the number of changes so far.
    pub(super) fn snapshot(&self) -> (Vec<pollfd>, Vec<u64>, u64) {
        let state = self.state.lock();
        let entry =
            |(fd, interest): (&c_int, &Interest)| pollfd { fd: *fd, events: interest.events as i16, revents: 0 };
        let fds = state.by_fd.iter().map(entry).collect();
        let data = state.by_fd.values().map(|interest| interest.data).collect();
        (fds, data, state.generation)
    }

    /// Closes a set: threads that wait for it receive no events.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.by_fd.clear();
        state.change();
    }
}
