//! The service thread behind all rsockets of the process. It reads the connection manager's events, so that connections
//! are set up and end without the program, receives datagrams over plain UDP, and sends keep-alives. The first rsocket
//! starts it; it sleeps when there is nothing to do.

use libc::c_int;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use weft_abi_types::{rdma_event_channel, rdma_port_space};
use weft_sys::epoll::{Epoll, Interest, Ready};
use weft_sys::event::EventFd;

use super::cm_id::CmId;
use super::event::{self, Event};
use crate::channel::rdma_create_event_channel;
use crate::create::rdma_destroy_id;
use crate::errors::made;

/// The epoll key of the channel; owners' keys start above it.
const CHANNEL: u64 = 0;
/// The epoll key of the descriptor that makes the thread check its timers.
const WAKE: u64 = 1;
const FIRST_KEY: u64 = 16;

/// Stack size of the thread.
const STACK_BYTES: usize = 256 * 1024;

/// An object whose events the service thread reads.
pub(crate) trait Handler: Send + Sync {
    /// Handles an event of the connection manager; returns it if its connection request, if any, remains to be refused.
    fn on_event(&self, event: Event) -> Option<Event> {
        Some(event)
    }

    /// Handles a descriptor of [`Service::watch`] that became readable.
    fn on_readable(&self) {}

    /// Sends a keep-alive that is due.
    fn send_keepalive(&self) {}
}

/// The owner of an identifier, or of a UDP socket.
#[derive(Clone)]
pub(crate) enum Owner {
    /// A socket of the program's.
    Socket(Weak<dyn Handler>),
    /// A step that only the service keeps.
    Step(Arc<dyn Handler>),
}

impl Owner {
    fn handler(self) -> Option<Arc<dyn Handler>> {
        match self {
            Owner::Socket(socket) => socket.upgrade(),
            Owner::Step(step) => Some(step),
        }
    }
}

/// A stream that sends keep-alives.
struct KeepAlive {
    stream: Weak<dyn Handler>,
    every: Duration,
    due: Instant,
}

/// The service of a process.
pub(crate) struct Service {
    epoll: Epoll,
    wake: EventFd,
    channel: *mut rdma_event_channel,
    /// The process of the thread. A child of fork(2) has no such thread, and creates its own.
    process: u32,
    owners: Mutex<Owners>,
    keepalives: Mutex<BTreeMap<u64, KeepAlive>>,
}

struct Owners {
    next: u64,
    by_key: BTreeMap<u64, Owner>,
}

// SAFETY: any thread may use a channel; only the service thread reads this one.
unsafe impl Send for Service {}
// SAFETY: as above.
unsafe impl Sync for Service {}

static SERVICE: Mutex<Option<Arc<Service>>> = Mutex::new(None);

/// Returns the service, and starts it if necessary; ENODEV without devices.
pub(crate) fn service() -> Result<Arc<Service>, c_int> {
    let mut service = SERVICE.lock();
    match &*service {
        Some(running) if running.process == std::process::id() => Ok(running.clone()),
        _ => {
            let new = Arc::new(Service::new()?);
            let thread = new.clone();
            weft_sys::thread::spawn_without_signals("rsocket", STACK_BYTES, move || thread.run()).map_err(errno_of)?;
            *service = Some(new.clone());
            Ok(new)
        }
    }
}

/// Returns the errno value of a system error.
pub(crate) fn errno_of(error: std::io::Error) -> c_int {
    error.raw_os_error().unwrap_or(libc::EIO)
}

impl Service {
    fn new() -> Result<Service, c_int> {
        let (epoll, wake) = (Epoll::new().map_err(errno_of)?, EventFd::new().map_err(errno_of)?);
        // Created after all steps that may fail for lack of descriptors, because nothing closes it.
        let channel = made(rdma_create_event_channel())?;
        let service = Service {
            epoll,
            wake,
            channel,
            process: std::process::id(),
            owners: Mutex::new(Owners { next: FIRST_KEY, by_key: BTreeMap::new() }),
            keepalives: Mutex::default(),
        };
        // SAFETY: the channel lives for as long as the process.
        let fd = unsafe { BorrowedFd::borrow_raw((*channel).fd) };
        let flags = rustix::fs::fcntl_getfl(fd).map_err(rustix::io::Errno::raw_os_error)?;
        rustix::fs::fcntl_setfl(fd, flags | rustix::fs::OFlags::NONBLOCK).map_err(rustix::io::Errno::raw_os_error)?;
        service.epoll.add(fd, CHANNEL, Interest::READ).map_err(errno_of)?;
        service.epoll.add(&service.wake, WAKE, Interest::READ).map_err(errno_of)?;
        Ok(service)
    }

    /// Returns a key that was never used before.
    pub(crate) fn new_key(&self) -> u64 {
        let mut owners = self.owners.lock();
        owners.next += 1;
        owners.next
    }

    /// Sends the events of `key` to `owner` from now on.
    pub(crate) fn enter(&self, key: u64, owner: Owner) {
        self.owners.lock().by_key.insert(key, owner);
    }

    /// Drops the events of `key` from now on.
    pub(crate) fn leave(&self, key: u64) {
        let owner = self.owners.lock().by_key.remove(&key);
        // The owner is dropped after the lock is released, with everything that it owns.
        drop(owner);
        self.keepalives.lock().remove(&key);
    }

    /// Creates an identifier whose events carry `key`.
    pub(crate) fn create_id(&self, key: u64, port_space: rdma_port_space) -> Result<CmId, c_int> {
        CmId::create(self.channel, key, port_space)
    }

    /// Notifies the owner of `key` when `fd` becomes readable.
    pub(crate) fn watch(&self, fd: impl AsFd, key: u64) -> Result<(), c_int> {
        self.epoll.add(fd, key, Interest::READ).map_err(errno_of)
    }

    /// Stops watching `fd`.
    pub(crate) fn unwatch(&self, fd: impl AsFd) {
        // It may never have been watched.
        let _ = self.epoll.delete(fd);
    }

    /// Makes a stream send keep-alives.
    pub(crate) fn keep_alive(&self, key: u64, stream: Weak<dyn Handler>, every: Duration) {
        let keepalive = KeepAlive { stream, every, due: Instant::now() + every };
        self.keepalives.lock().insert(key, keepalive);
        self.wake.signal();
    }

    /// Stops a stream's keep-alives.
    pub(crate) fn let_die(&self, key: u64) {
        self.keepalives.lock().remove(&key);
    }

    fn run(&self) {
        let mut ready: Vec<Ready> = Vec::new();
        loop {
            let limit = self.send_keepalives();
            if self.epoll.wait(&mut ready, limit).is_err() {
                return;
            }
            for source in &ready {
                match source.token {
                    CHANNEL => self.read_events(),
                    WAKE => drop(self.wake.take()),
                    key => self.on_readable(key),
                }
            }
        }
    }

    /// Sends the keep-alives that are due; returns the time until the next.
    fn send_keepalives(&self) -> Option<Duration> {
        let now = Instant::now();
        let mut due = Vec::new();
        let mut keepalives = self.keepalives.lock();
        for keepalive in keepalives.values_mut().filter(|keepalive| keepalive.due <= now) {
            keepalive.due = now + keepalive.every;
            due.extend(keepalive.stream.upgrade());
        }
        let next = keepalives.values().map(|keepalive| keepalive.due.saturating_duration_since(now)).min();
        drop(keepalives);
        due.iter().for_each(|stream| stream.send_keepalive());
        next
    }

    fn handler(&self, key: u64) -> Option<Arc<dyn Handler>> {
        let owner = self.owners.lock().by_key.get(&key).cloned();
        owner.and_then(Owner::handler)
    }

    fn read_events(&self) {
        let mut any = false;
        while let Some(event) = event::next(self.channel) {
            any = true;
            self.dispatch(event);
        }
        // A channel whose daemon is gone stays readable, and has no more events.
        if !any && crate::errors::errno() != libc::EAGAIN {
            // SAFETY: the channel lives for as long as the process.
            self.unwatch(unsafe { BorrowedFd::borrow_raw((*self.channel).fd) });
            let mut service = SERVICE.lock();
            if service.as_ref().is_some_and(|running| std::ptr::eq(Arc::as_ptr(running), self)) {
                *service = None;
            }
        }
    }

    fn dispatch(&self, event: Event) {
        let left = match self.handler(event.key) {
            Some(handler) => handler.on_event(event),
            None => Some(event),
        };
        if let Some(id) = left.and_then(|event| event.request) {
            // Destroying it refuses the connection.
            // SAFETY: an identifier that no other code knows.
            unsafe { rdma_destroy_id(id.as_ptr()) };
        }
    }

    fn on_readable(&self, key: u64) {
        if let Some(handler) = self.handler(key) {
            handler.on_readable();
        }
    }
}
