//! Events: fetching them, handling them in the library (moving queue pairs along, creating identifiers for requests),
//! and acknowledging them.

use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::Duration;
use weft_abi_types::{
    RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ADDRINFO_RESOLVED, RDMA_CM_EVENT_CONNECT_ERROR,
    RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_DEVICE_REMOVAL, RDMA_CM_EVENT_ESTABLISHED,
    RDMA_CM_EVENT_MULTICAST_ERROR, RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_ROUTE_ERROR, RDMA_MAX_PRIVATE_DATA,
    rdma_cm_event, rdma_cm_event_param, rdma_cm_event_type, rdma_cm_id, rdma_conn_param, rdma_event_channel,
    rdma_ud_param,
};
use weft_cm::rdma_cm::{CmEvent, Command, EventKind, EventParam};

use crate::channel::Channel;
use crate::daemon::{Events, Told};
use crate::errors::{errno, fail};
use crate::id::Id;
use crate::multicast::Group;
use crate::{connect, migrate, multicast, qp_attr, qp_state, registry, route};

/// An event: the public structure followed by our private part.
#[repr(C)]
pub(crate) struct Event {
    public: rdma_cm_event,
    private_data: [u8; RDMA_MAX_PRIVATE_DATA],
    /// The identifier that counts it; for a request, the listener.
    owner: *const Id,
    group: Option<Arc<Group>>,
}

/// Delay before a thread that comes to a destroyed channel gets its error. Had it come a moment earlier it would wait
/// for good. A program that is about to exit ends meanwhile, and with its own status: rping of rdma-core 44 exits with
/// 255 if it sees the error first.
const DESTROYED_WAIT: Duration = Duration::from_secs(1);

/// Names by value of `enum rdma_cm_event_type`.
const NAMES: [&CStr; 18] = [
    c"RDMA_CM_EVENT_ADDR_RESOLVED",
    c"RDMA_CM_EVENT_ADDR_ERROR",
    c"RDMA_CM_EVENT_ROUTE_RESOLVED",
    c"RDMA_CM_EVENT_ROUTE_ERROR",
    c"RDMA_CM_EVENT_CONNECT_REQUEST",
    c"RDMA_CM_EVENT_CONNECT_RESPONSE",
    c"RDMA_CM_EVENT_CONNECT_ERROR",
    c"RDMA_CM_EVENT_UNREACHABLE",
    c"RDMA_CM_EVENT_REJECTED",
    c"RDMA_CM_EVENT_ESTABLISHED",
    c"RDMA_CM_EVENT_DISCONNECTED",
    c"RDMA_CM_EVENT_DEVICE_REMOVAL",
    c"RDMA_CM_EVENT_MULTICAST_JOIN",
    c"RDMA_CM_EVENT_MULTICAST_ERROR",
    c"RDMA_CM_EVENT_ADDR_CHANGE",
    c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
    c"RDMA_CM_EVENT_ADDRINFO_RESOLVED",
    c"RDMA_CM_EVENT_ADDRINFO_ERROR",
];

/// Returns the name of an event, spelled as its constant.
pub extern "C" fn rdma_event_str(event: rdma_cm_event_type) -> *const c_char {
    NAMES.get(event as usize).copied().unwrap_or(c"UNKNOWN EVENT").as_ptr()
}

impl Event {
    /// Creates an event of `owner`, which has already counted it.
    fn new(owner: &Id, kind: rdma_cm_event_type, status: c_int) -> Box<Event> {
        // SAFETY: a structure of integers and pointers, all of which may be zero.
        let param: rdma_cm_event_param = unsafe { std::mem::zeroed() };
        let public = rdma_cm_event { id: owner.public(), listen_id: null_mut(), event: kind, status, param };
        Box::new(Event { public, private_data: [0; RDMA_MAX_PRIVATE_DATA], owner, group: None })
    }

    /// Fills in the daemon's parameters.
    fn fill(&mut self, param: &EventParam) {
        match param {
            EventParam::None => {}
            EventParam::User(arg) => self.public.param.arg = *arg,
            EventParam::Conn(conn) => {
                let (private_data, private_data_len) = self.keep(&conn.private_data);
                self.public.param.conn = rdma_conn_param {
                    private_data,
                    private_data_len,
                    responder_resources: conn.responder_resources,
                    initiator_depth: conn.initiator_depth,
                    flow_control: conn.flow_control,
                    retry_count: conn.retry_count,
                    rnr_retry_count: conn.rnr_retry_count,
                    srq: conn.srq.into(),
                    qp_num: conn.qp_num,
                };
            }
            EventParam::Ud(ud) => {
                let (private_data, private_data_len) = self.keep(&ud.private_data);
                self.public.param.ud = rdma_ud_param {
                    private_data,
                    private_data_len,
                    ah_attr: qp_attr::ah_attr(&ud.ah_attr),
                    qp_num: ud.qp_num,
                    qkey: ud.qkey,
                };
            }
        }
    }

    /// Stores private data for the program to read. The box does not move.
    fn keep(&mut self, data: &[u8]) -> (*const c_void, u8) {
        let len = data.len().min(usize::from(u8::MAX));
        for (to, from) in self.private_data.iter_mut().zip(data.iter().take(len)) {
            *to = *from;
        }
        (if len == 0 { null() } else { self.private_data.as_ptr().cast() }, len as u8)
    }

    /// Turns the event into an error if its handling failed.
    fn turn(&mut self, result: Result<(), c_int>, kind: rdma_cm_event_type) {
        if let Err(errno) = result {
            self.public.event = kind;
            self.public.status = -errno;
        }
    }
}

/// Returns the result of a call that waited for an event.
pub(crate) unsafe fn verdict(event: *const rdma_cm_event) -> Result<(), c_int> {
    // SAFETY: an event that the caller just fetched.
    let (kind, status) = unsafe { ((*event).event, (*event).status) };
    match status {
        0 => Ok(()),
        _ if kind == RDMA_CM_EVENT_REJECTED => Err(libc::ECONNREFUSED),
        status => Err(status.saturating_abs()),
    }
}

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
        EventKind::RouteResolved => event.turn(route::show_paths(id), RDMA_CM_EVENT_ROUTE_ERROR),
        EventKind::ConnectResponse => {
            event.fill(&told.param);
            answer(id, told, &mut event);
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
        EventKind::Internal if told.param == EventParam::User(RDMA_CM_EVENT_ADDRINFO_RESOLVED.into()) => {
            event.public.event = RDMA_CM_EVENT_ADDRINFO_RESOLVED;
        }
        _ => event.fill(&told.param),
    }
    Some(event)
}

/// Handles the peer's acceptance: moves the identifier's queue pair along, which establishes the connection.
fn answer(id: &Id, told: &CmEvent, event: &mut Event) {
    // SAFETY: a plain read of a pointer that the program's own calls set.
    let qp = unsafe { (*id.public()).qp };
    if qp.is_null() {
        let mut state = id.state.lock();
        state.remote_ece.vendor_id = told.ece.vendor_id;
        state.remote_ece.options = told.ece.attr_mod;
        return;
    }
    match connect::follow_answer(id, &told.ece) {
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
        Id::enroll(told.id, registry::cookie(), channel, false, context, (*listener).ps, (*listener).qp_type)
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
    if ready.and_then(|()| route::show_all(this)).is_err() {
        // SAFETY: as above; it has no events.
        unsafe { crate::id::rdma_destroy_id(id) };
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
        let joined = multicast::attach(id, &group, &told.param);
        event.turn(joined, RDMA_CM_EVENT_MULTICAST_ERROR);
    }
    event.public.param.ud.private_data = group.context();
    event.group = Some(group);
    Some(event)
}

/// Acknowledges and frees an event, with all that it points to.
pub unsafe extern "C" fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    if event.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: an event of ours, acknowledged once; its owner waits for that before it is freed.
    unsafe {
        let event = Box::from_raw(event.cast::<Event>());
        let owner = &*event.owner;
        if let Some(group) = &event.group {
            group.count_acknowledgement(owner);
        }
        owner.complete_event();
    }
    0
}

/// Returns the next connection request of a listener without a channel, with a queue pair if the listener has
/// attributes for one.
pub unsafe extern "C" fn rdma_get_request(listen: *mut rdma_cm_id, id: *mut *mut rdma_cm_id) -> c_int {
    if listen.is_null() || id.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: the program's listener, used by this call alone, and a place for the identifier.
    unsafe {
        let this = Id::of(listen);
        if !this.state.lock().sync {
            return fail(libc::EINVAL);
        }
        crate::id::give_back(listen);
        let mut event: *mut rdma_cm_event = null_mut();
        if rdma_get_cm_event((*listen).channel, &mut event) != 0 {
            return -1;
        }
        match accept_request(this, event) {
            Ok(()) => {
                *id = (*event).id;
                (**id).event = event;
                0
            }
            Err(errno) => {
                (*listen).event = event;
                fail(errno)
            }
        }
    }
}

/// Checks that an event is a request, and gives its identifier the queue pair that the listener has attributes for.
unsafe fn accept_request(listener: &Id, event: *mut rdma_cm_event) -> Result<(), c_int> {
    // SAFETY: an event just fetched, whose identifier no other code knows yet.
    unsafe {
        verdict(event)?;
        if (*event).event != RDMA_CM_EVENT_CONNECT_REQUEST {
            return Err(libc::EINVAL);
        }
        let attr = listener.state.lock().qp_init_attr;
        let Some(mut attr) = attr else { return Ok(()) };
        let pd = (*listener.public()).pd;
        match crate::qp::rdma_create_qp((*event).id, pd, &mut attr) {
            0 => Ok(()),
            _ => Err(errno()),
        }
    }
}
