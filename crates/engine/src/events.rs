//! Events on their way to the openers of devices. The engine collects them under the pump's lock and delivers them
//! after it releases that lock. A small lock of their own, taken before the pump's is released, keeps them in order and
//! lets a destroyer wait until no event names its object any more.

use std::sync::Arc;

use parking_lot::Mutex;
use weft_verbs::{AsyncEvent, AsyncSubject, Cookie, DeviceId, Event};

/// Receiver of events. The engine calls it without the pump's lock, from any thread. It must not call the engine; it
/// writes an eventfd, or puts the event on a list.
pub trait EventSink: Send + Sync {
    /// Delivers a completion event of the armed completion queue with this cookie.
    fn completion(&self, cookie: Cookie);
    /// Delivers an asynchronous event; the cookie is the object's, 0 for ports and devices.
    fn async_event(&self, event: AsyncEvent, subject: AsyncSubject, cookie: Cookie);
}

/// An open device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ContextId(pub(crate) u64);

struct Context {
    id: ContextId,
    device: DeviceId,
    sink: Arc<dyn EventSink>,
}

/// The registered sinks.
#[derive(Default)]
pub struct Sinks {
    contexts: Vec<Context>,
    next: u64,
}

impl Sinks {
    /// Adds a sink for an opened device.
    pub fn add(&mut self, device: DeviceId, sink: Arc<dyn EventSink>) -> ContextId {
        self.next += 1;
        let id = ContextId(self.next);
        self.contexts.push(Context { id, device, sink });
        id
    }

    /// Removes the sink of a closed device.
    pub fn remove(&mut self, id: ContextId) {
        self.contexts.retain(|c| c.id != id);
    }

    /// Counts the opens of a device.
    pub fn open(&self, device: DeviceId) -> u32 {
        self.contexts.iter().filter(|c| c.device == device).count() as u32
    }

    /// Delivers events. An event about an object goes to one sink, which knows the object by its cookie; an event about
    /// a port or a device goes to every opener.
    pub fn tell(&self, events: &[Event]) {
        for event in events {
            match *event {
                Event::Completion { cookie, .. } => {
                    if let Some(context) = self.contexts.first() {
                        context.sink.completion(cookie);
                    }
                }
                Event::Async { device, event, subject, cookie } => match subject {
                    AsyncSubject::Port(_) | AsyncSubject::Device => {
                        for context in self.contexts.iter().filter(|c| c.device == device) {
                            context.sink.async_event(event, subject, cookie);
                        }
                    }
                    AsyncSubject::Cq(_) | AsyncSubject::Qp(_) | AsyncSubject::Srq(_) => {
                        if let Some(context) = self.contexts.first() {
                            context.sink.async_event(event, subject, cookie);
                        }
                    }
                },
            }
        }
    }
}

/// Sinks under their lock.
pub type SharedSinks = Mutex<Sinks>;
