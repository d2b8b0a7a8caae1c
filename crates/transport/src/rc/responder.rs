//! Responder: recognises new, repeated and early requests. [`crate::execute`] executes them.
//!
//! | PSN against the expected one | action |
//! |---|---|
//! | equal | execute, then everything kept behind it |
//! | behind | a duplicate: acknowledge again, or replay the READ or atomic |
//! | ahead | keep it, and send one NAK for the gap |

use weft_verbs::op::ResponseKind;
use weft_verbs::{AsyncEvent, CqId, Instant, Op, WcStatus};
use weft_wire::aeth::{CREDITS_INVALID, credit_code};
use weft_wire::{Kind, NakCode, Packet};

use crate::core::{Core, Fault};
use crate::execute::{Answered, Executed, Executor, Refusal};
use crate::rq::RecvQueue;
use crate::{Budget, Env, TxBatch};

use super::delayed_ack::DelayedAck;
use super::keeping::Keeping;
use super::reorder::{Kept, Reorder};
use super::repeats::Repeats;
use super::replies::{Answer, Replies, Reply, Standing};
use super::requester::{extend, origin};
use super::resources::{Resource, Resources};

/// Packets executed before an unrequested acknowledgement, which moves the peer's window.
const ACK_PACKETS: u32 = 32;

/// State of the responder.
#[derive(Debug, Default)]
pub(crate) struct Responder {
    /// Expected PSN, counted without wrapping.
    pub epsn: u64,
    /// Messages completed, 24 bits.
    pub msn: u32,
    executor: Executor,
    pub replies: Replies,
    pub resources: Resources,
    reorder: Option<Box<Reorder>>,
    keeping: Keeping,
    /// A NAK was sent for the gap at `epsn`.
    gap_told: bool,
    /// The request at `epsn` found no receive: later ones are dropped.
    waits_recv: bool,
    /// Packets executed since the last acknowledgement.
    silent: u32,
    pub delayed_ack: DelayedAck,
    repeats: Repeats,
    /// Why and where the connection ended, to repeat the NAK if it is lost.
    refused: Option<(NakCode, u64)>,
}

impl Responder {
    /// Enters RTR: `psn` is expected first.
    pub fn start(&mut self, psn: u32) {
        *self = Responder { epsn: origin(psn), delayed_ack: self.delayed_ack.fresh(), ..Responder::default() };
    }

    /// Enters ERR. Returns the receive being filled, and its CQ if XRC named one.
    pub fn stop(&mut self, reply: bool) -> Option<(u64, Option<CqId>)> {
        self.delayed_ack = self.delayed_ack.fresh();
        if !reply {
            // Executed requests may still be acknowledged: the peer waits for it.
            self.replies.clear_but_ack();
            self.refused = None;
        }
        self.reorder = None;
        self.repeats.stop();
        self.resources.clear();
        self.executor.stop()
    }

    pub fn wants_transmit(&self, now: Instant) -> bool {
        self.replies.wants_transmit(self.delayed_ack.holds(now))
    }

    /// Returns the earliest deadline.
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.delayed_ack.poll_timeout(), self.repeats.poll_timeout()].into_iter().flatten().min()
    }

    /// Handles the deadlines that have passed.
    pub fn on_timeout(&mut self, now: Instant) {
        self.delayed_ack.on_timeout(now);
        if self.repeats.on_timeout(now) {
            self.acknowledge_again();
        }
    }

    /// Sends the last acknowledgement once more, if there was one.
    pub fn acknowledge_again(&mut self) {
        if self.msn > 0 && self.replies.answer == Answer::None {
            self.replies.answer = Answer::Ack;
        }
    }

    /// Sends replies and due acknowledgements.
    pub fn poll_transmit<E: Env>(
        &mut self,
        core: &mut Core,
        rq: &RecvQueue,
        tx: &mut TxBatch,
        env: &mut E,
        budget: &mut u32,
    ) {
        let hold_ack = self.delayed_ack.holds(core.now);
        if !self.replies.wants_transmit(hold_ack) {
            return;
        }
        let credits = self.credits(core, rq);
        let standing = Standing { epsn: self.epsn, msn: self.msn, credits, hold_ack };
        let ok = self.replies.poll_transmit(core, standing, tx, env, budget);
        if self.replies.answer == Answer::None {
            self.silent = 0;
        }
        if !ok && core.state() != weft_verbs::QpState::Err {
            core.event(env, AsyncEvent::QpAccessErr);
            core.fault = Some(Fault::Error);
        }
    }

    /// Returns the credit code of acknowledgements: the number of messages beyond the MSN that find a receive,
    /// including the one that an unfinished message has taken. Receives of an SRQ cannot be promised.
    fn credits(&self, core: &Core, rq: &RecvQueue) -> u8 {
        if core.init.srq.is_some() || !core.qp_type().has_recv_queue() {
            return CREDITS_INVALID;
        }
        credit_code(rq.len() + u32::from(self.executor.holds_recv()))
    }

    /// Handles a request.
    pub fn on_request<E: Env>(&mut self, core: &mut Core, rq: &mut RecvQueue, packet: &Packet<'_>, env: &mut E) {
        let psn = extend(self.epsn, packet.bth.psn());
        if psn == self.epsn {
            self.accept(core, rq, packet, env);
            if self.reorder.is_some() {
                self.drain(core, rq, env);
            }
        } else if psn < self.epsn {
            core.stats.duplicates += 1;
            self.keeping.on_duplicate(psn);
            self.repeat(core, packet, psn);
        } else {
            core.stats.out_of_order += 1;
            self.early(packet, psn, env.reorder_budget());
        }
    }

    /// Handles a request that arrives in ERR: if this side refused it and the peer repeats it, repeats the refusal.
    /// Later requests were sent before the peer could know.
    pub fn on_late_request(&mut self, packet: &Packet<'_>) {
        if let Some((code, psn)) = self.refused
            && extend(psn, packet.bth.psn()) <= psn
        {
            self.replies.answer = Answer::Fatal(code, psn);
        }
    }

    /// Executes the request at the expected PSN. Returns the number of PSNs that it takes.
    #[inline]
    fn execute<E: Env>(
        &mut self,
        core: &mut Core,
        rq: &mut RecvQueue,
        packet: &Packet<'_>,
        env: &mut E,
    ) -> Result<u64, Refusal> {
        let replies = &mut self.replies;
        let what = match self.executor.execute(core, rq, packet, || replies.fresh(), env)? {
            Executed::Part => return Ok(1),
            Executed::Message => {
                self.msn = next_msn(self.msn);
                return Ok(1);
            }
            Executed::Answer(what) => what,
        };
        let psns = match what {
            Answered::Read { len, .. } => crate::segment::packets(len, core.mtu()),
            _ => 1,
        };
        self.msn = next_msn(self.msn);
        let (first, end, msn) = (self.epsn, self.epsn + psns, self.msn);
        self.resources.push(Resource { first, end, msn, what }, usize::from(core.attr.max_dest_rd_atomic));
        replies.push(Reply { first, next: first, end, msn, what, fresh: true, again: false });
        Ok(psns)
    }

    /// Executes the expected request.
    fn accept<E: Env>(&mut self, core: &mut Core, rq: &mut RecvQueue, packet: &Packet<'_>, env: &mut E) {
        match self.execute(core, rq, packet, env) {
            Ok(psns) => {
                self.epsn += psns;
                self.repeats.stop();
                self.gap_told = false;
                self.waits_recv = false;
                self.silent += 1;
                // A request with its own response needs no acknowledgement: the response acknowledges everything before
                // it.
                let plain = is_plain(packet.info.kind);
                let due = packet.bth.ack_req() || self.silent >= ACK_PACKETS;
                match self.replies.answer {
                    Answer::SequenceNak | Answer::RnrNak(_) if !plain => self.replies.answer = Answer::None,
                    Answer::SequenceNak | Answer::RnrNak(_) => self.replies.answer = Answer::Ack,
                    Answer::None if plain && due => self.replies.answer = Answer::Ack,
                    _ => {}
                }
                if due && plain {
                    self.delayed_ack.on_message(self.silent, core.now);
                }
            }
            // No packet names memory to fetch.
            Err(Refusal::NotReady | Refusal::CannotFetch) => {
                self.waits_recv = true;
                self.reorder = None;
                self.replies.answer = Answer::RnrNak(core.attr.min_rnr_timer);
            }
            Err(Refusal::Fatal { code, recv }) => self.refuse(core, code, recv, env),
        }
    }

    /// Ends the connection (IBA 9.9.3): NAK, completion or event, ERR.
    fn refuse<E: Env>(&mut self, core: &mut Core, code: NakCode, recv: Option<WcStatus>, env: &mut E) {
        self.refused = Some((code, self.epsn));
        self.replies.answer = Answer::Fatal(code, self.epsn);
        self.executor.refuse(core, code, recv, env);
    }

    /// Executes the packets kept behind the gap that has just closed.
    fn drain<E: Env>(&mut self, core: &mut Core, rq: &mut RecvQueue, env: &mut E) {
        let first = self.epsn;
        while core.fault.is_none() && !self.waits_recv {
            let Some(stored) = self.reorder.as_mut().and_then(|r| r.take(self.epsn)) else { break };
            self.accept(core, rq, &stored.packet(), env);
        }
        let drained = self.epsn != first;
        if drained {
            self.keeping.on_closed(first, self.epsn);
            self.repeats.on_gap_closed();
        }
        if core.fault.is_some() || self.waits_recv {
            self.reorder = None;
            return;
        }
        if self.reorder.as_ref().is_some_and(|r| r.is_empty()) {
            self.reorder = None;
        }
        if self.reorder.is_some() && !self.gap_told {
            self.gap_told = true;
            self.replies.answer = Answer::SequenceNak;
        } else if drained && self.replies.answer == Answer::None {
            self.replies.answer = Answer::Ack;
        }
    }

    /// Handles a request that was already executed (IBA 9.7.5.1.1).
    fn repeat(&mut self, core: &Core, packet: &Packet<'_>, psn: u64) {
        if is_plain(packet.info.kind) {
            // One acknowledgement answers a whole run of retransmissions: the end of the run requests it. More would
            // only burden a requester in the middle of the run.
            self.silent += 1;
            let due = packet.bth.ack_req() || self.silent >= ACK_PACKETS;
            if due && self.replies.answer == Answer::None {
                self.replies.answer = Answer::Ack;
            }
            self.repeats.on_duplicate(due, core.now);
            return;
        }
        let Some(resource) = self.resources.find(psn) else { return };
        let Some(op) = Op::of_packet(packet.info.kind) else { return };
        let response = op.info().response;
        let reply = match (response, resource.what) {
            (ResponseKind::Data, Answered::Read { pd, rkey, va, len }) => {
                let Some(reth) = packet.ext.reth else { return };
                let offset = (psn - resource.first) * u64::from(core.mtu());
                let wanted = u64::from(reth.dma_len());
                let same = reth.rkey() == rkey && reth.va() == va.wrapping_add(offset);
                if !same || offset + wanted > len {
                    return;
                }
                let what = Answered::Read { pd, rkey, va: reth.va(), len: wanted };
                let end = psn + crate::segment::packets(wanted, core.mtu());
                Reply { first: psn, next: psn, end, msn: resource.msn, what, fresh: false, again: true }
            }
            (ResponseKind::Value | ResponseKind::Done, what) if what.response() == response => {
                Reply { first: psn, next: psn, end: psn + 1, msn: resource.msn, what, fresh: false, again: true }
            }
            _ => return,
        };
        self.replies.replay(reply, usize::from(core.attr.max_dest_rd_atomic));
    }

    /// Handles a request behind a gap.
    fn early(&mut self, packet: &Packet<'_>, psn: u64, budget: &Budget) {
        if self.waits_recv {
            return;
        }
        if !self.gap_told && self.reorder.is_none() {
            self.keeping.on_gap();
        }
        let asks_again = if self.keeping.keeps() {
            let kept = self.reorder.get_or_insert_with(|| Box::new(Reorder::new(budget))).insert(psn, packet);
            kept == Kept::Again && packet.bth.ack_req()
        } else {
            self.keeping.on_dropped(psn)
        };
        if !self.gap_told || asks_again {
            self.gap_told = true;
            self.replies.answer = Answer::SequenceNak;
        }
    }
}

/// Returns the number of the next message, of 24 bits.
fn next_msn(msn: u32) -> u32 {
    msn.wrapping_add(1) & 0xff_ffff
}

/// Returns whether a request is answered by a plain acknowledgement.
fn is_plain(kind: Kind) -> bool {
    kind.is_send() || kind.is_write()
}
