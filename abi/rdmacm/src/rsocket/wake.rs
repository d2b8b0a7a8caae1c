//! Waking threads that sleep for an rsocket.
//!
//! Whoever changes an rsocket wakes everybody who registered with it: the descriptor of a completion channel alone would
//! not do, because a thread that reads its event can make true what another one waits for.

use libc::{c_int, pollfd};
use std::cell::RefCell;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use weft_sys::event::EventFd;

/// What wakes one thread.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<EventFd>);

thread_local! {
    /// And the process that made it: a child of fork must not take what wakes its parent.
    static OF_THREAD: RefCell<Option<(u32, Waker)>> = const { RefCell::new(None) };
}

impl Waker {
    fn new() -> std::io::Result<Waker> {
        Ok(Waker(Arc::new(EventFd::new()?)))
    }

    /// The calling thread's.
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

    /// Readable once the thread was woken.
    pub(crate) fn fd(&self) -> c_int {
        self.0.as_raw_fd()
    }

    /// After a sleep on `fds`, of which the first is the waker's: forgets that the thread was woken.
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
    /// From here on the thread is woken.
    pub(crate) fn register(&mut self, waker: &Waker) {
        self.0.push(waker.clone());
    }

    /// The thread waits no more.
    pub(crate) fn unregister(&mut self, waker: &Waker) {
        if let Some(at) = self.0.iter().position(|known| Arc::ptr_eq(&known.0, &waker.0)) {
            self.0.swap_remove(at);
        }
    }

    /// Wakes everybody.
    pub(crate) fn wake(&self) {
        self.0.iter().for_each(|waker| waker.0.signal());
    }
}
