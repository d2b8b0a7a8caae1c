//! Calls on their way to the transport's thread.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use weft_sys::event::EventFd;

use crate::caller::Answer;

/// Action after a call: it gets the answer, in the transport's thread, and does not block.
pub type Done = Box<dyn FnOnce(Result<Answer, Errno>) + Send>;

/// A call on its way to the thread.
pub struct Submission {
    /// Transaction.
    pub xid: u32,
    /// The whole message.
    pub message: Arc<Vec<u8>>,
    /// Action after it.
    pub done: Done,
}

/// Calls on their way to the thread.
pub struct Inbox {
    calls: Mutex<Vec<Submission>>,
    /// Wakes the thread.
    pub bell: EventFd,
    next_xid: AtomicU32,
    is_stopped: AtomicBool,
}

impl Inbox {
    /// Creates an empty inbox.
    pub fn new() -> std::io::Result<Inbox> {
        Ok(Inbox {
            calls: Mutex::new(Vec::new()),
            bell: EventFd::new()?,
            next_xid: AtomicU32::new(weft_sys::random::u64() as u32),
            is_stopped: AtomicBool::new(false),
        })
    }

    /// Adds a call; its first word is overwritten by a new transaction.
    pub fn submit(&self, mut message: Vec<u8>, done: Done) {
        let xid = self.next_xid.fetch_add(1, Ordering::Relaxed);
        if let Some(first) = message.first_chunk_mut() {
            *first = xid.to_be_bytes();
        }
        self.calls().push(Submission { xid, message: Arc::new(message), done });
        self.bell.signal();
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        self.bell.signal();
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Submission>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the calls that were submitted.
    pub fn take(&self) -> Vec<Submission> {
        self.bell.take();
        std::mem::take(&mut *self.calls())
    }

    /// Whether the transport was dropped.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }
}
