//! Waking threads that sleep for an rsocket.
//!
//! A thread that changes an rsocket wakes all threads registered with it. The descriptor of a completion channel alone
//! would not suffice, because a thread that reads its event can make true the condition that another one waits for.

use libc::{c_int, pollfd};
use std::cell::RefCell;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use weft_sys::event::EventFd;

/// The waker of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<EventFd>);

thread_local! {
    /// The thread's waker with the process that created it: a child of fork must not consume its parent's wake-ups.
    static OF_THREAD: RefCell<Option<(u32, Waker)>> = const { RefCell::new(None) };
}

impl Waker {
    fn new() -> std::io::Result<Waker> {
        Ok(Waker(Arc::new(EventFd::new()?)))
    }

    /// Returns the calling thread's waker.
    pub(crate) fn of_thread() -> Result<Waker, c_int> {
        // A thread that is ending has lost its own.
        let own = OF_THREAD.try_with(|own| Waker::kept(&mut own.borrow_mut())).unwrap_or_else(|_| Waker::new());
        own.map_err(|error| error.raw_os_error().unwrap_or(libc::EMFILE))
    }

    fn kept(own: &mut Option<(u32, Waker)>) -> std::io::Result<Waker> {
        let process = std::process::id();
        match own {
            Some((maker, waker)) if *maker == process => Ok(waker.clone()),
            _ => {
                let new = Waker::new()?;
                *own = Some((process, new.clone()));
                Ok(new)
            }
        }
    }

    /// Returns the descriptor, which is readable once the thread was woken.
    pub(crate) fn fd(&self) -> c_int {
        self.0.as_raw_fd()
    }

    /// Resets the waker after a sleep on `fds`, of which the first is the waker's.
    pub(crate) fn clear_if_woken(&self, fds: &[pollfd]) {
        if fds.first().is_some_and(|own| own.revents != 0) {
            self.0.take();
        }
    }
}

/// The threads that wait for one rsocket.
#[derive(Debug, Default)]
pub(crate) struct Wakers(Vec<Waker>);

impl Wakers {
    /// Registers a thread to be woken.
    pub(crate) fn register(&mut self, waker: &Waker) {
        self.0.push(waker.clone());
    }

    /// Unregisters a thread.
    pub(crate) fn unregister(&mut self, waker: &Waker) {
        if let Some(at) = self.0.iter().position(|known| Arc::ptr_eq(&known.0, &waker.0)) {
            self.0.swap_remove(at);
        }
    }

    /// Wakes all registered threads.
    pub(crate) fn wake(&self) {
        self.0.iter().for_each(|waker| waker.0.signal());
    }
}
