//! The position of an extended poll in a completion queue, and the completions that it fetched.

use libc::c_int;
use parking_lot::Mutex;
use parking_lot::lock_api::RawMutex as _;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_verbs::{VerbsError, Wc};

/// Maximum number of completions fetched from the adapter in one call.
pub(crate) const POLL_BATCH: usize = 16;

/// Completions fetched and not returned yet.
#[derive(Default)]
struct Fetched {
    batch: [Wc; POLL_BATCH],
    next: usize,
    end: usize,
}

/// Position of an extended poll.
pub(crate) struct Cursor {
    /// Held from start to end, unless the program promised to use a single thread.
    poll_lock: parking_lot::RawMutex,
    single_threaded: bool,
    fetched: Mutex<Fetched>,
    /// Whether an extended poll ever fetched completions: until then a plain poll need not check.
    used: AtomicBool,
    /// The current completion. Only the thread between start and end touches it.
    current: UnsafeCell<Wc>,
}

impl Cursor {
    /// Creates an idle cursor.
    pub(crate) fn new(single_threaded: bool) -> Cursor {
        Cursor {
            poll_lock: parking_lot::RawMutex::INIT,
            single_threaded,
            fetched: Mutex::default(),
            used: AtomicBool::new(false),
            current: UnsafeCell::default(),
        }
    }

    /// Takes a fetched completion that was not returned, for a plain poll of the same queue.
    #[inline]
    pub(crate) fn take_left(&self) -> Option<Wc> {
        // A program that polls in both ways from several threads synchronises them itself.
        if !self.used.load(Ordering::Relaxed) {
            return None;
        }
        self.take_fetched()
    }

    fn take_fetched(&self) -> Option<Wc> {
        let mut fetched = self.fetched.lock();
        if fetched.next == fetched.end {
            return None;
        }
        fetched.next += 1;
        Some(fetched.batch[fetched.next - 1])
    }

    /// Drops the fetched completions of a queue pair.
    pub(crate) fn forget(&self, qpn: u32) {
        let mut fetched = self.fetched.lock();
        let Fetched { batch, next, end } = &mut *fetched;
        let mut kept = *next;
        for i in *next..*end {
            if batch[i].qp_num != qpn {
                batch[kept] = batch[i];
                kept += 1;
            }
        }
        *end = kept;
    }

    /// Takes the next fetched completion, or has `poll` fetch some: ENOENT if there are none.
    #[inline]
    pub(crate) fn next(&self, poll: impl FnOnce(&mut [Wc]) -> Result<usize, VerbsError>) -> Result<Wc, c_int> {
        let mut fetched = self.fetched.lock();
        if fetched.next == fetched.end {
            fetched.next = 0;
            fetched.end = 0;
            self.used.store(true, Ordering::Relaxed);
            match poll(&mut fetched.batch) {
                Err(_) => return Err(libc::EIO),
                Ok(0) => return Err(libc::ENOENT),
                Ok(got) => fetched.end = got,
            }
        }
        fetched.next += 1;
        Ok(fetched.batch[fetched.next - 1])
    }

    /// Returns the place of the current completion, which only the polling thread touches.
    #[inline]
    pub(crate) fn current(&self) -> *mut Wc {
        self.current.get()
    }

    /// Begins an extended poll.
    pub(crate) fn lock(&self) {
        if !self.single_threaded {
            self.poll_lock.lock();
        }
    }

    /// Ends an extended poll.
    ///
    /// # Safety
    /// The calling thread holds the lock.
    pub(crate) unsafe fn unlock(&self) {
        if !self.single_threaded {
            // SAFETY: by the contract.
            unsafe { self.poll_lock.unlock() };
        }
    }
}
