//! Completion channels and asynchronous events.

use super::ids::{Handle, Site};
use super::objects::{Armed, Kind, Unacknowledged};
use super::state::Model;
use crate::rules;

/// The object of an asynchronous event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsyncEvent {
    /// An event of a completion queue; `is_overrun` for `IBV_EVENT_CQ_ERR`.
    Cq {
        /// The queue.
        cq: Handle,
        /// Whether the queue has failed.
        is_error: bool,
    },
    /// An event of a queue pair.
    Qp(Handle),
    /// An event of a shared receive queue.
    Srq(Handle),
    /// An event of a port or the device.
    Other,
}

impl Model {
    /// The program armed a completion queue.
    pub fn arm(&mut self, cq: Handle, solicited_only: bool, site: Site) {
        match self.cqs.get_mut(&cq) {
            Some(queue) => queue.armed = Some(Armed { solicited_only, stack: site.stack }),
            None => self.check_alive(Kind::Cq, cq, site),
        }
    }

    /// The program read an event of a completion queue.
    pub fn take_event(&mut self, cq: Handle) {
        if let Some(queue) = self.cqs.get_mut(&cq) {
            queue.armed = None;
            queue.events_unacknowledged.read(self.thread);
        }
    }

    /// The program acknowledges events of a completion queue. Until its destruction has returned, that is no use of a
    /// destroyed object: the destruction waits for it.
    pub fn acknowledge_events(&mut self, cq: Handle, count: u32, site: Site) {
        match self.cqs.get_mut(&cq) {
            Some(queue) => {
                let excess = queue.events_unacknowledged.acknowledge(count.into());
                self.report_excess_acknowledged(cq, count.into(), excess, site);
            }
            None if self.destroying.contains(&(Kind::Cq, cq)) => {}
            None => self.check_alive(Kind::Cq, cq, site),
        }
    }

    fn report_excess_acknowledged(&mut self, cq: Handle, count: u64, excess: u64, site: Site) {
        if excess > 0 {
            let read = count - excess;
            let plural = if count == 1 { "" } else { "s" };
            let message =
                format!("the program acknowledges {count} completion event{plural}, of which it has read {read}");
            self.find(&rules::EVENT_NOT_READ, site, self.name(Kind::Cq, cq), message);
        }
    }

    /// The queues of a channel whose next completion raises an event, whether solicited or not.
    pub fn armed_queues(&self, channel: Handle) -> Vec<Handle> {
        let mut queues: Vec<_> = self.cqs.iter().filter(|(_, cq)| cq.channel == Some(channel)).collect();
        queues.sort_by_key(|(_, cq)| cq.serial);
        let armed = queues.into_iter().filter(|(_, cq)| cq.armed.is_some_and(|armed| !armed.solicited_only));
        armed.map(|(handle, _)| *handle).collect()
    }

    /// The program waits for an event of the channel, and this armed queue has held a completion since before it was armed.
    pub fn report_undrained(&mut self, cq: Handle, site: Site) {
        let armed = self.cqs.get(&cq).and_then(|queue| queue.armed);
        let history = armed.map(|armed| ("armed".to_owned(), armed.stack)).into_iter().collect();
        let message = "the program waits for an event while the armed queue holds a completion".to_owned();
        self.find_with(&rules::CQ_NOT_DRAINED, site, self.name(Kind::Cq, cq), message, history);
    }

    /// The program has waited for an event of the channel for long. Reports a channel without any armed queue.
    pub fn check_armed(&mut self, channel: Handle, site: Site) {
        let mut queues = self.cqs.values().filter(|cq| cq.channel == Some(channel)).peekable();
        if queues.peek().is_some() && queues.all(|cq| cq.armed.is_none()) {
            let message = "the program waits for an event, and no completion queue of the channel is armed".to_owned();
            self.find(&rules::CQ_NOT_ARMED, site, self.name(Kind::Channel, channel), message);
        }
    }

    /// An asynchronous event was read, by the program or, at its end, by the library.
    pub fn take_async_event(&mut self, event: AsyncEvent, by_program: bool, site: Site) {
        let thread = self.thread;
        let events = match event {
            AsyncEvent::Cq { cq, is_error } => {
                if is_error {
                    self.report_overrun(cq, site);
                }
                self.cqs.get_mut(&cq).map(|queue| &mut queue.async_unacknowledged)
            }
            AsyncEvent::Qp(qp) => self.qps.get_mut(&qp).map(|queue| &mut queue.async_unacknowledged),
            AsyncEvent::Srq(srq) => self.srqs.get_mut(&srq).map(|queue| &mut queue.async_unacknowledged),
            AsyncEvent::Other => None,
        };
        if let Some(events) = events.filter(|_| by_program) {
            events.read(thread);
        }
    }

    /// The program acknowledged an asynchronous event.
    pub fn acknowledge_async_event(&mut self, event: AsyncEvent) {
        let events = match event {
            AsyncEvent::Cq { cq, .. } => self.cqs.get_mut(&cq).map(|queue| &mut queue.async_unacknowledged),
            AsyncEvent::Qp(qp) => self.qps.get_mut(&qp).map(|queue| &mut queue.async_unacknowledged),
            AsyncEvent::Srq(srq) => self.srqs.get_mut(&srq).map(|queue| &mut queue.async_unacknowledged),
            AsyncEvent::Other => None,
        };
        if let Some(events) = events {
            let _ = events.acknowledge(1);
        }
    }

    fn report_overrun(&mut self, cq: Handle, site: Site) {
        let capacity = self.cqs.get(&cq).map_or(0, |queue| queue.capacity);
        let message = format!("the completion queue of {capacity} entries has overrun");
        let history = self.users_created(Kind::Cq, cq);
        self.find_with(&rules::CQ_OVERRUN, site, self.name(Kind::Cq, cq), message, history);
    }

    /// Whether events that the calling thread has read make the destruction of their object wait.
    pub fn has_unacknowledged(&self, kind: Kind, handle: Handle) -> bool {
        self.unacknowledged(kind, handle) != (0, 0)
    }

    /// Completion events and asynchronous events that the calling thread has read and not acknowledged.
    fn unacknowledged(&self, kind: Kind, handle: Handle) -> (u64, u64) {
        let (completion, asynchronous) = match kind {
            Kind::Cq => self.cqs.get(&handle).map(|cq| (cq.events_unacknowledged, cq.async_unacknowledged)),
            Kind::Qp => self.qps.get(&handle).map(|qp| (Unacknowledged::default(), qp.async_unacknowledged)),
            Kind::Srq => self.srqs.get(&handle).map(|srq| (Unacknowledged::default(), srq.async_unacknowledged)),
            _ => None,
        }
        .unwrap_or_default();
        (completion.pending_on(self.thread), asynchronous.pending_on(self.thread))
    }

    /// Reports events that make the destruction of their object wait.
    pub(super) fn check_events_acknowledged(&mut self, kind: Kind, handle: Handle, site: Site) {
        let (completion, asynchronous) = self.unacknowledged(kind, handle);
        let (count, what) = if completion > 0 { (completion, "completion") } else { (asynchronous, "asynchronous") };
        if count > 0 {
            let plural = if count == 1 { "" } else { "s" };
            let message =
                format!("the program destroys a {} with {count} unacknowledged {what} event{plural}", kind.as_str());
            self.find(&rules::EVENT_UNACKNOWLEDGED, site, self.name(kind, handle), message);
        }
    }
}
