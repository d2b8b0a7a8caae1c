//! RoCE v2 over UDP sockets: an ordinary user's way to the wire. Receives come from the sockets of port 4791 that the
//! daemon handed us ([`crate::receive`]), sends leave by sockets of our own ([`crate::transmit`]), one source port for
//! each destination slot.

use std::os::fd::{BorrowedFd, OwnedFd};

use weft_transport::TxBatch;
use weft_verbs::Instant;

use crate::receive::{Each, Receiver};
use crate::stats::LinkStats;
use crate::transmit::{Tap, Transmitter};

/// The link.
#[derive(Debug)]
pub struct UdpLink {
    receiver: Receiver,
    transmitter: Transmitter,
    /// Counts.
    pub stats: LinkStats,
}

impl UdpLink {
    /// Over sockets bound to port 4791. `entropy` spreads source ports.
    pub fn new(v4: Option<OwnedFd>, v6: Option<OwnedFd>, entropy: u64) -> UdpLink {
        UdpLink { receiver: Receiver::new(v4, v6), transmitter: Transmitter::new(entropy), stats: LinkStats::default() }
    }

    /// The socket for IPv4, to sleep on and to join groups with.
    pub fn v4(&self) -> Option<BorrowedFd<'_>> {
        self.receiver.v4()
    }

    /// The socket for IPv6, likewise.
    pub fn v6(&self) -> Option<BorrowedFd<'_>> {
        self.receiver.v6()
    }

    /// Whether packets may come elsewhere than at these two.
    #[inline]
    pub fn is_aimed(&self) -> bool {
        self.receiver.is_aimed()
    }

    /// Learn traffic class and hop limit of what comes from now on.
    pub fn learn_network_header(&mut self) {
        self.receiver.learn_network_header();
    }

    /// While packets wait for room in a socket: when to call [`UdpLink::retry`]; until then make no batches.
    #[inline]
    pub fn blocked_until(&self) -> Option<Instant> {
        self.transmitter.blocked_until()
    }

    /// Send what waits; true if nothing waits any more.
    pub fn retry(&mut self, now: Instant) -> bool {
        self.transmitter.retry(now, &mut self.stats)
    }

    /// Send a batch; `tap` sees each packet that left. Answers whether the batch holds packets for another link.
    pub fn send(&mut self, now: Instant, batch: &TxBatch, tap: Option<Tap<'_>>) -> bool {
        self.transmitter.send(now, batch, tap, &mut self.stats)
    }

    /// Receive some of what waits; answers how many datagrams came.
    pub fn receive(&mut self, thorough: bool, each: &mut impl Each) -> usize {
        self.receiver.receive(thorough, &mut self.stats, each)
    }
}
