//! Requests of the connection manager to the host: routes, neighbours, and membership in groups.
//! [`super::Service::poll_resolve`] and [`super::Service::poll_multicast`] return the requests;
//! [`super::Service::handle_resolved`] and [`super::Service::handle_multicast`] take the results.

use std::net::IpAddr;

use super::errno::Errno;
use super::param::PathRecord;

/// Number of a question.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QuestionId(pub u64);

/// Request for the route to an address.
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
    /// Type of service for the route lookup.
    pub tos: u8,
}

/// Request to subnet administration for the path between two ports of an InfiniBand fabric. The result goes to
/// [`super::Service::handle_path`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathQuestion {
    /// Number that the answer must carry.
    pub question: QuestionId,
    /// The local device.
    pub device: u32,
    /// Its port.
    pub port: u8,
    /// The known fields of the path: both GIDs, service, partition, traffic class.
    pub wanted: PathRecord,
}

/// Result of such a request: `EINVAL` if there is no path, `ETIMEDOUT` if SA does not answer.
pub type PathResult = Result<PathRecord, Errno>;

/// Output of [`super::Service::poll_resolve`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResolveRequest {
    /// A request; this side keeps its timeout, so an answer may come late or never.
    Ask(ResolveQuestion),
    /// A request to subnet administration; this side keeps its timeout too.
    AskPath(PathQuestion),
    /// The answer is no longer needed.
    Forget(QuestionId),
}

/// Result from the routing table, and from the neighbour table if the destination is not local.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resolved {
    /// Local address that packets leave with: the requested one, or the one that the route prefers.
    pub src: IpAddr,
    /// Interface that packets leave by; the loopback for an address of this host.
    pub ifindex: u32,
    /// Whether the destination is an address of this host.
    pub local: bool,
    /// Whether a router is on the path.
    pub gateway: bool,
    /// Hop limit of the route, 0 if it names none.
    pub hop_limit: u8,
    /// GID of the destination, unless it follows from its address as on RoCE.
    pub dgid: Option<[u8; 16]>,
}

/// Result of joining a group: its multicast LID on InfiniBand, 0 on RoCE.
pub type MulticastResult = Result<u16, Errno>;

/// Result of a request: `ENETUNREACH` for no route, `EHOSTUNREACH` for a neighbour that does not answer.
pub type ResolveResult = Result<Resolved, Errno>;

/// Output of [`super::Service::poll_multicast`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MulticastRequest {
    /// Number that the answer must carry; for a leave, the number of its join.
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
    /// Whether to join or to leave. After a join, call [`super::Service::handle_multicast`]; a leave needs no answer.
    pub join: bool,
}
