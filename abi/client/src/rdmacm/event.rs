//! Events, copied out of the library.

use std::io;

use weft_abi_types::{
    RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED,
    RDMA_PS_IPOIB, RDMA_PS_UDP, ibv_ah_attr, rdma_cm_event, rdma_cm_event_type, rdma_conn_param,
};

use super::{CmId, EventChannel, IdKey, readable};
use crate::verbs::check;

/// Address of datagrams to a peer or a multicast group.
#[derive(Clone, Copy)]
pub struct UdParam {
    /// Address handle attributes of the path.
    pub ah_attr: ibv_ah_attr,
    /// Queue pair.
    pub qpn: u32,
    /// Its Q_Key.
    pub qkey: u32,
}

impl UdParam {
    /// The destination GID of datagrams.
    pub fn dgid(&self) -> [u8; 16] {
        // SAFETY: both members of the union are plain bytes.
        unsafe { self.ah_attr.grh.dgid.raw }
    }
}

/// Parameters of a connection that the peer sent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerParam {
    /// The peer's private data; connection managers may have appended zeros.
    pub private_data: Vec<u8>,
    /// Maximum number of READs and atomics that this side may have to answer at a time.
    pub responder_resources: u8,
    /// Maximum number of READs and atomics that this side may have outstanding.
    pub initiator_depth: u8,
}

/// An event.
#[derive(Clone)]
pub struct Event {
    /// The id that the event is for; in a connection request, the new id.
    pub id: IdKey,
    /// `RDMA_CM_EVENT_...`.
    pub kind: rdma_cm_event_type,
    /// A negative errno, or the peer's reject reason; 0 on success.
    pub status: i32,
    /// The new id of a connection request; destroyed unless the program takes it.
    pub incoming: Option<CmId>,
    /// Address of the peer or group, on datagram ids.
    pub ud: Option<UdParam>,
    /// The peer's parameters, in connection requests, in responses, in refusals and when a connection is established.
    pub peer: Option<PeerParam>,
}

impl PeerParam {
    /// # Safety
    /// The parameters are those of an event that is not acknowledged yet.
    unsafe fn copy(raw: &rdma_conn_param) -> PeerParam {
        let mut private_data = Vec::new();
        if !raw.private_data.is_null() {
            // SAFETY: the library keeps that many bytes until the event is acknowledged.
            let bytes = unsafe { std::slice::from_raw_parts(raw.private_data.cast(), raw.private_data_len.into()) };
            private_data.extend_from_slice(bytes);
        }
        let (responder_resources, initiator_depth) = (raw.responder_resources, raw.initiator_depth);
        PeerParam { private_data, responder_resources, initiator_depth }
    }
}

impl Event {
    /// # Safety
    /// The event is one of the channel's, and not acknowledged yet.
    unsafe fn copy(channel: &EventChannel, raw: &rdma_cm_event) -> Event {
        // SAFETY: the id of an event is alive until the event is acknowledged; its port space tells which member of the
        // union is valid, and both are plain numbers.
        let ud = unsafe {
            matches!((*raw.id).ps, RDMA_PS_UDP | RDMA_PS_IPOIB).then(|| {
                let ud = raw.param.ud;
                UdParam { ah_attr: ud.ah_attr, qpn: ud.qp_num, qkey: ud.qkey }
            })
        };
        let request = raw.event == RDMA_CM_EVENT_CONNECT_REQUEST;
        let has_param = request
            || matches!(raw.event, RDMA_CM_EVENT_CONNECT_RESPONSE | RDMA_CM_EVENT_ESTABLISHED | RDMA_CM_EVENT_REJECTED);
        // SAFETY: events of ids that are not for datagrams have these parameters, which are plain numbers and a pointer.
        let peer = (ud.is_none() && has_param).then(|| unsafe { PeerParam::copy(&raw.param.conn) });
        Event {
            id: IdKey::of(raw.id),
            kind: raw.event,
            status: raw.status,
            // SAFETY: the id of a connection request is new, and nothing else owns it.
            incoming: request.then(|| unsafe { CmId::adopt(channel, raw.id) }),
            ud,
            peer,
        }
    }
}

impl EventChannel {
    /// Waits for an event.
    pub fn next(&self) -> io::Result<Event> {
        let calls = self.library().calls;
        let mut event = std::ptr::null_mut();
        // SAFETY: the channel is alive; the event is valid until it is acknowledged, after it was copied.
        unsafe {
            check((calls.rdma_get_cm_event)(self.ptr(), &mut event))?;
            let copy = Event::copy(self, &*event);
            check((calls.rdma_ack_cm_event)(event))?;
            Ok(copy)
        }
    }

    /// Returns a pending event, if there is one.
    pub fn poll(&self) -> io::Result<Option<Event>> {
        if readable(&[self.fd()], Some(0))?[0] { self.next().map(Some) } else { Ok(None) }
    }
}
