//! RoCE v2 over UDP sockets, for unprivileged users. Packets arrive at the sockets of port 4791 that the daemon handed
//! out ([`crate::receive`]), and leave by sockets of this process ([`crate::transmit`]), with one source port for each
//! destination slot.

use std::os::fd::{BorrowedFd, OwnedFd};

use weft_transport::TxBatch;
use weft_verbs::Instant;

use crate::handler::Each;
use crate::receive::Receiver;
use crate::stats::LinkStats;
use crate::transmit::{Tap, Transmitter};

/// The RoCE v2 link.
#[derive(Debug)]
pub struct UdpLink {
    receiver: Receiver,
    transmitter: Transmitter,
    /// Counters.
    pub stats: LinkStats,
}

impl UdpLink {
    /// Makes a link over sockets bound to port 4791. `entropy` spreads source ports.
    pub fn new(v4: Option<OwnedFd>, v6: Option<OwnedFd>, entropy: u64) -> UdpLink {
        UdpLink { receiver: Receiver::new(v4, v6), transmitter: Transmitter::new(entropy), stats: LinkStats::default() }
    }

    /// Returns the socket for IPv4, to sleep on and to join groups with.
    pub fn v4(&self) -> Option<BorrowedFd<'_>> {
        self.receiver.v4()
    }

    /// Returns the socket for IPv6, likewise.
    pub fn v6(&self) -> Option<BorrowedFd<'_>> {
        self.receiver.v6()
    }

    /// Whether packets may arrive outside these two.
    #[inline]
    pub fn is_attached(&self) -> bool {
        self.receiver.is_attached()
    }

    /// Enables traffic class and hop limit with packets from now on.
    pub fn learn_network_header(&mut self) {
        self.receiver.learn_network_header();
    }

    /// Returns when to call [`UdpLink::retry`], while packets wait for room in a socket; until then make no batches.
    #[inline]
    pub fn blocked_until(&self) -> Option<Instant> {
        self.transmitter.blocked_until()
    }

    /// Sends waiting packets; returns true if none wait any more.
    pub fn retry(&mut self, now: Instant) -> bool {
        self.transmitter.retry(now, &mut self.stats)
    }

    /// Sends a batch; `tap` sees each packet that left. Returns whether the batch holds packets for another link.
    pub fn send(&mut self, now: Instant, batch: &TxBatch, tap: Option<Tap<'_>>) -> bool {
        self.transmitter.send(now, batch, tap, &mut self.stats)
    }

    /// Receives some of the waiting packets; returns how many datagrams came.
    pub fn receive(&mut self, thorough: bool, each: &mut impl Each) -> usize {
        self.receiver.receive(thorough, &mut self.stats, each)
    }
}
