//! Connection to another host, with what its attempts need.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::connection::Connection;
use crate::limits::{RECONNECT_DELAY_MAX, RECONNECT_DELAY_MIN};
use crate::wire::{PrivateData, Version};

/// Addresses of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pair {
    /// Address of this host.
    pub local: Ipv4Addr,
    /// Address of the other.
    pub peer: Ipv4Addr,
}

impl std::fmt::Display for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {}", self.local, self.peer)
    }
}

/// Frame to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutgoingFrame {
    /// Header and data.
    pub bytes: Vec<u8>,
    /// It is the last of its message. Linux looks for frames once one was solicited, so this one must be.
    pub is_last: bool,
}

/// Decision about the request of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestDecision {
    /// Accept it, with this private data.
    Accept(PrivateData),
    /// Reject it: this end's own request is under way, and goes first; or there are too many connections.
    Reject,
}

/// Connection with what its attempts need.
#[derive(Debug)]
pub struct Peer {
    /// The connection.
    pub connection: Connection,
    /// Version of the next request.
    pub version: Version,
    /// Delay before the next attempt.
    pub delay: Duration,
    /// Time of the next attempt.
    pub retry_at: Option<Duration>,
    /// State of a small generator for delays.
    random: u64,
}

impl Peer {
    /// Creates a connection that is down.
    pub fn new(first_sequence: u64, seed: u64) -> Peer {
        Peer {
            connection: Connection::new(first_sequence),
            version: Version::V4_1,
            delay: RECONNECT_DELAY_MIN,
            retry_at: None,
            random: seed,
        }
    }

    /// Plans the next attempt, at a random time, so that two ends do not meet again and again.
    pub fn retry_later(&mut self, now: Duration) {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let fraction = f64::from((self.random >> 33) as u32) / f64::from(1_u32 << 31);
        self.retry_at = Some(now + self.delay.mul_f64(0.5 + fraction / 2.0));
        self.delay = (self.delay * 2).min(RECONNECT_DELAY_MAX);
    }
}
