//! The model with the pages that look on. A page has a bounded queue; one that does not keep up is disconnected, and gets
//! everything anew when it returns.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hyper::body::Bytes;
use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::limits::{EVENTS_QUEUED_MAX, VIEWERS_MAX};
use crate::model::{Event, Model};

/// The model and its pages.
#[derive(Debug, Default)]
pub struct Hub {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    model: Model,
    viewers: Vec<Sender<Bytes>>,
}

impl Hub {
    /// Makes a hub.
    pub fn new(model: Model) -> Hub {
        Hub { inner: Mutex::new(Inner { model, viewers: Vec::new() }) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the model, and sends the resulting events and the new entries of the log to all pages.
    pub fn change<T>(&self, change: impl FnOnce(&mut Model, &mut Vec<Event>) -> T) -> T {
        let mut inner = self.lock();
        let mut events = Vec::new();
        let result = change(&mut inner.model, &mut events);
        events.extend(inner.model.new_entries());
        if !events.is_empty() && !inner.viewers.is_empty() {
            let bytes = encode(&events);
            inner.viewers.retain(|viewer| viewer.try_send(bytes.clone()).is_ok());
        }
        result
    }

    /// Reads the model.
    pub fn look<T>(&self, look: impl FnOnce(&Model) -> T) -> T {
        look(&self.lock().model)
    }

    /// Adds a page: its events, the first of which bring everything. `None` if there are too many.
    pub fn join(&self) -> Option<Receiver<Bytes>> {
        let mut inner = self.lock();
        inner.viewers.retain(|viewer| !viewer.is_closed());
        if inner.viewers.len() >= VIEWERS_MAX {
            return None;
        }
        let (sender, receiver) = mpsc::channel(EVENTS_QUEUED_MAX);
        sender.try_send(encode(&inner.model.snapshot())).ok()?;
        inner.viewers.push(sender);
        Some(receiver)
    }

    /// Returns whether any page looks on.
    pub fn has_viewers(&self) -> bool {
        self.lock().viewers.iter().any(|viewer| !viewer.is_closed())
    }
}

/// Encodes events as a part of a `text/event-stream`. JSON has no line breaks.
fn encode(events: &[Event]) -> Bytes {
    let mut text = String::new();
    for event in events {
        text.push_str("event: ");
        text.push_str(event.name);
        text.push_str("\ndata: ");
        text.push_str(&event.data.to_string());
        text.push_str("\n\n");
    }
    Bytes::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::log::Topic;

    fn write(hub: &Hub, text: &str) {
        hub.change(|model, _| model.log.add(1, Topic::Action, false, text));
    }

    #[test]
    fn a_page_gets_everything_first_and_then_what_is_new() {
        let hub = Hub::default();
        assert!(!hub.has_viewers());
        write(&hub, "before");
        let mut page = hub.join().expect("room");
        assert!(hub.has_viewers());
        write(&hub, "a line\nand another");
        let mut next = || String::from_utf8(page.try_recv().expect("an event").to_vec()).expect("text");
        assert!(next().contains("\"text\":\"before\""));
        let second = next();
        assert!(second.starts_with("event: log\ndata: ") && second.ends_with("\n\n") && second.lines().count() == 3);
        assert!(!second.contains("before"), "{second}");
        drop(page);
        assert!(!hub.has_viewers());
    }

    #[test]
    fn pages_and_their_queues_are_bounded() {
        let hub = Hub::default();
        let pages: Vec<_> = (0..VIEWERS_MAX).map(|_| hub.join().expect("room")).collect();
        assert!(hub.join().is_none());
        for _ in 0..2 * EVENTS_QUEUED_MAX {
            write(&hub, "nobody reads");
        }
        assert!(!hub.has_viewers(), "they are disconnected");
        let queued = pages.into_iter().map(|page| page.len()).max();
        assert!(queued <= Some(EVENTS_QUEUED_MAX));
        assert!(hub.join().is_some());
    }
}
