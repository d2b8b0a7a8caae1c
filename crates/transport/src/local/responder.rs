//! Responder for a peer on this host: takes requests in the order of their numbers. [`super::execute`] executes them.
//!
//! | number against the expected one | action |
//! |---|---|
//! | equal | execute |
//! | behind | a duplicate: acknowledge again, or answer the READ or atomic again |
//! | ahead | none: it follows one that found no receive, or that came before the queue pair was ready |

use weft_verbs::{AsyncEvent, CqId, WcOpcode, WcStatus};
use weft_wire::NakCode;

use crate::core::{Core, Fault};
use crate::rq::RecvQueue;
use crate::same_host::{Frame, FrameFlags, FrameKind, Outgoing};
use crate::{Env, RecvWqe, XrcSrq};

use super::Way;
use super::execute::{CANNOT_FETCH, Refusal};
use super::replies::{Outcome, Replies};

/// Message being received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Message {
    /// None: the next frame begins a message.
    #[default]
    Idle,
    /// A SEND; bytes so far.
    Send { offset: u64 },
    /// An RDMA WRITE; address of the next byte.
    Write { key: u32, addr: u64, left: u64, total: u64 },
}

/// State of the responder.
#[derive(Debug, Default)]
pub(crate) struct Responder {
    pub(super) message: Message,
    /// The receive being filled, if `holds_recv`.
    pub(super) recv: RecvWqe,
    pub(super) holds_recv: bool,
    /// The SRQ that the message named (XRC).
    pub(super) xrc: Option<(u32, XrcSrq)>,
    pub(super) replies: Replies,
}

impl Responder {
    /// Enters ERR. Returns the receive being filled, and its CQ if XRC named one.
    pub fn stop(&mut self, reply: bool) -> Option<(u64, Option<CqId>)> {
        self.replies.stop(reply);
        self.message = Message::Idle;
        let held = self.holds_recv.then(|| (self.recv.wr_id, self.xrc.map(|(_, x)| x.cq)));
        self.holds_recv = false;
        held
    }

    /// Returns whether answers wait for room in the lane.
    pub fn has_answers(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Handles a request.
    pub fn on_request<E: Env>(
        &mut self,
        core: &mut Core,
        rq: &mut RecvQueue,
        way: &mut Way,
        frame: &Frame,
        env: &mut E,
    ) {
        let ahead = frame.seq.wrapping_sub(way.expected) as i32;
        if ahead > 0 {
            core.stats.lane_frames_skipped += 1;
            return;
        }
        if ahead < 0 {
            core.stats.duplicates += 1;
            way.ack_due = true;
            self.replies.repeat(frame.seq, frame.epoch, usize::from(core.attr.max_dest_rd_atomic));
            return;
        }
        match self.execute(core, rq, way.peer, frame, env) {
            Ok(()) => {
                way.expected = way.expected.wrapping_add(1);
                way.ack_due = true;
            }
            Err(Refusal::NotReady) => {
                core.stats.rnr_naks_sent += 1;
                self.replies.verdict = Outcome::Say(FrameKind::Rnr, core.attr.min_rnr_timer, frame.epoch);
            }
            Err(Refusal::CannotFetch) => {
                self.replies.verdict = Outcome::Say(FrameKind::Dropped, CANNOT_FETCH, frame.epoch);
            }
            Err(Refusal::Fatal { code, recv }) => self.refuse(core, code, recv, frame.epoch, env),
        }
        if self.has_answers() {
            self.transmit(core, way, env);
        }
    }

    /// Handles a request on an unreliable connection.
    pub fn on_unreliable<E: Env>(
        &mut self,
        core: &mut Core,
        rq: &mut RecvQueue,
        way: &mut Way,
        frame: &Frame,
        env: &mut E,
    ) {
        let first = frame.flags.contains(FrameFlags::FIRST);
        let goes_on = frame.seq == way.expected && self.message != Message::Idle;
        if first {
            self.message = Message::Idle;
        }
        let plain =
            matches!(frame.kind, FrameKind::Send | FrameKind::Write) && !frame.flags.contains(FrameFlags::RENDEZVOUS);
        let taken = if plain && (first || goes_on) {
            self.execute(core, rq, way.peer, frame, env)
        } else {
            Err(Refusal::NotReady)
        };
        way.expected = frame.seq.wrapping_add(1);
        let Err(refusal) = taken else { return };
        core.stats.dropped += 1;
        self.message = Message::Idle;
        if let Refusal::Fatal { recv: Some(status), .. } = refusal
            && std::mem::take(&mut self.holds_recv)
        {
            // The local receive is at fault: it completes in error, the queue pair lives on.
            let wc = core.wc(self.recv.wr_id, status, WcOpcode::Recv);
            core.complete_recv(env, None, wc);
        }
    }

    /// Ends the connection (IBA 9.9.3): NAK, completion or event, ERR.
    fn refuse<E: Env>(&mut self, core: &mut Core, code: NakCode, recv: Option<WcStatus>, epoch: u8, env: &mut E) {
        self.replies.verdict = Outcome::Say(FrameKind::Nak, code.0, epoch);
        match recv {
            Some(status) if self.holds_recv => {
                self.holds_recv = false;
                let wc = core.wc(self.recv.wr_id, status, WcOpcode::Recv);
                core.complete_recv(env, self.xrc.map(|(_, x)| x.cq), wc);
            }
            _ if code == NakCode::REMOTE_ACCESS => core.event(env, AsyncEvent::QpAccessErr),
            _ if code == NakCode::INVALID_REQUEST => core.event(env, AsyncEvent::QpReqErr),
            _ => core.event(env, AsyncEvent::QpFatal),
        }
        core.fault = Some(Fault::Error);
    }

    /// Sends the queued answers.
    pub fn transmit<E: Env>(&mut self, core: &mut Core, way: &mut Way, env: &mut E) {
        if let Err(seq) = self.replies.transmit(core, way, env) {
            // The NAK is about the READ itself, whatever was executed since.
            way.expected = seq;
            self.refuse(core, NakCode::REMOTE_ACCESS, None, 0, env);
            let _ = self.replies.transmit(core, way, env);
        }
    }

    /// Sends an acknowledgement up to the expected frame.
    pub fn acknowledge<E: Env>(&mut self, core: &mut Core, way: &mut Way, env: &mut E) {
        let frame = Frame::new(FrameKind::Ack, core.qpn, core.attr.dest_qpn);
        way.push(core, frame, Outgoing::NONE, env);
    }
}
