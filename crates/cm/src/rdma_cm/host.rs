//! What the connection manager asks of the host: routes, neighbours, and membership in groups. The questions come out
//! of [`super::Service::poll_resolve`] and [`super::Service::poll_multicast`]; the answers go in by
//! [`super::Service::handle_resolved`] and [`super::Service::handle_multicast`].

use std::net::IpAddr;

use super::errno::Errno;
use super::param::PathRecord;

/// Number of a question.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QuestionId(pub u64);

/// How does one get to this address?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResolveQuestion {
    /// Number that the answer must carry.
    pub question: QuestionId,
    /// The destination.
    pub dst: IpAddr,
    /// The local address that must be used, if one was bound.
    pub src: Option<IpAddr>,
    /// The interface that must be used (bound, or the scope of a link-local address), or 0.
    pub ifindex: u32,
    /// Type of service to route by.
    pub tos: u8,
}

/// Which path leads from one port of an InfiniBand fabric to another? The subnet administration knows. The answer goes in
/// by [`super::Service::handle_path`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathQuestion {
    /// Number that the answer must carry.
    pub question: QuestionId,
    /// The local device.
    pub device: u32,
    /// Its port.
    pub port: u8,
    /// What is known of the path: both GIDs, service, partition, traffic class.
    pub wanted: PathRecord,
}

/// Result of such a question: `EINVAL` where there is no path, `ETIMEDOUT` where nobody answers.
pub type PathResult = Result<PathRecord, Errno>;

/// What comes out of [`super::Service::poll_resolve`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResolveRequest {
    /// A question; its time is kept here, so an answer may come late or never.
    Ask(ResolveQuestion),
    /// A question to the subnet administration; its time is kept here too.
    AskPath(PathQuestion),
    /// The answer is not needed any more.
    Forget(QuestionId),
}

/// The answer of the routing table (and of the neighbour table where the destination is not local).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resolved {
    /// Local address that packets leave with: the one asked for, or the one that the route prefers.
    pub src: IpAddr,
    /// Interface that packets leave by; the loopback for an address of this host.
    pub ifindex: u32,
    /// Whether the destination is an address of this host.
    pub local: bool,
    /// Whether a router stands between.
    pub gateway: bool,
    /// Hop limit of the route, 0 if it names none.
    pub hop_limit: u8,
    /// GID of the destination, if that does not follow from its address as on RoCE.
    pub dgid: Option<[u8; 16]>,
}

/// Result of joining a group: its multicast LID on InfiniBand, 0 on RoCE.
pub type MulticastResult = Result<u16, Errno>;

/// Result of a question: `ENETUNREACH` for no route, `EHOSTUNREACH` for a neighbour that does not answer.
pub type ResolveResult = Result<Resolved, Errno>;

/// What comes out of [`super::Service::poll_multicast`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MulticastRequest {
    /// Number that the answer must carry; of a leave the number of its join.
    pub group: u32,
    /// The device.
    pub device: u32,
    /// Its port.
    pub port: u8,
    /// The interface.
    pub ifindex: u32,
    /// The group's address.
    pub ip: IpAddr,
    /// The group's GID.
    pub mgid: [u8; 16],
    /// Whether to join or to leave. After a join, [`super::Service::handle_multicast`] is called; a leave needs no answer.
    pub join: bool,
}
