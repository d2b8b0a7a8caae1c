//! Connections between two processes of one host, reliable or not: no packets, no loss. What the initiator can do alone it does
//! at once ([`direct`]); the rest are frames in a lane ([`requester`]), which the peer's [`responder`] carries out.
//!
//! The rules are those of [`crate::rc`]: requests are carried out in order, receives that are missing are waited for by
//! RNR, what is refused ends the connection with the completion that the specification names. A frame can be lost in one
//! way only: the peer's queue pair was not ready for it. Nobody says so, as on the wire, so what was taken out of the
//! lane and is not answered soon is asked again; the number of each frame tells a repetition. On an unreliable connection
//! nothing is answered: a message that finds no receive, or is refused, is dropped in silence (IBA 9.8).

mod answers;
mod at_once;
mod direct;
mod execute;
mod replies;
mod requester;
mod responder;
#[cfg(test)]
mod tests;
mod watch;

use weft_verbs::{CqId, Duration, Instant, QpState, QpType};

use crate::core::Core;
use crate::rq::RecvQueue;
use crate::same_host::{Frame, FrameFlags, Outgoing, PeerId};
use crate::sq::SendQueue;
use crate::{Env, SameHost};

use requester::Requester;
use responder::Responder;

/// When a lane that was full is asked again; something comes from the peer sooner, usually.
const LANE_RETRY: Duration = Duration::from_micros(50);
/// How often that time is doubled while the peer takes nothing.
const LANE_RETRY_DOUBLINGS: u32 = 7;

/// Both halves.
#[derive(Debug)]
pub(crate) struct Local {
    way: Way,
    requester: Requester,
    responder: Responder,
}

/// The lane to the peer, and what every frame in it carries.
#[derive(Debug)]
pub(crate) struct Way {
    /// The peer's process.
    pub peer: PeerId,
    /// The number that the peer is to hear next: everything before it was carried out.
    pub expected: u32,
    /// The peer has not heard it yet.
    pub ack_due: bool,
    /// The lane had no room when it was asked last: when it is asked again.
    pub full_until: Option<Instant>,
    /// How often it was asked in vain, in a row.
    refusals: u32,
    /// How far the lane was written behind our last frame.
    pub mark: u64,
}

impl Way {
    /// Send a frame; an acknowledgement that is due goes along. `false`: there is no room now.
    #[inline]
    pub fn push<E: Env>(&mut self, core: &mut Core, mut frame: Frame, payload: Outgoing<'_>, env: &mut E) -> bool {
        frame.flags |= FrameFlags::ACK;
        frame.ack = self.expected;
        let memory = env.memory();
        // What is sent to a process that died is lost, as it would be on a wire.
        if !memory.push(self.peer, &frame, payload) && memory.is_alive(self.peer) {
            self.full_until = Some(core.now + LANE_RETRY * (1 << self.refusals));
            self.refusals = (self.refusals + 1).min(LANE_RETRY_DOUBLINGS);
            return false;
        }
        self.refusals = 0;
        self.mark = memory.lane_mark(self.peer);
        self.full_until = None;
        self.ack_due = false;
        core.stats.lane_frames_sent += 1;
        core.stats.lane_bytes_sent += payload.len();
        true
    }

    /// Whether the lane may have room.
    pub fn is_open(&self, now: Instant) -> bool {
        self.full_until.is_none_or(|until| until <= now)
    }
}

impl Local {
    /// RTR: the peer's first request is awaited.
    pub fn new(peer: PeerId) -> Local {
        let way = Way { peer, expected: 0, ack_due: false, full_until: None, refusals: 0, mark: 0 };
        Local { way, requester: Requester::default(), responder: Responder::default() }
    }

    /// The peer's process.
    pub fn peer(&self) -> PeerId {
        self.way.peer
    }

    /// RTS: requests may go out, for the first time or after a send error.
    pub fn start_requester(&mut self, core: &Core, sq: &SendQueue) {
        self.requester.start(core, sq);
    }

    /// Whether every request that was started has ended.
    pub fn is_drained(&self, sq: &SendQueue) -> bool {
        self.requester.is_drained(sq)
    }

    /// ERR was entered: the receive that was being filled, with its CQ if that is not the queue pair's.
    pub fn stop(&mut self, reply: bool) -> Option<(u64, Option<CqId>)> {
        self.requester = Requester::default();
        self.responder.stop(reply)
    }

    /// A request was posted: send it, or do what can be done now.
    #[inline]
    pub fn on_post<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) {
        if !self.requester.send_at_once(core, sq, &mut self.way, env) {
            self.advance(core, sq, env);
        }
    }

    /// Send, or do, what can be done now.
    pub fn advance<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) {
        let now = core.now;
        self.requester.advance(core, sq, &mut self.way, now, env);
    }

    /// A frame from the peer.
    pub fn handle_frame<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        rq: &mut RecvQueue,
        frame: &Frame,
        env: &mut E,
    ) {
        // It runs, so it may have made room.
        self.way.full_until = None;
        core.stats.lane_frames_received += 1;
        core.stats.lane_bytes_received += u64::from(frame.bytes);
        if core.qp_type() == QpType::Uc {
            return self.responder.on_unreliable(core, rq, &mut self.way, frame, env);
        }
        let requests =
            !matches!(core.qp_type(), QpType::XrcRecv) && matches!(core.state(), QpState::Rts | QpState::Sqd);
        if requests && frame.flags.contains(FrameFlags::ACK) {
            self.requester.on_ack(core, sq, frame.ack, env);
        }
        if frame.kind.is_request() {
            if core.fault.is_none() && core.qp_type() != QpType::XrcSend {
                self.responder.on_request(core, rq, &mut self.way, frame, env);
            }
        } else if requests && core.fault.is_none() {
            self.requester.on_answer(core, sq, frame, env);
        }
    }

    /// A deadline has come.
    pub fn handle_timeout<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) {
        let now = core.now;
        self.requester.on_timeout(core, sq, &mut self.way, now, env);
    }

    /// Answers first, then requests.
    pub fn poll_transmit<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) {
        self.responder.transmit(core, &mut self.way, env);
        if core.fault.is_none() && matches!(core.state(), QpState::Rts | QpState::Sqd) {
            self.advance(core, sq, env);
        }
    }

    /// Tell the peer how far we are, if it has not heard.
    pub fn flush_ack<E: Env>(&mut self, core: &mut Core, env: &mut E) {
        if self.way.ack_due {
            self.responder.acknowledge(core, &mut self.way, env);
        }
    }

    /// Whether [`Local::flush_ack`] has something to tell.
    pub fn owes_ack(&self) -> bool {
        self.way.ack_due
    }

    /// Whether [`Local::poll_transmit`] would do something; an acknowledgement alone is no reason: it waits for company
    /// until somebody asks for it.
    #[inline]
    pub fn wants_transmit(&self, core: &Core, sq: &SendQueue, now: Instant) -> bool {
        self.way.is_open(now)
            && (self.responder.has_answers()
                || matches!(core.state(), QpState::Rts | QpState::Sqd)
                    && self.requester.step(core, sq, &self.way, now).is_some())
    }

    /// When [`Local::handle_timeout`] wants to be called.
    #[inline]
    pub fn poll_timeout(&self, core: &Core) -> Option<Instant> {
        let own = match core.state() {
            QpState::Rts | QpState::Sqd => self.requester.poll_timeout(),
            _ => None,
        };
        own.into_iter().chain(self.way.full_until).min()
    }
}
