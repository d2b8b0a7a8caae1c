//! An id: one end of a connection, or a listener, from its creation to its destruction; and the table of all of them.

use std::collections::BTreeMap;

use weft_verbs::Instant;

use super::address::{Family, PortSpace, SockAddr};
use super::client::{ChannelId, ClientId};
use super::command::{GroupNumber, IdNumber, RoceMode};
use super::device::Place;
use super::host::QuestionId;
use super::param::{Ece, PathRecord};
use crate::ib::{ConnId, ListenId};

/// States of an id, numbered as `enum rdma_cm_state`.
///
/// ```text
///  Idle -> AddrBound -> Listen
///              |
///          AddrQuery <-> AddrResolved -> RouteQuery -> RouteResolved -> Connect -> Disconnect
/// ```
///
/// A failed query goes back to the state before it. A removed device ends in DeviceRemoval from everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// New.
    Idle = 0,
    /// Its peer's address is being resolved.
    AddrQuery = 1,
    /// That is done.
    AddrResolved = 2,
    /// Its route is being resolved.
    RouteQuery = 3,
    /// That is done.
    RouteResolved = 4,
    /// Connecting, asked for a connection, or connected.
    Connect = 5,
    /// Disconnected by either side.
    Disconnect = 6,
    /// Has a local address.
    AddrBound = 7,
    /// Listens.
    Listen = 8,
    /// Its device is gone.
    DeviceRemoval = 9,
}

/// Types of queue pairs, as `enum ibv_qp_type` numbers them: reliable connections.
pub const QPT_RC: u8 = 2;
/// Unreliable connections.
pub const QPT_UC: u8 = 3;
/// Unreliable datagrams.
pub const QPT_UD: u8 = 4;
/// The sending side of XRC.
pub const QPT_XRC_SEND: u8 = 9;
/// The receiving side of XRC.
pub const QPT_XRC_RECV: u8 = 10;

/// The port that an id uses, and the row of its GID table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// Index of the device.
    pub device: u32,
    /// Its port.
    pub port: u8,
    /// Row of the local GID.
    pub sgid_index: u8,
    /// The local GID.
    pub sgid: [u8; 16],
    /// Interface of the local GID.
    pub ifindex: u32,
    /// Framing.
    pub mode: RoceMode,
}

impl Attachment {
    /// Which port of which device it is.
    pub fn place(&self) -> Place {
        (self.device, self.port)
    }
}

/// Options that a program may have set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Type of service.
    pub tos: Option<u8>,
    /// Local ACK timeout.
    pub ack_timeout: Option<u8>,
    /// Whether an address may be shared with other ids that say so too.
    pub reuseaddr: bool,
    /// Whether only the own address family is listened to.
    pub afonly: bool,
    /// Whether the program said so.
    pub afonly_set: bool,
}

/// One id.
#[derive(Debug)]
pub struct Id {
    /// Who owns it.
    pub client: ClientId,
    /// Where its events go.
    pub channel: ChannelId,
    /// Its port space.
    pub port_space: PortSpace,
    /// Type of queue pair.
    pub qp_type: u8,
    /// The owner's cookie; a new id of a listener has none until it is accepted, and tells no events until then.
    pub cookie: Option<u64>,
    /// State.
    pub state: State,
    /// Local address.
    pub src: Option<SockAddr>,
    /// Peer's address.
    pub dst: Option<SockAddr>,
    /// Interface that a link-local address binds it to, 0 if none.
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
    /// First PSN that the peer shall send.
    pub starting_psn: u32,
    /// Number of the queue pair, once a call gave it.
    pub qp_num: u32,
    /// Whether that takes receives from a shared queue.
    pub srq: bool,
    /// Q_Key, 0 before it is chosen.
    pub qkey: u32,
    /// Options offered or taken.
    pub ece: Ece,
    /// The service that a listener listens to.
    pub service: Option<ListenId>,
    /// The connection underneath.
    pub conn: Option<ConnId>,
    /// Of a listener: requests that may still come before events are fetched.
    pub backlog: u32,
    /// Memberships in groups.
    pub groups: Vec<GroupNumber>,
    /// The question to the host that is under way, and until when it may be.
    pub question: Option<(QuestionId, Instant)>,
    /// Events that were given out.
    pub events_reported: u32,
    /// Events that wait.
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
            backlog: 0,
            groups: Vec::new(),
            question: None,
            events_reported: 0,
            events_waiting: 0,
        }
    }

    /// Address family, that of the local address.
    pub fn family(&self) -> Option<Family> {
        self.src.map(|src| src.family())
    }

    /// Whether it exchanges datagrams.
    pub fn is_datagram(&self) -> bool {
        self.qp_type == QPT_UD
    }

    /// The service id that an address of this id's port space stands for (IBA A11.4, `rdma_get_service_id`).
    pub fn service_id(&self, addr: SockAddr) -> u64 {
        match addr {
            SockAddr::Ib(ib) => ib.sid,
            _ => service_id(self.port_space, addr.port()),
        }
    }
}

/// The service id of a port of a port space.
pub fn service_id(port_space: PortSpace, port: u16) -> u64 {
    (u64::from(port_space as u16) << 16) | u64::from(port)
}

/// All ids by their numbers.
#[derive(Debug, Default)]
pub struct Ids {
    map: BTreeMap<IdNumber, Id>,
    last: IdNumber,
}

impl Ids {
    /// Adds one under a new number. Numbers go up and come around only after four thousand million.
    pub fn insert(&mut self, id: Id) -> IdNumber {
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && !self.map.contains_key(&self.last) {
                self.map.insert(self.last, id);
                return self.last;
            }
        }
    }

    /// The id of a number.
    pub fn look(&self, number: IdNumber) -> Option<&Id> {
        self.map.get(&number)
    }

    /// The id of a number, to change it.
    pub fn change(&mut self, number: IdNumber) -> Option<&mut Id> {
        self.map.get_mut(&number)
    }

    /// Takes one out.
    pub fn remove(&mut self, number: IdNumber) -> Option<Id> {
        self.map.remove(&number)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Those after a number, in order.
    pub fn after(&self, number: IdNumber) -> impl Iterator<Item = (IdNumber, &Id)> {
        self.map
            .range((std::ops::Bound::Excluded(number), std::ops::Bound::Unbounded))
            .map(|(number, id)| (*number, id))
    }
}
