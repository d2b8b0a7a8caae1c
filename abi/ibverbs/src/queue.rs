//! A queue of events behind a descriptor: it is readable while events wait, and each read consumes one event. Programs
//! poll the descriptor, and set it O_NONBLOCK to make the calls return EAGAIN.
//!
//! The descriptor is an eventfd that counts as a semaphore; the events are in a list beside it.

use libc::c_int;
use parking_lot::RwLock;
use rustix::io::{Errno, ReadWriteFlags};
use std::collections::{BTreeMap, VecDeque};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_engine::Awaited;

use crate::errors::errno;
use crate::process::Process;

/// The queue.
pub(crate) struct EventQueue<T> {
    fd: OwnedFd,
    /// A number that is unique among the process's queues, past ones included.
    number: u64,
    /// The engine that a waiting thread serves.
    process: Process,
    events: Mutex<VecDeque<T>>,
}

/// The queues that threads may wait on, by the address of the program's object. A program may destroy a channel or
/// close a device while another thread waits for its next event, or is about to. A waiting thread keeps the queue and
/// waits on, as in a read(2) of a descriptor that is closed meanwhile; a later thread gets EBADF.
pub(crate) struct Open<T>(RwLock<BTreeMap<usize, Arc<EventQueue<T>>>>);

impl<T> Open<T> {
    pub(crate) const fn new() -> Open<T> {
        Open(RwLock::new(BTreeMap::new()))
    }

    /// Makes a queue available to threads.
    pub(crate) fn insert(&self, address: usize, queue: Arc<EventQueue<T>>) {
        self.0.write().insert(address, queue);
    }

    /// Makes a queue unavailable to threads.
    pub(crate) fn remove(&self, address: usize) {
        self.0.write().remove(&address);
    }

    /// Returns the queue of the object at this address; EBADF if the object is destroyed.
    pub(crate) fn find(&self, address: usize) -> Result<Arc<EventQueue<T>>, c_int> {
        self.0.read().get(&address).cloned().ok_or(libc::EBADF)
    }
}

impl<T> EventQueue<T> {
    /// Creates an empty queue; fails with errno if no descriptor is left.
    pub(crate) fn new(process: Process) -> Result<EventQueue<T>, c_int> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        // SAFETY: the call passes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE) };
        if fd < 0 {
            return Err(errno());
        }
        // SAFETY: the descriptor was just opened, and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Ok(EventQueue { fd, number, process, events: Mutex::default() })
    }

    /// Returns the descriptor to poll.
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
        // Not the C library's write(2), which is a cancellation point: a cancelled thread could hold locks. A counter
        // near 2^64 would block; events are bounded far below.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Takes the oldest event, waiting for one unless the descriptor is O_NONBLOCK. `taken` sees it while the queue is
    /// still locked, so that a thread that purges the queue afterwards knows that it was taken.
    pub(crate) fn pop(&self, taken: impl Fn(&T)) -> Result<T, c_int> {
        loop {
            let mut count = 0u64;
            // SAFETY: eight writable bytes.
            let n = unsafe { libc::read(self.fd(), (&raw mut count).cast(), 8) };
            if n != 8 {
                return Err(if n < 0 { errno() } else { libc::EIO });
            }
            // The event may have been purged between the read and here; then wait for another.
            if let Some(event) = self.lock().pop_front().inspect(&taken) {
                return Ok(event);
            }
        }
    }

    /// As [`EventQueue::pop`], but the thread serves the engine while it waits, so that no other thread has to wake up
    /// in order to wake it.
    pub(crate) fn pop_serving(&self, taken: impl Fn(&T)) -> Result<T, c_int> {
        let awaited = Awaited { fd: self.fd.as_fd(), number: self.number };
        loop {
            if self.has_events() {
                match self.take_count() {
                    Ok(()) => {}
                    // Another thread was quicker.
                    Err(Errno::AGAIN) => continue,
                    // Linux before 5.8.
                    Err(_) => return self.pop(taken),
                }
                // As in `pop`, the event may have been purged.
                if let Some(event) = self.lock().pop_front().inspect(&taken) {
                    return Ok(event);
                }
            } else if self.never_blocks() {
                return Err(libc::EAGAIN);
            } else if !self.process.wait_for(awaited, &|| self.has_events())? {
                return self.pop(taken);
            }
        }
    }

    fn has_events(&self) -> bool {
        !self.lock().is_empty()
    }

    /// Whether the program set the descriptor O_NONBLOCK.
    fn never_blocks(&self) -> bool {
        // SAFETY: the call passes no pointers.
        unsafe { libc::fcntl(self.fd(), libc::F_GETFL) & libc::O_NONBLOCK != 0 }
    }

    /// Removes the events that `of_it` recognises.
    pub(crate) fn purge(&self, of_it: impl Fn(&T) -> bool) {
        let mut events = self.lock();
        let before = events.len();
        events.retain(|event| !of_it(event));
        for _ in events.len()..before {
            let _ = self.take_count();
        }
    }

    /// Takes one from the counter, whatever O_NONBLOCK says; EAGAIN if it is zero.
    fn take_count(&self) -> Result<(), Errno> {
        const HERE: u64 = u64::MAX;
        let mut count = [0; 8];
        rustix::io::preadv2(&self.fd, &mut [IoSliceMut::new(&mut count)], HERE, ReadWriteFlags::NOWAIT).map(drop)
    }
}
