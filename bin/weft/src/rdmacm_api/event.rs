//! Events, copied out of the library.

use weft_abi_types::{
    RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_PS_IPOIB, RDMA_PS_UDP, ibv_ah_attr, rdma_cm_event, rdma_cm_event_type,
    rdma_cm_id,
};

use super::{CmId, EventChannel};

/// What tells one id from all others that are alive: the address of its structure, as the tools' debug output shows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct IdKey(pub(super) usize);

impl std::fmt::LowerHex for IdKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::LowerHex::fmt(&self.0, f)
    }
}

/// How to send datagrams to a peer or a group.
#[derive(Clone, Copy)]
pub struct UdParam {
    /// The way.
    pub ah_attr: ibv_ah_attr,
    /// Queue pair.
    pub qpn: u32,
    /// Its Q_Key.
    pub qkey: u32,
}

impl UdParam {
    /// The GID that datagrams go to.
    pub fn dgid(&self) -> [u8; 16] {
        // SAFETY: both members of the union are plain bytes.
        unsafe { self.ah_attr.grh.dgid.raw }
    }
}

/// An event.
#[derive(Clone)]
pub struct Event {
    /// Whose it is; of a request for a connection, the new id.
    pub id: IdKey,
    /// `RDMA_CM_EVENT_...`.
    pub kind: rdma_cm_event_type,
    /// A negative errno, or the peer's reason to reject; 0 if nothing went wrong.
    pub status: i32,
    /// The new id of a request for a connection; destroyed if nobody takes it.
    pub incoming: Option<CmId>,
    /// How to reach the peer or group, on ids of datagrams.
    pub ud: Option<UdParam>,
}

impl Event {
    /// # Safety
    /// The event is one of the channel's, and not acknowledged yet.
    pub(super) unsafe fn copy(channel: &EventChannel, raw: &rdma_cm_event) -> Event {
        // SAFETY: the id of an event is alive until the event is acknowledged; which member of the union holds is told
        // by its port space, and both are plain numbers.
        let ud = unsafe {
            matches!((*raw.id).ps, RDMA_PS_UDP | RDMA_PS_IPOIB).then(|| {
                let ud = raw.param.ud;
                UdParam { ah_attr: ud.ah_attr, qpn: ud.qp_num, qkey: ud.qkey }
            })
        };
        let request = raw.event == RDMA_CM_EVENT_CONNECT_REQUEST;
        Event {
            id: key(raw.id),
            kind: raw.event,
            status: raw.status,
            // SAFETY: the id of a request is new and nobody else's.
            incoming: request.then(|| unsafe { CmId::adopt(channel, raw.id) }),
            ud,
        }
    }
}

pub(super) fn key(id: *mut rdma_cm_id) -> IdKey {
    IdKey(id as usize)
}
