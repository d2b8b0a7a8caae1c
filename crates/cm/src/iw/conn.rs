//! One connection.

use std::net::SocketAddr;

use weft_iwarp::{Negotiation, Offer};
use weft_verbs::Instant;

use super::Phase;

/// Number of a connection, never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(pub u64);

/// A connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub phase: Phase,
    pub local: SocketAddr,
    pub peer: SocketAddr,
    pub offer: Offer,
    /// Private data of this side's request.
    pub private_data: Vec<u8>,
    /// Number of the queue pair, once a program named it.
    pub qp_num: Option<u32>,
    /// The negotiation, from TCP's connection until the stream is handed over.
    pub negotiation: Option<Negotiation>,
    /// Deadline of the phase.
    pub deadline: Option<Instant>,
    /// The connection is one of a peer, not of this side's making.
    pub is_incoming: bool,
    /// The number of the peer's queue pair, if the two processes exchange data without the stream.
    pub peer_qp: Option<u32>,
}
