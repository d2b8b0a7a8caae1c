//! Reliable connection, and XRC which is RC with the SRQ named in each request. A queue pair has two halves that
//! share nothing but the wire: the [`requester`] with its [`completer`], and the [`responder`].

mod completer;
mod credits;
mod delayed_ack;
mod emit;
mod keeping;
mod received;
mod recovery;
mod reorder;
mod repeats;
mod replies;
mod requester;
mod resources;
mod responder;
mod retry;
#[cfg(test)]
mod tests;
mod window;

use weft_verbs::{CqId, Duration, Instant, QpState, QpType};

use crate::batch::TX_BURST_PACKETS;
use crate::core::Core;
use crate::peer_quota::PeerQuota;
use crate::rq::RecvQueue;
use crate::sq::SendQueue;
use crate::{Env, RxPacket, TxBatch};

use requester::Requester;
use responder::Responder;

/// Packets of a burst reserved for the requester when the responder has many.
const OWN_PACKETS: u32 = TX_BURST_PACKETS / 4;

/// Both halves.
#[derive(Debug, Default)]
pub(crate) struct Rc {
    requester: Requester,
    responder: Responder,
}

impl Rc {
    pub fn start_responder(&mut self, psn: u32) {
        self.responder.start(psn);
    }

    pub fn start_requester(&mut self, psn: u32, core: &Core, sq: &SendQueue) {
        self.requester.start(psn, core, sq);
    }

    /// Shares the peer with others that send to it.
    pub fn join(&mut self, peer_quota: &PeerQuota) {
        self.requester.join(peer_quota);
    }

    /// Returns whether it wants to send and must wait for a place.
    pub fn waits_for_place(&self) -> bool {
        self.requester.share.waits()
    }

    /// Gives it a place.
    pub fn admit(&mut self) {
        self.requester.share.admit();
    }

    /// Gives its unused place back.
    pub fn decline(&mut self) {
        self.requester.share.leave();
    }

    /// Sets whether acknowledgements may wait for an own message.
    pub fn allow_ack_delay(&mut self, allowed: bool) {
        self.responder.delayed_ack.allow(allowed);
    }

    /// Returns the smoothed round trip to the peer, once measured.
    pub fn round_trip(&self) -> Option<Duration> {
        self.requester.timing.round_trip()
    }

    /// Sends the last acknowledgement once more, if there was one.
    pub fn acknowledge_again(&mut self) {
        self.responder.acknowledge_again();
    }

    /// Resets both halves to the initial state, with settings kept.
    pub fn reset(&mut self) {
        let delayed_ack = self.responder.delayed_ack.fresh();
        *self = Rc::default();
        self.responder.delayed_ack = delayed_ack;
    }

    /// Returns whether every started request has ended.
    pub fn is_drained(&self, sq: &SendQueue) -> bool {
        self.requester.progress.is_drained(sq)
    }

    /// Enters ERR. Returns the receive being filled, with its CQ if that is not the queue pair's.
    pub fn stop(&mut self, reply: bool) -> Option<(u64, Option<CqId>)> {
        self.requester = Requester::default();
        self.responder.stop(reply)
    }

    /// Handles a packet that arrives in ERR.
    pub fn on_late_packet(&mut self, rx: &RxPacket<'_>) {
        if !rx.packet.info.kind.is_response() {
            self.responder.on_late_request(&rx.packet);
        }
    }

    pub fn handle_packet<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        rq: &mut RecvQueue,
        now: Instant,
        rx: &RxPacket<'_>,
        env: &mut E,
    ) {
        let response = rx.packet.info.kind.is_response();
        let wanted = match core.qp_type() {
            QpType::XrcSend => response,
            QpType::XrcRecv => !response,
            _ => true,
        };
        if !wanted {
            core.stats.dropped += 1;
        } else if response {
            self.requester.on_response(core, sq, now, &rx.packet, env);
        } else {
            self.responder.on_request(core, rq, &rx.packet, env);
        }
    }

    pub fn handle_timeout<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, now: Instant, env: &mut E) {
        self.responder.on_timeout(now);
        self.requester.on_timeout(core, sq, now, env);
    }

    pub fn poll_transmit<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        rq: &RecvQueue,
        now: Instant,
        tx: &mut TxBatch,
        env: &mut E,
    ) {
        // A peer that always has a READ open must not starve the own requests.
        let mut replies = TX_BURST_PACKETS - OWN_PACKETS;
        self.responder.poll_transmit(core, rq, tx, env, &mut replies);
        // A fault found while replying comes first.
        if core.fault.is_some() {
            return;
        }
        let before = self.requester.progress.max;
        self.requester.poll_transmit(core, sq, now, tx, env, OWN_PACKETS + replies);
        if self.requester.progress.max != before {
            // An acknowledgement that waited for this message rides along behind it, where a shorter packet is allowed.
            self.responder.delayed_ack.on_own_message(now);
            self.responder.poll_transmit(core, rq, tx, env, &mut 1);
        }
    }

    pub fn wants_transmit(&self, core: &Core, sq: &SendQueue, now: Instant) -> bool {
        self.responder.wants_transmit(now) || self.requester.wants_transmit(core, sq, now)
    }

    pub fn poll_timeout(&self, core: &Core) -> Option<Instant> {
        let held = self.responder.poll_timeout();
        let own = match core.state() {
            QpState::Rts | QpState::Sqd => self.requester.poll_timeout(),
            _ => None,
        };
        match (held, own) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
