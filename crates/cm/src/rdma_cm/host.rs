//! What the connection manager asks of the host: routes, neighbours, and membership in groups. The questions come out
//! of [`super::Service::poll_resolve`] and [`super::Service::poll_multicast`]; the answers go in by
//! [`super::Service::handle_resolved`] and [`super::Service::handle_multicast`].

use std::net::IpAddr;

use super::errno::Errno;

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

/// What comes out of [`super::Service::poll_resolve`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResolveRequest {
    /// A question; its time is kept here, so an answer may come late or never.
    Ask(ResolveQuestion),
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
}

/// Result of a question: `ENETUNREACH` for no route, `EHOSTUNREACH` for a neighbour that does not answer.
pub type ResolveResult = Result<Resolved, Errno>;

/// What comes out of [`super::Service::poll_multicast`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MulticastRequest {
    /// Number that the answer must carry; of a leave the number of its join.
    pub group: u32,
    /// The device.
    pub device: u32,
    /// The interface.
    pub ifindex: u32,
    /// The group's address, as the MGID says it.
    pub ip: IpAddr,
    /// Whether to join or to leave. After a join, [`super::Service::handle_multicast`] is called; a leave needs no answer.
    pub join: bool,
}
