//! A completion queue with its own channel, for an rsocket's queue pair.

use libc::{c_int, c_void, pollfd};
use std::os::fd::BorrowedFd;
use std::ptr::null_mut;
use weft_abi_types::inlines::{ibv_poll_cq, ibv_req_notify_cq};
use weft_abi_types::{ibv_comp_channel, ibv_context, ibv_cq, ibv_wc};

use super::verbs::{ibv_ack_cq_events, ibv_get_cq_event};
use super::wait::readable;
use crate::errors::made;
use crate::verbs::{ibv_create_comp_channel, ibv_create_cq, ibv_destroy_comp_channel, ibv_destroy_cq};

/// Maximum number of completions taken in one call.
pub(crate) const BATCH: usize = 16;

/// The queue and its channel.
#[derive(Debug)]
pub(crate) struct Completions {
    channel: *mut ibv_comp_channel,
    cq: *mut ibv_cq,
    armed: bool,
}

// SAFETY: any thread may use verbs objects; the owner's lock serialises calls.
unsafe impl Send for Completions {}

impl Completions {
    /// Creates a queue for `entries` completions.
    pub(crate) fn new(context: *mut ibv_context, entries: c_int) -> Result<Completions, c_int> {
        let mut new = Completions { channel: null_mut(), cq: null_mut(), armed: false };
        // SAFETY: the context of an identifier that outlives this; on failure, the objects created so far are
        // destroyed.
        unsafe {
            new.channel = made(ibv_create_comp_channel(context))?;
            let fd = BorrowedFd::borrow_raw((*new.channel).fd);
            let flags = rustix::fs::fcntl_getfl(fd).map_err(rustix::io::Errno::raw_os_error)?;
            rustix::fs::fcntl_setfl(fd, flags | rustix::fs::OFlags::NONBLOCK)
                .map_err(rustix::io::Errno::raw_os_error)?;
            new.cq = made(ibv_create_cq(context, entries, null_mut(), new.channel, 0))?;
        }
        Ok(new)
    }

    /// Returns the queue, for the queue pair.
    pub(crate) fn cq(&self) -> *mut ibv_cq {
        self.cq
    }

    /// Takes some completions; returns their number, or EIO if the device is gone.
    pub(crate) fn poll(&self, wcs: &mut [std::mem::MaybeUninit<ibv_wc>; BATCH]) -> Result<usize, c_int> {
        // SAFETY: our queue, and room for as many completions.
        let count = unsafe { ibv_poll_cq(self.cq, BATCH as c_int, wcs.as_mut_ptr().cast()) };
        usize::try_from(count).map_err(|_| libc::EIO)
    }

    /// Arms the queue: the next completion makes the descriptor readable.
    pub(crate) fn arm(&mut self) {
        if !self.armed {
            // SAFETY: our queue.
            self.armed = unsafe { ibv_req_notify_cq(self.cq, 0) } == 0;
        }
    }

    /// Takes the event that made the descriptor readable: an armed queue reports once.
    pub(crate) fn drain(&mut self) {
        let mut cq: *mut ibv_cq = null_mut();
        let mut context: *mut c_void = null_mut();
        // SAFETY: our channel, which never blocks; its events name our queue.
        unsafe {
            if self.armed && ibv_get_cq_event(self.channel, &mut cq, &mut context) == 0 {
                ibv_ack_cq_events(cq, 1);
                self.armed = false;
            }
        }
    }

    /// Returns the poll entry for a sleeping thread.
    pub(crate) fn watch(&self) -> pollfd {
        // SAFETY: our channel.
        readable(unsafe { (*self.channel).fd })
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        self.drain();
        // SAFETY: created by `new`; the queue pair that used them is gone, and every event is acknowledged.
        unsafe {
            if !self.cq.is_null() {
                ibv_destroy_cq(self.cq);
            }
            if !self.channel.is_null() {
                ibv_destroy_comp_channel(self.channel);
            }
        }
    }
}
