//! Asynchronous events, and the path of every event from the adapter to the program.

use libc::c_int;
use weft_abi_types::{
    IBV_EVENT_CQ_ERR, IBV_EVENT_QP_LAST_WQE_REACHED, IBV_EVENT_SQ_DRAINED, IBV_EVENT_SRQ_ERR,
    IBV_EVENT_SRQ_LIMIT_REACHED, ibv_async_event, ibv_context, ibv_cq, ibv_qp, ibv_srq,
};
use weft_engine::EventSink;
use weft_verbs::{AsyncEvent, AsyncSubject, Cookie};

use crate::async_item::{About, AsyncItem};
use crate::context::Context;
use crate::cq::Cq;
use crate::errors::fail_minus_one;
use crate::object::{Object, acknowledge, zeroed};
use crate::qp::{Handles, Qp};
use crate::queue::Open;
use crate::srq::Srq;

/// Passes events to the context at this address, or to the object that they name.
pub(crate) struct Sink(usize);

impl Sink {
    /// Returns the sink of a context's events.
    pub(crate) fn new(context: *mut ibv_context) -> Sink {
        Sink(context.expose_provenance())
    }
}

impl EventSink for Sink {
    fn completion(&self, cookie: Cookie) {
        on_completion(cookie);
    }

    fn async_event(&self, event: AsyncEvent, subject: AsyncSubject, cookie: Cookie) {
        on_async(self.0, event, subject, cookie);
    }
}

/// Counts a taken event for its subject.
///
/// # Safety
/// The object is alive: its events are purged before it is freed, and their list is locked.
unsafe fn on_taken(about: About) {
    // SAFETY: by the contract.
    unsafe {
        match about {
            About::Cq(address) => Cq::at(address).async_reported.add(),
            About::Qp(address) => Qp::at(address).reported.add(),
            About::Srq(address) => Srq::at(address).reported.add(),
            About::Port(_) => {}
        }
    }
}

/// Handles a completion event for an armed completion queue, whose address is the cookie. The queue is alive: its
/// destroyer waits in [`crate::process::Process::quiesce`] until no event names it any more.
fn on_completion(cookie: Cookie) {
    // SAFETY: the queue is alive, as said above.
    unsafe { Cq::at(cookie as usize) }.on_completion_event();
}

/// Handles an asynchronous event for the context at this address, or for the object whose address is the cookie. Both
/// are alive, as for [`on_completion`].
fn on_async(context: usize, event: AsyncEvent, subject: AsyncSubject, cookie: Cookie) {
    let address = cookie as usize;
    let item = |about| AsyncItem { event, about };
    // SAFETY: the context and the objects are alive, as said above.
    unsafe {
        match subject {
            AsyncSubject::Cq(_) => Cq::at(address).context().events.push(item(About::Cq(address))),
            AsyncSubject::Srq(_) => Srq::at(address).context().events.push(item(About::Srq(address))),
            AsyncSubject::Qp(_) => {
                Handles::at(address).each(|qp| qp.context().events.push(item(About::Qp(qp.address()))));
            }
            AsyncSubject::Port(port) => Context::at(context).events.push(item(About::Port(port))),
            AsyncSubject::Device => Context::at(context).events.push(item(About::Port(0))),
        }
    }
}

/// The open contexts.
pub(crate) static CONTEXTS: Open<AsyncItem> = Open::new();

/// Takes the next event of a device, waiting for one unless the descriptor is O_NONBLOCK.
pub unsafe extern "C" fn ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int {
    if context.is_null() || event.is_null() {
        return fail_minus_one(libc::EINVAL);
    }
    // SAFETY: the list is locked while this runs.
    let taken = |item: &AsyncItem| unsafe { on_taken(item.about) };
    let item = match CONTEXTS.find(context.addr()).and_then(|events| events.pop(taken)) {
        Ok(item) => item,
        Err(errno) => return fail_minus_one(errno),
    };
    let mut out: ibv_async_event = zeroed();
    out.event_type = item.event as u32;
    // SAFETY: objects live until their events are acknowledged.
    unsafe {
        match item.about {
            About::Cq(address) => out.element.cq = Cq::at(address).public_cq(),
            About::Qp(address) => out.element.qp = Qp::at(address).public_qp(),
            About::Srq(address) => out.element.srq = Srq::at(address).public(),
            About::Port(port) => out.element.port_num = c_int::from(port),
        }
        *event = out;
    }
    0
}

/// Acknowledges an event; an object can only be destroyed once all its events are acknowledged.
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    if event.is_null() {
        return;
    }
    // SAFETY: an event that ibv_get_async_event filled in; the object lives until this is counted.
    unsafe {
        let element = (*event).element;
        match (*event).event_type {
            IBV_EVENT_CQ_ERR => {
                let cq: *mut ibv_cq = element.cq;
                acknowledge(&raw mut (*cq).mutex, &raw mut (*cq).cond, &raw mut (*cq).async_events_completed, 1);
            }
            IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => {
                let srq: *mut ibv_srq = element.srq;
                acknowledge(&raw mut (*srq).mutex, &raw mut (*srq).cond, &raw mut (*srq).events_completed, 1);
            }
            kind if is_about_qp(kind) => {
                let qp: *mut ibv_qp = element.qp;
                acknowledge(&raw mut (*qp).mutex, &raw mut (*qp).cond, &raw mut (*qp).events_completed, 1);
            }
            _ => {}
        }
    }
}

/// Whether an event type is about a queue pair: QP_FATAL to PATH_MIG_ERR, and LAST_WQE_REACHED.
fn is_about_qp(event_type: u32) -> bool {
    const FIRST: u32 = AsyncEvent::QpFatal as u32;
    const LAST: u32 = AsyncEvent::PathMigErr as u32;
    const _: () = assert!(FIRST < IBV_EVENT_SQ_DRAINED && IBV_EVENT_SQ_DRAINED < LAST);
    (FIRST..=LAST).contains(&event_type) || event_type == IBV_EVENT_QP_LAST_WQE_REACHED
}
