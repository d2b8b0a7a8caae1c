//! Completion channels: descriptors that are readable while completion events wait.

use libc::c_int;
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use weft_abi_types::{ibv_comp_channel, ibv_context};

use crate::context::Context;
use crate::errors::{code, pointer};
use crate::object::{Object, zeroed};
use crate::queue::{EventQueue, Open};

/// A completion channel. Its events are addresses of completion queues.
#[repr(C)]
pub(crate) struct Channel {
    public: UnsafeCell<ibv_comp_channel>,
    pub(crate) events: Arc<EventQueue<usize>>,
}

/// The channels that exist.
pub(crate) static CHANNELS: Open<usize> = Open::new();

// SAFETY: repr(C), the public structure first.
unsafe impl Object for Channel {
    type Public = ibv_comp_channel;
}

impl Channel {
    /// Returns the number of completion queues on the channel, in a field that programs may read.
    fn users(&self) -> &AtomicI32 {
        // SAFETY: a field of our own public part, which this library accesses in no other way.
        unsafe { AtomicI32::from_ptr(&raw mut (*self.public()).refcnt) }
    }

    /// Counts completion queues: `by` is 1 or -1.
    pub(crate) fn count(&self, by: i32) {
        self.users().fetch_add(by, Ordering::Relaxed);
    }
}

fn create(context: *mut ibv_context) -> Result<*mut ibv_comp_channel, c_int> {
    if context.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the program's context.
    let process = unsafe { Context::of(context) }.process;
    let events = Arc::new(EventQueue::new(process)?);
    let mut public: ibv_comp_channel = zeroed();
    public.context = context;
    public.fd = events.fd();
    let channel = Channel { public: UnsafeCell::new(public), events: events.clone() }.leak();
    CHANNELS.insert(channel.addr(), events);
    Ok(channel)
}

/// Creates a channel.
pub extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    pointer(create(context))
}

/// Destroys a channel; EBUSY while completion queues use it.
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    if channel.is_null() {
        return code(Err(libc::EINVAL));
    }
    // SAFETY: a channel of ours.
    if unsafe { Channel::of(channel) }.users().load(Ordering::Relaxed) > 0 {
        return code(Err(libc::EBUSY));
    }
    CHANNELS.remove(channel.addr());
    // SAFETY: the program gives it up.
    unsafe { Channel::free(channel) };
    0
}
