//! Events that programs receive through an event channel.

use serde::{Deserialize, Serialize};

use super::command::{GroupNumber, IdNumber};
use super::param::{ConnParam, Ece, UdParam};

/// Kinds of events: values of `enum rdma_cm_event_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs)] // The names are rdma_cma.h's.
#[repr(u8)]
pub enum EventKind {
    AddrResolved = 0,
    AddrError = 1,
    RouteResolved = 2,
    RouteError = 3,
    ConnectRequest = 4,
    ConnectResponse = 5,
    ConnectError = 6,
    Unreachable = 7,
    Rejected = 8,
    Established = 9,
    Disconnected = 10,
    DeviceRemoval = 11,
    MulticastJoin = 12,
    MulticastError = 13,
    AddrChange = 14,
    TimewaitExit = 15,
    AddrinfoResolved = 16,
    AddrinfoError = 17,
    User = 18,
    Internal = 19,
}

/// An event, as `struct rdma_ucm_event_resp` carries it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CmEvent {
    /// Kind.
    pub kind: EventKind,
    /// The id that the event is about; for CONNECT_REQUEST the new one, which has no cookie until it is accepted.
    pub id: IdNumber,
    /// For CONNECT_REQUEST: the listener, to which the event counts.
    pub listener: Option<IdNumber>,
    /// For MULTICAST_JOIN and MULTICAST_ERROR: the membership.
    pub group: Option<GroupNumber>,
    /// Cookie of the id; for CONNECT_REQUEST the listener's, for the multicast events the membership's.
    pub cookie: u64,
    /// 0, a negative errno, or for REJECTED the reason from the wire.
    pub status: i32,
    /// Parameters.
    pub param: EventParam,
    /// Options that the peer offered.
    pub ece: Ece,
}

/// Parameters of an event.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum EventParam {
    /// None: all zero.
    #[default]
    None,
    /// Parameters of a connection. Its `qp_num` is the peer's.
    Conn(ConnParam),
    /// Argument of an event that the program wrote itself.
    User(u64),
    /// Parameters of datagrams (port spaces UDP and IPOIB, queue pairs of type UD).
    Ud(UdParam),
}
