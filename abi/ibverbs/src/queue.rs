//! A queue of events behind a descriptor: readable while events wait, one read an event. Programs poll the descriptor,
//! and set it O_NONBLOCK to have the calls answer EAGAIN.
//!
//! The descriptor is an eventfd counting as a semaphore, the events stand in a list beside it.

use libc::{c_int, c_void};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::errors::errno;

/// The queue.
pub(crate) struct EventQueue<T> {
    fd: OwnedFd,
    events: Mutex<VecDeque<T>>,
}

impl<T> EventQueue<T> {
    /// An empty queue; errno if there is no descriptor for it.
    pub(crate) fn new() -> Result<EventQueue<T>, c_int> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE) };
        if fd < 0 {
            return Err(errno());
        }
        // SAFETY: the descriptor was just opened and is nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(EventQueue { fd, events: Mutex::default() })
    }

    /// The descriptor to poll.
    pub(crate) fn fd(&self) -> c_int {
        self.fd.as_raw_fd()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event and makes the descriptor readable.
    pub(crate) fn push(&self, event: T) {
        let mut events = self.lock();
        events.push_back(event);
        let one = 1u64;
        // SAFETY: eight readable bytes. A counter near 2^64 would block; events are bounded far below.
        unsafe { libc::write(self.fd(), (&raw const one).cast(), 8) };
    }

    /// Takes the oldest event, waiting for one unless the descriptor is O_NONBLOCK. `taken` sees it while the queue is
    /// still locked: whoever purges the queue afterwards knows that it was taken.
    pub(crate) fn pop(&self, taken: impl Fn(&T)) -> Result<T, c_int> {
        loop {
            let mut count = 0u64;
            // SAFETY: eight writable bytes.
            let n = unsafe { libc::read(self.fd(), (&raw mut count).cast(), 8) };
            if n != 8 {
                return Err(if n < 0 { errno() } else { libc::EIO });
            }
            // The event may have been purged between the read and here: then wait for another.
            if let Some(event) = self.lock().pop_front().inspect(&taken) {
                return Ok(event);
            }
        }
    }

    /// Forgets the events that `of_it` recognises.
    pub(crate) fn purge(&self, of_it: impl Fn(&T) -> bool) {
        let mut events = self.lock();
        let before = events.len();
        events.retain(|event| !of_it(event));
        for _ in events.len()..before {
            self.take_count();
        }
    }

    /// One from the counter, if anything is in it, whatever O_NONBLOCK says.
    fn take_count(&self) {
        let mut count = 0u64;
        let iov = libc::iovec { iov_base: (&raw mut count).cast::<c_void>(), iov_len: 8 };
        // SAFETY: one vector of eight writable bytes.
        unsafe { libc::preadv2(self.fd(), &raw const iov, 1, -1, libc::RWF_NOWAIT) };
    }
}
