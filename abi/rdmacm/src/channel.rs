//! Event channels: a descriptor that programs poll, with the daemon's end behind it.

use libc::c_int;
use std::cell::UnsafeCell;
use std::sync::Arc;
use weft_abi_types::rdma_event_channel;

use crate::daemon;
use crate::device;
use crate::errors::fail_null;

/// A channel: the public structure with our part behind it.
#[repr(C)]
pub(crate) struct Channel {
    public: UnsafeCell<rdma_event_channel>,
    events: Arc<daemon::Events>,
}

impl Channel {
    /// A new channel, on the heap.
    pub(crate) fn open() -> Result<*mut rdma_event_channel, c_int> {
        let events = daemon::Events::open()?;
        let public = UnsafeCell::new(rdma_event_channel { fd: events.fd() });
        Ok(Box::into_raw(Box::new(Channel { public, events: Arc::new(events) })).cast())
    }

    /// The channel behind a public structure.
    pub(crate) unsafe fn of<'a>(channel: *mut rdma_event_channel) -> &'a Channel {
        // SAFETY: the caller passes a channel of ours that is not destroyed yet.
        unsafe { &*channel.cast::<Channel>() }
    }

    /// The daemon's end.
    pub(crate) fn events(&self) -> &Arc<daemon::Events> {
        &self.events
    }
}

/// Ends a channel.
pub(crate) unsafe fn close(channel: *mut rdma_event_channel) {
    // SAFETY: the caller passes a channel of ours, for the last time.
    drop(unsafe { Box::from_raw(channel.cast::<Channel>()) });
}

/// A channel for events; ENODEV without devices.
pub extern "C" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    match device::present().and_then(|()| Channel::open()) {
        Ok(channel) => channel,
        Err(errno) => fail_null(errno),
    }
}

/// Closes a channel. Its identifiers must be destroyed, and its events acknowledged.
pub unsafe extern "C" fn rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    if channel.is_null() {
        return;
    }
    // SAFETY: a channel of the program's, which it does not use again.
    unsafe { close(channel) };
}
