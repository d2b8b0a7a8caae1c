//! Responder for a peer on this host: takes requests in the order of their numbers. [`crate::execute`] executes them.
//!
//! | number against the expected one | action |
//! |---|---|
//! | equal | execute |
//! | behind | a duplicate: acknowledge again, or answer the READ or atomic again |
//! | ahead | none: it follows one that found no receive, or that came before the queue pair was ready |

use weft_verbs::{CqId, Op, WcStatus};
use weft_wire::NakCode;

use crate::Env;
use crate::core::Core;
use crate::execute::{Executed, Executor, FrameRequest, Refusal};
use crate::frame::{Frame, FrameFlags, FrameKind, Outgoing};
use crate::peers::PeerId;
use crate::rq::RecvQueue;

use super::peer_ring::PeerRing;
use super::replies::{Outcome, Replies};

/// Code of a frame dropped because the peer cannot fetch the memory that it names: the requester must send the bytes.
pub(super) const CANNOT_FETCH: u8 = 1;
/// Code of a frame dropped because it came too early, or found no receive: the requester may send it again now.
pub(super) const READY: u8 = 2;

/// State of the responder.
#[derive(Debug, Default)]
pub(crate) struct Responder {
    executor: Executor,
    replies: Replies,
    /// Number and epoch of the last frame that found no receive.
    unready: Option<(u32, u8)>,
}

impl Responder {
    /// Enters ERR. Returns the receive being filled, and its CQ if XRC named one.
    pub fn stop(&mut self, reply: bool) -> Option<(u64, Option<CqId>)> {
        self.replies.stop(reply);
        self.executor.stop()
    }

    /// Returns whether answers wait for room in the ring.
    pub fn has_answers(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Handles a request.
    pub fn on_request<E: Env>(
        &mut self,
        core: &mut Core,
        rq: &mut RecvQueue,
        ring: &mut PeerRing,
        frame: &Frame,
        env: &mut E,
    ) {
        let ahead = frame.seq.wrapping_sub(ring.expected) as i32;
        if ahead > 0 {
            core.stats.ring_frames_skipped += 1;
            return;
        }
        if ahead < 0 {
            core.stats.duplicates += 1;
            ring.ack_due = true;
            self.replies.repeat(frame.seq, frame.epoch, usize::from(core.attr.max_dest_rd_atomic));
            return;
        }
        match self.execute(core, rq, ring.peer, frame, env) {
            Ok(()) => {
                ring.expected = ring.expected.wrapping_add(1);
                ring.ack_due = true;
            }
            Err(Refusal::NotReady) => {
                core.stats.rnr_naks_sent += 1;
                self.unready = Some((frame.seq, frame.epoch));
                self.replies.verdict = Outcome::Say(FrameKind::Rnr, core.attr.min_rnr_timer, frame.epoch);
            }
            Err(Refusal::CannotFetch) => {
                self.replies.verdict = Outcome::Say(FrameKind::Dropped, CANNOT_FETCH, frame.epoch);
            }
            Err(Refusal::Fatal { code, recv }) => self.refuse(core, code, recv, frame.epoch, env),
        }
        if self.has_answers() {
            self.transmit(core, ring, env);
        }
    }

    /// Executes the expected frame, and queues the answer if it needs one of its own.
    #[inline]
    fn execute<E: Env>(
        &mut self,
        core: &mut Core,
        rq: &mut RecvQueue,
        peer: PeerId,
        frame: &Frame,
        env: &mut E,
    ) -> Result<(), Refusal> {
        let request = FrameRequest { peer, frame };
        let replies = &mut self.replies;
        if let Executed::Answer(found) = self.executor.execute(core, rq, &request, || replies.fresh(), env)? {
            replies.push(frame.seq, frame.epoch, found, usize::from(core.attr.max_dest_rd_atomic));
        }
        Ok(())
    }

    /// Handles a request on an unreliable connection.
    pub fn on_unreliable<E: Env>(
        &mut self,
        core: &mut Core,
        rq: &mut RecvQueue,
        ring: &mut PeerRing,
        frame: &Frame,
        env: &mut E,
    ) {
        let first = frame.flags.contains(FrameFlags::FIRST);
        let goes_on = frame.seq == ring.expected && !self.executor.is_idle();
        if first {
            self.executor.drop_message();
        }
        let is_message = frame.kind.op().is_some_and(Op::is_message);
        let taken = if is_message && !frame.flags.contains(FrameFlags::RENDEZVOUS) && (first || goes_on) {
            self.execute(core, rq, ring.peer, frame, env)
        } else {
            Err(Refusal::NotReady)
        };
        ring.expected = frame.seq.wrapping_add(1);
        if let Err(refusal) = taken {
            self.executor.drop_refused(core, refusal, env);
        }
    }

    /// Returns whether the expected frame has come and found no receive.
    #[inline]
    pub fn awaits_receive(&self, ring: &PeerRing) -> bool {
        self.unready.is_some_and(|(seq, _)| seq == ring.expected)
    }

    /// Tells the requester that the frame which found no receive would find one now.
    pub fn announce_receive<E: Env>(&mut self, core: &mut Core, ring: &mut PeerRing, env: &mut E) {
        if let Some((_, epoch)) = self.unready.take() {
            self.ask_again(core, ring, epoch, env);
        }
    }

    /// Asks the requester for the expected frame at once.
    pub fn ask_again<E: Env>(&mut self, core: &mut Core, ring: &mut PeerRing, epoch: u8, env: &mut E) {
        self.replies.verdict = Outcome::Say(FrameKind::Dropped, READY, epoch);
        self.transmit(core, ring, env);
    }

    /// Ends the connection, because the expected frame found no receive for too long.
    pub fn refuse_unready<E: Env>(&mut self, core: &mut Core, ring: &mut PeerRing, env: &mut E) {
        if let Some((_, epoch)) = self.unready.take() {
            self.refuse(core, NakCode::INVALID_REQUEST, None, epoch, env);
            self.transmit(core, ring, env);
        }
    }

    /// Ends the connection (IBA 9.9.3): NAK, completion or event, ERR.
    fn refuse<E: Env>(&mut self, core: &mut Core, code: NakCode, recv: Option<WcStatus>, epoch: u8, env: &mut E) {
        self.replies.verdict = Outcome::Say(FrameKind::Nak, code.0, epoch);
        self.executor.refuse(core, code, recv, env);
    }

    /// Sends the queued answers.
    pub fn transmit<E: Env>(&mut self, core: &mut Core, ring: &mut PeerRing, env: &mut E) {
        if let Err(seq) = self.replies.transmit(core, ring, env) {
            // The NAK is about the READ itself, whatever was executed since.
            ring.expected = seq;
            self.refuse(core, NakCode::REMOTE_ACCESS, None, 0, env);
            let _ = self.replies.transmit(core, ring, env);
        }
    }

    /// Sends an acknowledgement up to the expected frame.
    pub fn acknowledge<E: Env>(&mut self, core: &mut Core, ring: &mut PeerRing, env: &mut E) {
        let frame = Frame::new(FrameKind::Ack, core.qpn, core.attr.dest_qpn);
        ring.push(core, frame, Outgoing::NONE, env);
    }
}
