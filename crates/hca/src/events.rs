//! Delivery of events to the owners of the objects.

use weft_verbs::{AsyncEvent, AsyncSubject, Cookie, DeviceId, Event};

use crate::context::HcaContext;
use crate::{Hca, HostInterface};

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
