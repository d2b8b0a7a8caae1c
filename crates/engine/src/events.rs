//! Events on their way to whoever opened devices. They are collected under the pump's lock and told after it is let go;
//! a small lock of their own, taken before the pump's is let go, keeps them in order and lets a destroyer wait until
//! nobody speaks of its object any more.

use std::sync::Arc;

use parking_lot::Mutex;
use weft_verbs::{AsyncEvent, AsyncSubject, Cookie, DeviceId, Event};

/// Whoever is told of events. It is called without the pump's lock, from any thread, and must not call the engine; it
/// writes an eventfd, or puts the event on a list.
pub trait EventSink: Send + Sync {
    /// An armed completion queue, whose cookie this is, got a completion.
    fn completion(&self, cookie: Cookie);
    /// An asynchronous event; the cookie is the object's, 0 for ports and devices.
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

/// Who is told.
#[derive(Default)]
pub struct Sinks {
    contexts: Vec<Context>,
    next: u64,
}

impl Sinks {
    /// Somebody opened a device.
    pub fn add(&mut self, device: DeviceId, sink: Arc<dyn EventSink>) -> ContextId {
        self.next += 1;
        let id = ContextId(self.next);
        self.contexts.push(Context { id, device, sink });
        id
    }

    /// Somebody closed it.
    pub fn remove(&mut self, id: ContextId) {
        self.contexts.retain(|c| c.id != id);
    }

    /// How often a device is open.
    pub fn open(&self, device: DeviceId) -> u32 {
        self.contexts.iter().filter(|c| c.device == device).count() as u32
    }

    /// Tell. Events about an object go to one sink, which knows the object by its cookie; events about a port or a
    /// device go to everybody who opened it.
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
