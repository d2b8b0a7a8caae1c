//! Ids: one end of a connection, or a listener, from creation to destruction; and the table of all ids.

use std::collections::BTreeMap;

use weft_verbs::Instant;

use super::address::{Family, PortSpace, SockAddr};
use super::client::{ChannelId, ClientId};
use super::command::{GroupNumber, IdNumber, RoceMode};
use super::device::Place;
use super::host::QuestionId;
use super::param::{Ece, PathRecord};
use crate::ib::{ConnId, ListenId};
use crate::iw;

/// States of an id, numbered as `enum rdma_cm_state`.
///
/// ```text
///  Idle -> AddrBound -> Listen
///              |
///          AddrQuery <-> AddrResolved -> RouteQuery -> RouteResolved -> Connect -> Disconnect
/// ```
///
/// A failed query returns to the state before it. Device removal leads to DeviceRemoval from every state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// New.
    Idle = 0,
    /// The peer's address is being resolved.
    AddrQuery = 1,
    /// The peer's address is resolved.
    AddrResolved = 2,
    /// The route is being resolved.
    RouteQuery = 3,
    /// The route is resolved.
    RouteResolved = 4,
    /// Connecting, requested by a peer, or connected.
    Connect = 5,
    /// Disconnected by either side.
    Disconnect = 6,
    /// Has a local address.
    AddrBound = 7,
    /// Listens.
    Listen = 8,
    /// Its device was removed.
    DeviceRemoval = 9,
}

/// Queue pair types, as `enum ibv_qp_type` numbers them: reliable connections.
pub const QPT_RC: u8 = 2;
/// Unreliable connections.
pub const QPT_UC: u8 = 3;
/// Unreliable datagrams.
pub const QPT_UD: u8 = 4;
/// XRC initiator.
pub const QPT_XRC_SEND: u8 = 9;
/// XRC target.
pub const QPT_XRC_RECV: u8 = 10;

/// Port and GID of an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// Index of the device.
    pub device: u32,
    /// Its port.
    pub port: u8,
    /// Index of the local GID.
    pub sgid_index: u8,
    /// The local GID.
    pub sgid: [u8; 16],
    /// Interface of the local GID.
    pub ifindex: u32,
    /// Framing.
    pub mode: RoceMode,
}

impl Attachment {
    /// Returns the device index and port number.
    pub fn place(&self) -> Place {
        (self.device, self.port)
    }
}

/// Options that a program may set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Type of service.
    pub tos: Option<u8>,
    /// Local ACK timeout.
    pub ack_timeout: Option<u8>,
    /// Whether an address may be shared with other ids that also set this option.
    pub reuseaddr: bool,
    /// Whether to listen only in the id's own address family.
    pub afonly: bool,
    /// Whether the program set that option.
    pub afonly_set: bool,
    /// Wishes for the negotiation of iWARP connections.
    pub mpa: iw::MpaOptions,
}

/// One id.
#[derive(Debug)]
pub struct Id {
    /// Client that owns it.
    pub client: ClientId,
    /// Channel for its events.
    pub channel: ChannelId,
    /// Its port space.
    pub port_space: PortSpace,
    /// Type of queue pair.
    pub qp_type: u8,
    /// The owner's cookie; a new id of a listener has none until it is accepted, and reports no events until then.
    pub cookie: Option<u64>,
    /// State.
    pub state: State,
    /// Local address.
    pub src: Option<SockAddr>,
    /// Peer's address.
    pub dst: Option<SockAddr>,
    /// Interface to which a link-local address binds it, 0 if none.
    pub bound_if: u32,
    /// Device, once there is one.
    pub attachment: Option<Attachment>,
    /// GID of the peer, once known.
    pub dgid: [u8; 16],
    /// Hop limit of the route.
    pub hop_limit: u8,
    /// Port space and port that it holds.
    pub port: Option<(PortSpace, u16)>,
    /// The route, once resolved.
    pub path: Option<PathRecord>,
    /// Options.
    pub options: Options,
    /// First PSN that the peer must send.
    pub starting_psn: u32,
    /// Number of the queue pair, once a call has given it.
    pub qp_num: u32,
    /// Whether that queue pair uses a shared receive queue.
    pub srq: bool,
    /// Q_Key, 0 before it is chosen.
    pub qkey: u32,
    /// Options offered or chosen.
    pub ece: Ece,
    /// Service of a listener.
    pub service: Option<ListenId>,
    /// The underlying connection.
    pub conn: Option<ConnId>,
    /// The underlying connection on an RNIC.
    pub stream: Option<iw::ConnId>,
    /// Of a listener: the number of requests that it can still accept before events are fetched.
    pub backlog: u32,
    /// Memberships in groups.
    pub groups: Vec<GroupNumber>,
    /// The pending request to the host, and its deadline.
    pub question: Option<(QuestionId, Instant)>,
    /// Number of events given out.
    pub events_reported: u32,
    /// Number of events queued.
    pub events_waiting: u32,
}

impl Id {
    /// A new id.
    pub fn new(client: ClientId, channel: ChannelId, port_space: PortSpace, qp_type: u8, starting_psn: u32) -> Id {
        Id {
            client,
            channel,
            port_space,
            qp_type,
            cookie: None,
            state: State::Idle,
            src: None,
            dst: None,
            bound_if: 0,
            attachment: None,
            dgid: [0; 16],
            hop_limit: 0,
            port: None,
            path: None,
            options: Options::default(),
            starting_psn,
            qp_num: 0,
            srq: false,
            qkey: 0,
            ece: Ece::default(),
            service: None,
            conn: None,
            stream: None,
            backlog: 0,
            groups: Vec::new(),
            question: None,
            events_reported: 0,
            events_waiting: 0,
        }
    }

    /// Returns the family of the local address.
    pub fn family(&self) -> Option<Family> {
        self.src.map(|src| src.family())
    }

    /// Returns whether it exchanges datagrams.
    pub fn is_datagram(&self) -> bool {
        self.qp_type == QPT_UD
    }

    /// Returns the service id of an address in this id's port space (IBA A11.4, `rdma_get_service_id`).
    pub fn service_id(&self, addr: SockAddr) -> u64 {
        match addr {
            SockAddr::Ib(ib) => ib.sid,
            _ => service_id(self.port_space, addr.port()),
        }
    }
}

/// Returns the service id of a port in a port space.
pub fn service_id(port_space: PortSpace, port: u16) -> u64 {
    (u64::from(port_space as u16) << 16) | u64::from(port)
}

/// All ids by number.
#[derive(Debug, Default)]
pub struct Ids {
    map: BTreeMap<IdNumber, Id>,
    last: IdNumber,
}

impl Ids {
    /// Adds an id under a new number. Numbers increase and wrap around only after four thousand million.
    pub fn insert(&mut self, id: Id) -> IdNumber {
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && !self.map.contains_key(&self.last) {
                self.map.insert(self.last, id);
                return self.last;
            }
        }
    }

    /// Returns the id with a number.
    pub fn look(&self, number: IdNumber) -> Option<&Id> {
        self.map.get(&number)
    }

    /// Returns the id with a number, mutably.
    pub fn change(&mut self, number: IdNumber) -> Option<&mut Id> {
        self.map.get_mut(&number)
    }

    /// Removes an id.
    pub fn remove(&mut self, number: IdNumber) -> Option<Id> {
        self.map.remove(&number)
    }

    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns the ids after a number, in order.
    pub fn after(&self, number: IdNumber) -> impl Iterator<Item = (IdNumber, &Id)> {
        self.map
            .range((std::ops::Bound::Excluded(number), std::ops::Bound::Unbounded))
            .map(|(number, id)| (*number, id))
    }
}
