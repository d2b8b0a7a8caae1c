//! Events waiting for delivery to the owners of the objects.

use std::collections::VecDeque;

use weft_verbs::{AsyncEvent, AsyncSubject, Cookie, DeviceId, Event};

use crate::context::HcaContext;
use crate::{Hca, HostInterface};

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

impl<H: HostInterface> HcaContext<H> {
    /// Raises an asynchronous event.
    pub(crate) fn raise(&mut self, device: DeviceId, event: AsyncEvent, subject: AsyncSubject, cookie: Cookie) {
        self.events.push(Event::Async { device, event, subject, cookie });
    }
}

impl<H: HostInterface> Hca<H> {
    /// Whether events wait.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.context.events.is_empty()
    }

    /// Returns the next event. Events about objects that were destroyed meanwhile are skipped: their owner has
    /// forgotten the cookie.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.context.events.is_empty() { None } else { self.next_event() }
    }

    #[cold]
    fn next_event(&mut self) -> Option<Event> {
        loop {
            let event = self.context.events.pop()?;
            let alive = match event {
                Event::Completion { cq, .. } => match self.context.cqs.get_mut(cq) {
                    Ok(cq) => {
                        cq.event_waiting = false;
                        true
                    }
                    Err(_) => false,
                },
                Event::Async { subject, .. } => match subject {
                    AsyncSubject::Cq(id) => self.context.cqs.get(id).is_ok(),
                    AsyncSubject::Qp(id) => self.qps.get(id).is_ok(),
                    AsyncSubject::Srq(id) => self.context.srqs.get(id).is_ok(),
                    AsyncSubject::Port(_) | AsyncSubject::Device => true,
                },
            };
            if alive {
                return Some(event);
            }
        }
    }
}
