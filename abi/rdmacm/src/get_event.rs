//! Fetching events, and handling them in the library: it moves queue pairs along, and creates identifiers for requests.

use libc::c_int;
use std::time::Duration;
use weft_abi_types::{
    RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ADDRINFO_RESOLVED, RDMA_CM_EVENT_CONNECT_ERROR,
    RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_DEVICE_REMOVAL, RDMA_CM_EVENT_ESTABLISHED,
    RDMA_CM_EVENT_MULTICAST_ERROR, RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_ROUTE_ERROR, ibv_gid, rdma_cm_event,
    rdma_cm_event_type, rdma_event_channel,
};
use weft_cm::rdma_cm::{CmEvent, Command, EventKind, EventParam, JoinKind};

use crate::channel::Channel;
use crate::create::{enroll, rdma_destroy_id};
use crate::daemon::{Events, Told};
use crate::errors::{fail, verbs};
use crate::event::Event;
use crate::group::Group;
use crate::id::Id;
use crate::verbs::ibv_attach_mcast;
use crate::{answer, failure, migrate, qp_state, record, registry};

/// Delay before a thread that comes to a destroyed channel gets its error. Had it come a moment earlier it would wait
/// for good. A program that is about to exit ends meanwhile, and with its own status: rping of rdma-core 44 exits with
/// 255 if it sees the error first.
const DESTROYED_WAIT: Duration = Duration::from_secs(1);

/// Returns the next event of a channel. Waits unless the descriptor is in non-blocking mode: EAGAIN then. EBADF of a
/// channel that is destroyed.
pub unsafe extern "C" fn rdma_get_cm_event(channel: *mut rdma_event_channel, event: *mut *mut rdma_cm_event) -> c_int {
    if channel.is_null() || event.is_null() {
        return fail(libc::EINVAL);
    }
    // This thread holds a reference while it waits: a program may destroy the channel meanwhile, and the thread waits
    // on, as in rdma-core.
    let events = match Channel::find(channel) {
        Ok(channel) => channel.events,
        Err(errno) => {
            std::thread::sleep(DESTROYED_WAIT);
            return fail(errno);
        }
    };
    loop {
        let told = match events.next() {
            Ok(told) => told,
            Err(errno) => return fail(errno),
        };
        let made = match told {
            Told::Event(told) => of_daemon(&events, *told),
            Told::Gone => match registry::claim_orphan(channel) {
                Some(id) => Some(Event::new(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0)),
                None => return fail(libc::ENODEV),
            },
        };
        if let Some(made) = made {
            record::on_event(&made);
            // SAFETY: the caller's place for the event.
            unsafe { *event = Box::into_raw(made).cast() };
            return 0;
        }
    }
}

/// Creates an event from the daemon's message. `None` for one without interest, or about an identifier that no longer
/// exists.
fn of_daemon(events: &Events, told: CmEvent) -> Option<Box<Event>> {
    match told.kind {
        EventKind::ConnectRequest => request(events, &told),
        EventKind::MulticastJoin | EventKind::MulticastError => membership(&told),
        _ => {
            let id = registry::claim(told.cookie)?;
            let event = plain(id, &told);
            if event.is_none() {
                id.complete_event();
            }
            event
        }
    }
}

/// Creates an event of an existing identifier.
fn plain(id: &Id, told: &CmEvent) -> Option<Box<Event>> {
    let mut event = Event::new(id, told.kind as rdma_cm_event_type, told.status);
    match told.kind {
        EventKind::AddrResolved => {
            let shown = id.refresh().and_then(|()| id.device().map(|_| ()).map_err(|_| libc::ENODEV));
            event.turn(shown, RDMA_CM_EVENT_ADDR_ERROR);
        }
        EventKind::RouteResolved => event.turn(id.show_paths(), RDMA_CM_EVENT_ROUTE_ERROR),
        EventKind::ConnectResponse => {
            event.fill(&told.param);
            accepted(id, told, &mut event);
        }
        EventKind::Rejected => {
            if id.state.lock().connect_error {
                return None;
            }
            event.fill(&told.param);
            // An error changes nothing: the connection is refused either way.
            let _ = qp_state::to_error(id);
        }
        EventKind::Disconnected => {
            if id.state.lock().connect_error {
                return None;
            }
            event.fill(&told.param);
        }
        EventKind::Internal => match told.param {
            EventParam::User(arg) if arg == u64::from(RDMA_CM_EVENT_ADDRINFO_RESOLVED) => {
                event.public.event = RDMA_CM_EVENT_ADDRINFO_RESOLVED;
            }
            EventParam::User(arg) => injected(id, arg, &mut event),
            _ => event.fill(&told.param),
        },
        _ => event.fill(&told.param),
    }
    Some(event)
}

/// Handles the event of an injected failure.
fn injected(id: &Id, arg: u64, event: &mut Event) {
    let Some(kind) = failure::event_of(arg) else { return event.fill(&EventParam::User(arg)) };
    event.public.event = kind;
    if kind == RDMA_CM_EVENT_REJECTED {
        // As after a peer's REJ.
        let _ = qp_state::to_error(id);
    }
}

/// Handles the peer's acceptance: moves the identifier's queue pair along, which establishes the connection.
fn accepted(id: &Id, told: &CmEvent, event: &mut Event) {
    // SAFETY: a plain read of a pointer that the program's own calls set.
    let qp = unsafe { (*id.public()).qp };
    if qp.is_null() {
        let mut state = id.state.lock();
        state.remote_ece.vendor_id = told.ece.vendor_id;
        state.remote_ece.options = told.ece.attr_mod;
        return;
    }
    match answer::follow(id, &told.ece) {
        Ok(()) => event.public.event = RDMA_CM_EVENT_ESTABLISHED,
        Err(errno) => {
            event.turn(Err(errno), RDMA_CM_EVENT_CONNECT_ERROR);
            id.state.lock().connect_error = true;
        }
    }
}

/// Handles a peer's connection request: creates an identifier for it.
fn request(events: &Events, told: &CmEvent) -> Option<Box<Event>> {
    let Some(listener) = registry::claim(told.cookie) else {
        let _ = events.order(Command::DestroyId { id: told.id });
        return None;
    };
    let mut event = Event::new(listener, RDMA_CM_EVENT_CONNECT_REQUEST, told.status);
    event.fill(&told.param);
    event.public.listen_id = listener.public();
    // SAFETY: plain reads of fields set when the listener was created.
    let id = unsafe {
        let channel = listener.open_channel();
        let listener = listener.public();
        let context = (*listener).context;
        enroll(told.id, registry::cookie(), channel, false, context, (*listener).ps, (*listener).qp_type)
    };
    event.public.id = id;
    // SAFETY: just created.
    let this = unsafe { Id::of(id) };
    let sync = listener.state.lock().sync;
    {
        let mut state = this.state.lock();
        state.remote_ece.vendor_id = told.ece.vendor_id;
        state.remote_ece.options = told.ece.attr_mod;
        if let EventParam::Conn(conn) = &told.param {
            state.initiator_depth = conn.initiator_depth;
            state.responder_resources = conn.responder_resources;
        }
    }
    // SAFETY: an identifier of ours that no other code knows yet.
    let ready = unsafe { if sync { migrate::to_own_channel(id) } else { Ok(()) } };
    if ready.and_then(|()| this.show_all()).is_err() {
        // SAFETY: as above; it has no events.
        unsafe { rdma_destroy_id(id) };
        listener.complete_event();
        return None;
    }
    Some(event)
}

/// Handles the start or the failure of a group membership.
fn membership(told: &CmEvent) -> Option<Box<Event>> {
    let (group, id) = registry::claim_group(told.cookie)?;
    let mut event = Event::new(id, told.kind as rdma_cm_event_type, told.status);
    if told.kind == EventKind::MulticastJoin {
        event.fill(&told.param);
        let joined = attach(id, &group, &told.param);
        event.turn(joined, RDMA_CM_EVENT_MULTICAST_ERROR);
    }
    event.public.param.ud.private_data = group.context();
    event.group = Some(group);
    Some(event)
}

/// Handles the start of a membership: attaches the queue pair, if there is one, to the group.
fn attach(id: &Id, group: &Group, param: &EventParam) -> Result<(), c_int> {
    // SAFETY: a plain read of a pointer that the program's own calls set.
    let qp = unsafe { (*id.public()).qp };
    let EventParam::Ud(ud) = param else { return Ok(()) };
    if qp.is_null() || group.join == JoinKind::SendOnlyFullMember {
        return Ok(());
    }
    let gid = ibv_gid { raw: ud.ah_attr.dgid };
    // SAFETY: the identifier's queue pair.
    verbs(unsafe { ibv_attach_mcast(qp, &gid, ud.ah_attr.dlid) })?;
    group.set_attached(ud.ah_attr.dgid, ud.ah_attr.dlid);
    Ok(())
}
