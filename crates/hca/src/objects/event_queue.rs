//! Queue of events that wait for delivery.

use std::collections::VecDeque;

use weft_verbs::Event;

/// Maximum number of waiting asynchronous events; beyond it new ones are lost (a program that never reads them needs no
/// more). The number of completion queues bounds completion events.
pub const EVENTS_MAX: usize = 65_536;

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    queue: VecDeque<Event>,
    asynchronous: usize,
}

impl EventQueue {
    pub(crate) fn push(&mut self, event: Event) {
        if let Event::Async { .. } = event {
            if self.asynchronous >= EVENTS_MAX {
                return;
            }
            self.asynchronous += 1;
        }
        self.queue.push_back(event);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        let event = self.queue.pop_front()?;
        if let Event::Async { .. } = event {
            self.asynchronous -= 1;
        }
        Some(event)
    }
}
