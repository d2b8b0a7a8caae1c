//! Events that the program holds: their contents, and acknowledging them.

use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use weft_abi_types::{
    RDMA_CM_EVENT_REJECTED, RDMA_MAX_PRIVATE_DATA, rdma_cm_event, rdma_cm_event_param, rdma_cm_event_type, rdma_cm_id,
    rdma_conn_param, rdma_ud_param,
};
use weft_cm::rdma_cm::EventParam;

use crate::errors::fail;
use crate::group::Group;
use crate::id::Id;
use crate::qp_attr;

/// An event: the public structure followed by our private part.
#[repr(C)]
pub(crate) struct Event {
    pub(crate) public: rdma_cm_event,
    private_data: [u8; RDMA_MAX_PRIVATE_DATA],
    /// The identifier that counts it; for a request, the listener.
    owner: *const Id,
    pub(crate) group: Option<Arc<Group>>,
}

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
    pub(crate) fn new(owner: &Id, kind: rdma_cm_event_type, status: c_int) -> Box<Event> {
        // SAFETY: a structure of integers and pointers, all of which may be zero.
        let param: rdma_cm_event_param = unsafe { std::mem::zeroed() };
        let public = rdma_cm_event { id: owner.public(), listen_id: null_mut(), event: kind, status, param };
        Box::new(Event { public, private_data: [0; RDMA_MAX_PRIVATE_DATA], owner, group: None })
    }

    /// Fills in the daemon's parameters.
    pub(crate) fn fill(&mut self, param: &EventParam) {
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

    /// Returns the number of its identifier's queue pair, for records; 0 if there is none. A request's new identifier has
    /// none yet.
    pub(crate) fn qp_num(&self) -> u32 {
        // SAFETY: the owner lives until this event is acknowledged.
        let owner = unsafe { &*self.owner };
        if self.public.id == owner.public() { owner.state.lock().qp_num } else { 0 }
    }

    /// Turns the event into an error if its handling failed.
    pub(crate) fn turn(&mut self, result: Result<(), c_int>, kind: rdma_cm_event_type) {
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
            owner.complete_group_event(group);
        }
        owner.complete_event();
    }
    0
}

/// Acknowledges the event that the last call without a channel left.
pub(crate) unsafe fn give_back(id: *mut rdma_cm_id) {
    // SAFETY: as the caller promises.
    unsafe {
        let event = std::mem::replace(&mut (*id).event, null_mut());
        if !event.is_null() {
            rdma_ack_cm_event(event);
        }
    }
}
