//! Event channels: a descriptor that programs poll, with the daemon's end behind it.

use libc::c_int;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_abi_types::rdma_event_channel;

use crate::daemon::Events;
use crate::device;
use crate::errors::fail_null;

/// The channels that are open, by the address of the structure that the program has, with the daemon's end of each.
/// Programs destroy a channel while a thread of theirs is about to ask it for the next event (`rping` of rdma-core 44
/// ends that way). Only what is found here is read, so such a thread gets an error, as it does in rdma-core, where it
/// uses a descriptor that is closed.
static CHANNELS: Mutex<BTreeMap<usize, Arc<Events>>> = Mutex::new(BTreeMap::new());

/// An open channel.
pub(crate) struct Channel {
    /// What the program has of it.
    pub(crate) public: *mut rdma_event_channel,
    /// The daemon's end.
    pub(crate) events: Arc<Events>,
}

impl Channel {
    /// A new channel, on the heap until [`close`].
    pub(crate) fn open() -> Result<Channel, c_int> {
        let events = Arc::new(Events::open()?);
        let public = Box::into_raw(Box::new(rdma_event_channel { fd: events.fd() }));
        CHANNELS.lock().insert(public.addr(), events.clone());
        Ok(Channel { public, events })
    }

    /// The channel behind the program's structure; EBADF of one that is destroyed.
    pub(crate) fn find(public: *mut rdma_event_channel) -> Result<Channel, c_int> {
        let events = CHANNELS.lock().get(&public.addr()).cloned().ok_or(libc::EBADF)?;
        Ok(Channel { public, events })
    }
}

/// Ends a channel. A thread that waits for its next event keeps the daemon's end, and waits on.
pub(crate) fn close(channel: *mut rdma_event_channel) {
    let found = CHANNELS.lock().remove(&channel.addr());
    if found.is_some() {
        // SAFETY: `open` made it, and what was in the table is freed once.
        drop(unsafe { Box::from_raw(channel) });
    }
}

/// A channel for events; ENODEV without devices.
pub extern "C" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    match device::present().and_then(|()| Channel::open()) {
        Ok(channel) => channel.public,
        Err(errno) => fail_null(errno),
    }
}

/// Closes a channel. Its identifiers must be destroyed, and its events acknowledged.
pub extern "C" fn rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    close(channel);
}
