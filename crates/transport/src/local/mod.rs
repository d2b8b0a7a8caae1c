//! Connections between two processes of one host, reliable or not: no packets, no loss. Where possible, the initiator
//! accesses the peer's memory directly ([`direct`]); all else goes as frames through a ring ([`requester`]), and the
//! peer's [`responder`] executes them.
//!
//! The rules are those of [`crate::rc`]: requests are executed in order, a missing receive causes RNR, and a refusal
//! ends the connection with the completion that the specification defines. A frame is lost only if the peer's queue
//! pair was not ready for it. As on the wire, no message reports that, so the requester repeats a frame that the peer
//! took out of the ring and does not answer soon; frame numbers identify duplicates. On an unreliable connection there
//! are no answers: a message without a receive, or a refused one, is dropped silently (IBA 9.8).

mod answers;
mod direct;
mod fast_path;
mod peer_ring;
mod replies;
mod requester;
mod responder;
#[cfg(test)]
mod tests;
mod watch;

use weft_verbs::{CqId, Instant, QpState, QpType};

use crate::Env;
use crate::core::Core;
use crate::frame::{Frame, FrameFlags};
use crate::peers::PeerId;
use crate::rq::RecvQueue;
use crate::sq::SendQueue;

use peer_ring::PeerRing;
use requester::Requester;
use responder::Responder;

/// Both halves.
#[derive(Debug)]
pub(crate) struct Local {
    ring: PeerRing,
    requester: Requester,
    responder: Responder,
}

impl Local {
    /// Enters RTR: the peer's first request is expected.
    pub fn new(peer: PeerId) -> Local {
        let ring = PeerRing::new(peer);
        Local { ring, requester: Requester::default(), responder: Responder::default() }
    }

    /// The peer's process.
    pub fn peer(&self) -> PeerId {
        self.ring.peer
    }

    /// Enters RTS: requests may be sent, for the first time or after a send error.
    pub fn start_requester(&mut self, core: &Core, sq: &SendQueue) {
        self.requester.start(core, sq);
    }

    /// Returns whether every started request has ended.
    pub fn is_drained(&self, sq: &SendQueue) -> bool {
        self.requester.is_drained(sq)
    }

    /// Enters ERR. Returns the partially filled receive, with its CQ if that is not the queue pair's.
    pub fn stop(&mut self, reply: bool) -> Option<(u64, Option<CqId>)> {
        self.requester = Requester::default();
        self.responder.stop(reply)
    }

    /// Handles a posted request: sends it, or does what is possible now.
    #[inline]
    pub fn on_post<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) {
        if !self.requester.send_fast(core, sq, &mut self.ring, env) {
            self.advance(core, sq, env);
        }
    }

    /// Sends and executes requests as far as possible now.
    pub fn advance<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) {
        let now = core.now;
        self.requester.advance(core, sq, &mut self.ring, now, env);
    }

    /// Handles a frame from the peer.
    pub fn handle_frame<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        rq: &mut RecvQueue,
        frame: &Frame,
        env: &mut E,
    ) {
        // The peer runs, so it may have made room.
        self.ring.full_until = None;
        core.stats.ring_frames_received += 1;
        core.stats.ring_bytes_received += u64::from(frame.bytes);
        if core.qp_type() == QpType::Uc {
            return self.responder.on_unreliable(core, rq, &mut self.ring, frame, env);
        }
        let requests =
            !matches!(core.qp_type(), QpType::XrcRecv) && matches!(core.state(), QpState::Rts | QpState::Sqd);
        if requests && frame.flags.contains(FrameFlags::ACK) {
            self.requester.on_ack(core, sq, frame.ack, env);
        }
        if frame.kind.is_request() {
            if core.fault.is_none() && core.qp_type() != QpType::XrcSend {
                self.responder.on_request(core, rq, &mut self.ring, frame, env);
            }
        } else if requests && core.fault.is_none() {
            self.requester.on_answer(core, sq, frame, env);
        }
    }

    /// Handles a deadline.
    pub fn handle_timeout<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) {
        let now = core.now;
        self.requester.on_timeout(core, sq, &mut self.ring, now, env);
    }

    /// Sends answers first, then requests.
    pub fn poll_transmit<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) {
        self.responder.transmit(core, &mut self.ring, env);
        if core.fault.is_none() && matches!(core.state(), QpState::Rts | QpState::Sqd) {
            self.advance(core, sq, env);
        }
    }

    /// Returns whether the peer's next message has come and found no receive.
    pub fn awaits_receive(&self) -> bool {
        self.responder.awaits_receive(&self.ring)
    }

    /// Lets that message come again, because there is a receive now.
    pub fn announce_receive<E: Env>(&mut self, core: &mut Core, env: &mut E) {
        self.responder.announce_receive(core, &mut self.ring, env);
    }

    /// Ends the connection, because that message waited too long.
    pub fn refuse_unready<E: Env>(&mut self, core: &mut Core, env: &mut E) {
        self.responder.refuse_unready(core, &mut self.ring, env);
    }

    /// Asks for the first frame again, which came before this queue pair was connected.
    pub fn ask_again<E: Env>(&mut self, core: &mut Core, env: &mut E) {
        self.responder.ask_again(core, &mut self.ring, 0, env);
    }

    /// Returns whether answers wait for room in the ring.
    pub fn has_answers(&self) -> bool {
        self.responder.has_answers()
    }

    /// Sends the due acknowledgement, if any.
    pub fn flush_ack<E: Env>(&mut self, core: &mut Core, env: &mut E) {
        if self.ring.ack_due {
            self.responder.acknowledge(core, &mut self.ring, env);
        }
    }

    /// Returns whether [`Local::flush_ack`] has something to send.
    pub fn owes_ack(&self) -> bool {
        self.ring.ack_due
    }

    /// Returns whether [`Local::poll_transmit`] would do something. A due acknowledgement alone is no reason: it waits
    /// for a frame to ride on, or for [`Local::flush_ack`].
    #[inline]
    pub fn wants_transmit(&self, core: &Core, sq: &SendQueue, now: Instant) -> bool {
        self.ring.is_open(now)
            && (self.responder.has_answers()
                || matches!(core.state(), QpState::Rts | QpState::Sqd)
                    && self.requester.step(core, sq, &self.ring, now).is_some())
    }

    /// Returns when [`Local::handle_timeout`] must be called.
    #[inline]
    pub fn poll_timeout(&self, core: &Core) -> Option<Instant> {
        let own = match core.state() {
            QpState::Rts | QpState::Sqd => self.requester.poll_timeout(),
            _ => None,
        };
        own.into_iter().chain(self.ring.full_until).min()
    }
}
