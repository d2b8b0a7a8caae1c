//! Asynchronous events that wait for the program, and counts of those that it took.

use std::sync::atomic::{AtomicU32, Ordering};
use weft_verbs::AsyncEvent;

/// The subject of an event: an object of this process, by address, or a port.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    Cq(usize),
    Qp(usize),
    Srq(usize),
    Port(u8),
}

/// An event that waits for the program.
#[derive(Clone, Copy)]
pub(crate) struct AsyncItem {
    pub(crate) event: AsyncEvent,
    /// The subject.
    pub(crate) about: About,
}

/// Number of events about one object that the program has taken, to compare with its acknowledgements.
#[derive(Default)]
pub(crate) struct Reported(AtomicU32);

impl Reported {
    /// Counts one more taken event.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of taken events.
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}
