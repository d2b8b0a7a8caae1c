//! Event channels.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::rc::Rc;

use weft_abi_types::rdma_event_channel;

use super::CmLibrary;
use crate::verbs::check_ptr;

/// An event channel, shared by its clones.
#[derive(Clone, Debug)]
pub struct EventChannel(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    library: CmLibrary,
    ptr: *mut rdma_event_channel,
}

impl EventChannel {
    /// Creates a channel.
    ///
    /// # Errors
    /// `ENODEV` means that there is no RDMA device.
    pub fn new(library: CmLibrary) -> io::Result<EventChannel> {
        // SAFETY: the call takes nothing.
        let ptr = check_ptr(unsafe { (library.calls.rdma_create_event_channel)() })?;
        Ok(EventChannel(Rc::new(Inner { library, ptr })))
    }

    /// The library of the channel.
    pub fn library(&self) -> CmLibrary {
        self.0.library
    }

    pub(super) fn ptr(&self) -> *mut rdma_event_channel {
        self.0.ptr
    }

    /// File descriptor, readable when an event is pending.
    pub fn fd(&self) -> RawFd {
        // SAFETY: the channel is alive.
        unsafe { (*self.0.ptr).fd }
    }
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the channel.
        unsafe { BorrowedFd::borrow_raw(self.fd()) }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: the ids of the channel held a clone of it and are gone, and every event was acknowledged.
        unsafe { (self.library.calls.rdma_destroy_event_channel)(self.ptr) };
    }
}

/// Waits until one of the descriptors is readable, for at most `timeout_ms`; returns which are.
pub fn readable(fds: &[RawFd], timeout_ms: Option<u32>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<_> = fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    let timeout = timeout_ms.map_or(-1, |ms| i32::try_from(ms).unwrap_or(i32::MAX));
    // SAFETY: the array has the length that is passed.
    match unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) } {
        -1 => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(vec![false; fds.len()]),
            error => Err(error),
        },
        _ => Ok(polled.iter().map(|entry| entry.revents != 0).collect()),
    }
}
