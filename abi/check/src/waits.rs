//! State of waits for completion events: channels, waiting threads, events that the checker makes up.

use std::collections::{HashMap, HashSet};

use libc::c_int;
use weft_check::model::Handle;

/// Channels, and the events that the checker makes up.
#[derive(Default)]
pub struct Waits {
    /// Channels by their descriptors.
    pub channels: HashMap<c_int, Handle>,
    /// Descriptors that the program has given to epoll: its waits are not seen.
    pub epolled: HashSet<c_int>,
    /// Threads that wait for an event of a channel.
    pub waiters: HashMap<Handle, u32>,
    /// Queues whose event was announced by poll(2).
    pub promised: HashSet<Handle>,
    /// Events made up, which the library must not see acknowledged.
    pub synthetic: HashMap<Handle, u32>,
}
