//! Event channels: a descriptor that programs poll, connected to the daemon.

use libc::c_int;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_abi_types::rdma_event_channel;

use crate::daemon::Events;
use crate::device;
use crate::errors::fail_null;

/// The open channels, each with the daemon's end, by the address of the program's structure. Programs destroy a channel
/// while one of their threads is about to fetch its next event (`rping` of rdma-core 44 ends that way). This library
/// reads only channels in this table, so such a thread gets an error, as in rdma-core, where it uses a closed
/// descriptor.
static CHANNELS: Mutex<BTreeMap<usize, Arc<Events>>> = Mutex::new(BTreeMap::new());

/// An open channel.
pub(crate) struct Channel {
    /// The program's structure.
    pub(crate) public: *mut rdma_event_channel,
    /// The daemon's end.
    pub(crate) events: Arc<Events>,
}

impl Channel {
    /// Creates a channel, on the heap until [`close`].
    pub(crate) fn open() -> Result<Channel, c_int> {
        let events = Arc::new(Events::open()?);
        let public = Box::into_raw(Box::new(rdma_event_channel { fd: events.fd() }));
        CHANNELS.lock().insert(public.addr(), events.clone());
        Ok(Channel { public, events })
    }

    /// Returns the channel behind the program's structure; EBADF if it is destroyed.
    pub(crate) fn find(public: *mut rdma_event_channel) -> Result<Channel, c_int> {
        let events = CHANNELS.lock().get(&public.addr()).cloned().ok_or(libc::EBADF)?;
        Ok(Channel { public, events })
    }
}

/// Closes a channel. A thread that waits for its next event keeps the daemon's end, and waits on.
pub(crate) fn close(channel: *mut rdma_event_channel) {
    let found = CHANNELS.lock().remove(&channel.addr());
    if found.is_some() {
        // SAFETY: `open` allocated it, and a channel in the table is freed once.
        drop(unsafe { Box::from_raw(channel) });
    }
}

/// Creates a channel for events; ENODEV without devices.
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
