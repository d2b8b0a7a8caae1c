//! Events of the connection manager, copied and acknowledged immediately, so that destroying an identifier never waits
//! for an rsocket.

use libc::c_int;
use std::ptr::{NonNull, null, null_mut};
use weft_abi_types::{
    RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_CONNECT_RESPONSE,
    RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_UNREACHABLE, rdma_cm_event, rdma_cm_event_type,
    rdma_cm_id, rdma_conn_param, rdma_event_channel,
};

use crate::event::rdma_ack_cm_event;
use crate::get_event::rdma_get_cm_event;

/// An event of one identifier.
#[derive(Debug)]
pub(crate) struct Event {
    /// Key of the identifier's owner; for a connection request, the listener's.
    pub(crate) key: u64,
    /// Event type.
    pub(crate) kind: rdma_cm_event_type,
    /// The errno value of a failure, positive; 0 otherwise.
    pub(crate) errno: c_int,
    /// The connection's parameters, without private data.
    pub(crate) param: rdma_conn_param,
    /// The peer's private data.
    pub(crate) private: Vec<u8>,
    /// The new identifier of a connection request.
    pub(crate) request: Option<NonNull<rdma_cm_id>>,
}

/// Empty parameters.
pub(crate) const NO_PARAM: rdma_conn_param = rdma_conn_param {
    private_data: null(),
    private_data_len: 0,
    responder_resources: 0,
    initiator_depth: 0,
    flow_control: 0,
    retry_count: 0,
    rnr_retry_count: 0,
    srq: 0,
    qp_num: 0,
};

/// Returns the next event of a non-blocking channel; `None` if there is none, or the daemon is gone.
pub(crate) fn next(channel: *mut rdma_event_channel) -> Option<Event> {
    let mut event: *mut rdma_cm_event = null_mut();
    // SAFETY: the service's channel, and a place for the event, which is acknowledged once it is copied.
    unsafe {
        if rdma_get_cm_event(channel, &mut event) != 0 {
            return None;
        }
        let copy = copy(&*event);
        rdma_ack_cm_event(event);
        Some(copy)
    }
}

/// # Safety
/// The event must be alive, with its identifiers.
unsafe fn copy(event: &rdma_cm_event) -> Event {
    let request = event.event == RDMA_CM_EVENT_CONNECT_REQUEST;
    let owner = if request { event.listen_id } else { event.id };
    // SAFETY: the caller upholds the contract; the context is the number passed when the owner was created.
    let key = if owner.is_null() { 0 } else { unsafe { (*owner).context as u64 } };
    let mut param = NO_PARAM;
    let mut private = Vec::new();
    if has_param(event.event) {
        // SAFETY: these events of connected identifiers carry these parameters.
        param = unsafe { event.param.conn };
        if !param.private_data.is_null() {
            let bytes = usize::from(param.private_data_len);
            // SAFETY: the parameters state the number of bytes.
            private = unsafe { std::slice::from_raw_parts(param.private_data.cast::<u8>(), bytes) }.to_vec();
        }
        param.private_data = null();
    }
    let new = if request { NonNull::new(event.id) } else { None };
    Event { key, kind: event.event, errno: errno(event), param, private, request: new }
}

fn has_param(kind: rdma_cm_event_type) -> bool {
    [
        RDMA_CM_EVENT_CONNECT_REQUEST,
        RDMA_CM_EVENT_CONNECT_RESPONSE,
        RDMA_CM_EVENT_ESTABLISHED,
        RDMA_CM_EVENT_CONNECT_ERROR,
        RDMA_CM_EVENT_UNREACHABLE,
        RDMA_CM_EVENT_REJECTED,
    ]
    .contains(&kind)
}

/// Returns the errno value for a call that waited for the event. A rejection's status is a reason code from the wire.
fn errno(event: &rdma_cm_event) -> c_int {
    match event.status {
        0 => 0,
        _ if event.event == RDMA_CM_EVENT_REJECTED => libc::ECONNREFUSED,
        status => status.saturating_abs(),
    }
}
