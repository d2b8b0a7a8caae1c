//! Commands that programs send to the connection manager, and its replies: those of Linux's `rdma_ucm` device. The
//! owner of the connections to programs opens and closes channels, see [`super::Service::open_channel`].

use serde::{Deserialize, Serialize};

use super::address::{PortSpace, SockAddr};
use super::param::{ConnParam, Ece, PathRecord, QpAttributes};
use crate::iw::MpaOptions;

/// Number of an id (`struct rdma_cm_id`), never 0. Numbers are not reused soon.
pub type IdNumber = u32;

/// Number of a membership in a group, never 0.
pub type GroupNumber = u32;

/// A request. Every id that it names must belong to the requesting client: `ENOENT` otherwise, as in Linux.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Command {
    /// `rdma_create_id`; returns [`Reply::Id`].
    CreateId {
        /// Number of the event channel, of the same client.
        channel: u32,
        /// Port space.
        port_space: PortSpace,
        /// Value of `enum ibv_qp_type`: RC 2, UC 3, UD 4, XRC_SEND 9, XRC_RECV 10.
        qp_type: u8,
        /// Reported in events; not 0.
        cookie: u64,
    },
    /// `rdma_destroy_id`; returns [`Reply::EventsReported`]. Events queued for this id are dropped; requests that wait
    /// on a listener are rejected.
    DestroyId {
        /// The id.
        id: IdNumber,
    },
    /// `rdma_bind_addr`. Port 0 selects a free one. Returns [`Reply::Route`].
    Bind {
        /// The id.
        id: IdNumber,
        /// Local address.
        addr: SockAddr,
    },
    /// `rdma_resolve_addr`; ADDR_RESOLVED or ADDR_ERROR follows.
    ResolveAddr {
        /// The id.
        id: IdNumber,
        /// Local address to bind first, if the id is not bound yet.
        src: Option<SockAddr>,
        /// Peer's address.
        dst: SockAddr,
        /// Timeout.
        timeout_ms: u32,
    },
    /// `rdma_resolve_route`; ROUTE_RESOLVED or ROUTE_ERROR follows.
    ResolveRoute {
        /// The id.
        id: IdNumber,
        /// Timeout.
        timeout_ms: u32,
    },
    /// Addresses and route of an id; returns [`Reply::Route`].
    Query {
        /// The id.
        id: IdNumber,
    },
    /// `rdma_init_qp_attr`; returns [`Reply::QpAttributes`].
    InitQpAttr {
        /// The id.
        id: IdNumber,
        /// Value of `enum ibv_qp_state`: INIT 1, RTR 2, RTS 3.
        qp_state: u32,
    },
    /// `rdma_connect`.
    Connect {
        /// The id.
        id: IdNumber,
        /// Parameters.
        param: ConnParam,
        /// Options offered (`rdma_set_local_ece`).
        ece: Ece,
    },
    /// `rdma_listen`; returns [`Reply::Route`].
    Listen {
        /// The id.
        id: IdNumber,
        /// Requests that may wait; a value out of range means the maximum.
        backlog: i32,
    },
    /// `rdma_accept`; without parameters it completes a connection after CONNECT_RESPONSE.
    Accept {
        /// The id.
        id: IdNumber,
        /// The cookie for this id from now on; a new id reports events only once it has one. 0 changes nothing.
        cookie: u64,
        /// Parameters.
        param: Option<ConnParam>,
        /// Options chosen.
        ece: Ece,
    },
    /// `rdma_reject` and `rdma_reject_ece`.
    Reject {
        /// The id.
        id: IdNumber,
        /// Private data.
        private_data: Vec<u8>,
        /// Reason as on the wire: 28 consumer defined, 35 vendor option not supported; 0 means 28.
        reason: u8,
    },
    /// `rdma_disconnect`.
    Disconnect {
        /// The id.
        id: IdNumber,
    },
    /// `rdma_notify` and `rdma_establish`: an asynchronous event of the queue pair.
    Notify {
        /// The id.
        id: IdNumber,
        /// Value of `enum ibv_event_type`; only COMM_EST (4) has an effect.
        event: u32,
    },
    /// `rdma_set_option`.
    SetOption {
        /// The id.
        id: IdNumber,
        /// The option and its value.
        option: IdOption,
    },
    /// `rdma_join_multicast` and `rdma_join_multicast_ex`; returns [`Reply::Group`]; MULTICAST_JOIN or MULTICAST_ERROR
    /// follows.
    JoinMulticast {
        /// The id.
        id: IdNumber,
        /// The group.
        addr: SockAddr,
        /// Kind of member.
        join: JoinKind,
        /// Reported in events of this membership; not 0.
        cookie: u64,
    },
    /// `rdma_leave_multicast`; returns [`Reply::EventsReported`].
    LeaveMulticast {
        /// The membership.
        group: GroupNumber,
    },
    /// `rdma_migrate_id`: moves the id's events, queued ones included, to this channel; returns
    /// [`Reply::EventsReported`].
    MigrateId {
        /// The id.
        id: IdNumber,
        /// Number of the new channel, of the same client.
        channel: u32,
    },
    /// `rdma_write_cm_event`: a user-defined event.
    WriteEvent {
        /// The id.
        id: IdNumber,
        /// Number: 18 for programs, 19 for libraries.
        event: u32,
        /// Its status.
        status: i32,
        /// Argument.
        arg: u64,
    },
    /// Reads the defaults of new ids on a device; returns [`Reply::Defaults`]. Needs no privilege.
    QueryDefaults {
        /// Index of the device.
        device: u32,
    },
    /// Sets these defaults; needs privilege (`EPERM`), and a GID of that framing (`EINVAL`). Returns
    /// [`Reply::Defaults`].
    SetDefaults {
        /// Index of the device.
        device: u32,
        /// Framing; `None` keeps the current one.
        roce_mode: Option<RoceMode>,
        /// Type of service; `None` keeps the current one.
        roce_tos: Option<u8>,
    },
    /// Ids of all clients that this one may see, for `rdma resource show cm_id`; returns [`Reply::Ids`].
    ListIds {
        /// Number after which to begin, 0 at first.
        after: IdNumber,
    },
}

/// An option of an id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum IdOption {
    /// `RDMA_OPTION_ID_TOS`.
    Tos(u8),
    /// `RDMA_OPTION_ID_REUSEADDR`.
    ReuseAddr(bool),
    /// `RDMA_OPTION_ID_AFONLY`.
    AfOnly(bool),
    /// `RDMA_OPTION_ID_ACK_TIMEOUT`: 5 bits.
    AckTimeout(u8),
    /// Wishes for the negotiation of iWARP connections; listeners pass it on to their connections.
    Mpa(MpaOptions),
    /// `RDMA_OPTION_IB_PATH`: sets the route instead of resolving it; ROUTE_RESOLVED follows.
    IbPath(Vec<PathRecord>),
}

/// Kind of member of a group: `RDMA_MC_JOIN_FLAG_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum JoinKind {
    /// Sends and receives.
    FullMember,
    /// Only sends.
    SendOnlyFullMember,
}

/// Framing of RoCE packets, a default of new ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RoceMode {
    /// RoCE v1.
    V1,
    /// RoCE v2.
    V2,
}

/// A reply.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Success without further data.
    Done,
    /// Number of a new id.
    Id(IdNumber),
    /// Number of events of the id, or the membership, that [`super::Service::poll_event`] returned: the library waits
    /// until the program has acknowledged as many.
    EventsReported(u32),
    /// Addresses and route.
    Route(Box<RouteInfo>),
    /// Attributes of a queue pair.
    QpAttributes(Box<QpAttributes>),
    /// Number of a new membership.
    Group(GroupNumber),
    /// Defaults of new ids on a device.
    Defaults {
        /// Framing.
        roce_mode: RoceMode,
        /// Type of service.
        roce_tos: u8,
    },
    /// A page of ids.
    Ids {
        /// In the order of their numbers.
        ids: Vec<IdSummary>,
        /// Whether more follow.
        more: bool,
    },
}

/// Addresses and route of an id: the replies to `QUERY_ADDR`, `QUERY_PATH` and `QUERY_GID` in one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RouteInfo {
    /// Local address, once there is one.
    pub src: Option<SockAddr>,
    /// Peer's address, once there is one.
    pub dst: Option<SockAddr>,
    /// The device, once the id has one.
    pub device: Option<DeviceRef>,
    /// Paths, none before the route is resolved.
    pub paths: Vec<PathRecord>,
    /// Local GID, zero before there is a device.
    pub sgid: [u8; 16],
    /// Peer's GID.
    pub dgid: [u8; 16],
    /// P_Key of the addresses.
    pub pkey: u16,
}

/// The device of an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeviceRef {
    /// Its index, as in [`super::Device::index`].
    pub index: u32,
    /// Its node GUID.
    pub node_guid: u64,
    /// Port, 1.
    pub port_num: u8,
}

/// A line of `rdma resource show cm_id`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IdSummary {
    /// Number.
    pub id: IdNumber,
    /// Index of the device, once the id has one.
    pub device: Option<u32>,
    /// Number of the queue pair, 0 before there is one.
    pub qp_num: u32,
    /// Value of `enum ibv_qp_type`.
    pub qp_type: u8,
    /// State, as `enum rdma_cm_state` of Linux numbers it.
    pub state: u8,
    /// Port space.
    pub port_space: PortSpace,
    /// Process.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// Local address.
    pub src: Option<SockAddr>,
    /// Peer's address.
    pub dst: Option<SockAddr>,
}
