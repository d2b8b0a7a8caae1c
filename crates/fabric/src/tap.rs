//! A tap on what hosts send and receive, for captures: management datagrams, and the packets that the owner adds. Each
//! is a packet as it is on the links, LRH to VCRC. Without a tap nothing is built.

use crate::PortRef;
use std::collections::VecDeque;
use weft_verbs::Instant;

/// Direction of a packet, as its port sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The port sent it.
    Sent,
    /// The port received it.
    Received,
}

/// A packet that passed the tap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tapped {
    /// When.
    pub at: Instant,
    /// Port of the host.
    pub port: PortRef,
    /// Whether the port sent or received it.
    pub direction: Direction,
    /// The packet, LRH to VCRC.
    pub packet: Vec<u8>,
}

/// The tap, and packets that the owner has not fetched yet.
#[derive(Debug, Default)]
pub(crate) struct Tap {
    pub is_open: bool,
    pub queue: VecDeque<Tapped>,
    pub dropped: u64,
}
