//! The requester's packets: new ones, retransmissions, and requests for missing responses.

use weft_verbs::op::{Extra, ListUse, Operands, TargetAction};
use weft_verbs::{Instant, Op, SendFlags, SendOp, WcStatus};
use weft_wire::ext::{AtomicEth, Feth, Reth, XrcEth};
use weft_wire::{Headers, Service};

use crate::core::{Bits, Core};
use crate::segment::{Payload, Segment};
use crate::sq::SendQueue;
use crate::{Env, TxBatch};

use super::requester::Requester;

/// The end of a message requests an acknowledgement, and so does one of this many packets.
const ACK_REQ_PACKETS: u64 = 32;

impl Requester {
    /// Sends the next new packet.
    pub fn send_new<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        now: Instant,
        tx: &mut TxBatch,
        env: &mut E,
    ) {
        let at = self.progress.cur;
        let psn = self.progress.nxt;
        let wqe = sq.get(at);
        let window = self.window_packets(core);
        let answered = wqe.has_response();
        let end = wqe.end();
        let limit = if wqe.op.op() == Op::Read {
            let room = window.saturating_sub(psn - self.progress.una).max(1);
            end.min(psn + self.chunk_packets(core, window).min(room))
        } else {
            psn + 1
        };
        self.silent += 1;
        let ack_req = answered
            || limit == end
            || self.silent >= ACK_REQ_PACKETS.min(window / 2)
            || limit - self.progress.una >= window
            || (wqe.takes_receive() && !self.credits.allow(wqe.ssn));
        // Before the queue pair leaves its place, it needs an acknowledgement of everything.
        let ack_req = self.share.spend(limit - psn, core.mtu()) || ack_req;
        let split = psn != wqe.first && answered;
        match emit(core, sq, at, psn, limit, ack_req, tx, env) {
            Ok(()) => {}
            Err(status) => return self.fail_at(core, sq, at, psn, status, env),
        }
        if answered {
            self.chunks.push_back(super::requester::Chunk { first: psn, end: limit });
            if split {
                self.credits.number();
            }
        }
        if ack_req {
            self.silent = 0;
            self.timing.time(psn, now);
        }
        self.progress.nxt = limit;
        self.progress.max = limit;
        if limit == end {
            self.progress.cur += 1;
        }
    }

    /// Returns the first PSN from `psn` on that the peer still needs.
    fn needed(&self, psn: u64) -> u64 {
        if psn >= self.acked_to {
            return psn;
        }
        match self.chunks.iter().find(|c| c.end > psn) {
            Some(c) => psn.max(c.first.min(self.acked_to)),
            None => self.acked_to,
        }
    }

    /// Returns the PSN after the range of the packet at `psn`: a whole response range, or the packet alone.
    fn reach(&self, psn: u64) -> u64 {
        self.chunks.iter().find(|c| c.holds(psn)).map_or(psn + 1, |c| c.end)
    }

    /// Goes back: retransmits at `nxt`.
    pub fn send_again<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, tx: &mut TxBatch, env: &mut E) {
        let psn = self.needed(self.progress.nxt);
        if psn >= self.progress.max {
            return self.rewind(sq, self.progress.max);
        }
        let limit = self.reach(psn);
        let at = self.progress.find(sq, psn);
        let window = self.window_packets(core);
        self.silent += 1;
        let ack_req = limit == sq.get(at).end()
            || psn == self.progress.una
            || limit >= self.progress.max
            || self.silent >= ACK_REQ_PACKETS.min(window / 2)
            || limit - self.progress.una >= window;
        if ack_req {
            self.silent = 0;
        }
        core.stats.retransmits += 1;
        doubt_flush(core, sq, at);
        match emit(core, sq, at, psn, limit, ack_req, tx, env) {
            Ok(()) => {
                // The program may have written to the payload during transmission and so damaged the packet.
                tx.copy_before_send();
                self.rewind(sq, limit);
            }
            Err(status) => self.fail_at(core, sq, at, psn, status, env),
        }
    }

    /// Retransmits out of turn the packet that a NAK named, or a probe.
    pub fn send_resend<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, tx: &mut TxBatch, env: &mut E) {
        let Some((from, to)) = self.resend.take() else { return };
        let psn = self.needed(from.max(self.progress.una));
        if psn >= to.min(self.progress.max) {
            return;
        }
        let limit = self.reach(psn);
        if limit < to {
            self.resend = Some((limit, to));
        } else if (from, to) == self.resent {
            self.resent.1 = limit;
        }
        let at = self.progress.find(sq, psn);
        core.stats.retransmits += 1;
        doubt_flush(core, sq, at);
        match emit(core, sq, at, psn, limit, limit >= to, tx, env) {
            Ok(()) => tx.copy_before_send(),
            Err(status) => self.fail_at(core, sq, at, psn, status, env),
        }
    }

    /// Requests the missing responses again, from `una` up to the next received one.
    pub fn send_reread<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, tx: &mut TxBatch, env: &mut E) {
        self.reread = false;
        let psn = self.progress.una;
        let Some(chunk) = self.chunks.front().copied().filter(|c| c.holds(psn)) else { return };
        let limit = self.received.first_in(psn + 1, chunk.end);
        let at = self.progress.find(sq, psn);
        core.stats.retransmits += 1;
        doubt_flush(core, sq, at);
        if let Err(status) = emit(core, sq, at, psn, limit, true, tx, env) {
            self.fail_at(core, sq, at, psn, status, env);
        }
    }
}

/// Switches the ICRC variant when a FLUSH is retransmitted. Linux's rxe (6.2 and later) accepts only a FLUSH with its
/// own computation of the ICRC, and drops any other; all other peers drop that one. So each retransmission tries the
/// other variant, and the one that is answered stays.
fn doubt_flush(core: &mut Core, sq: &SendQueue, at: u64) {
    core.flush_for_rxe ^= at < sq.tail() && sq.get(at).op.info().action == TargetAction::Flush;
}

/// Puts the packet at `psn` of request `at` into the batch. `limit` is the PSN after its range, which is larger than
/// one PSN for READ only.
#[allow(clippy::too_many_arguments)] // The two halves of the state and the outside world; a struct would only hide it.
fn emit<E: Env>(
    core: &mut Core,
    sq: &SendQueue,
    at: u64,
    psn: u64,
    limit: u64,
    ack_req: bool,
    tx: &mut TxBatch,
    env: &mut E,
) -> Result<(), WcStatus> {
    let wqe = sq.get(at);
    let mtu = core.mtu();
    let xrc = core.service() == Service::Xrc;
    if wqe.op.op().is_message() {
        let segment = Segment::of(wqe, psn - wqe.first, mtu, xrc);
        let payload = Payload::of(env, core.pd(), wqe, segment.offset, segment.len)?;
        let takes = segment.last && wqe.takes_receive();
        let solicited = takes && wqe.flags.contains(SendFlags::SOLICITED);
        core.begin(tx, segment.kind, psn, Bits { ack_req, solicited }, &segment.ext, segment.len);
        payload.add(wqe, tx);
        return Ok(());
    }
    let row = wqe.op.info();
    // Local operations use no PSN.
    let (Some(packets), Some(target)) = (row.packets, wqe.op.target()) else { return Ok(()) };
    let kind = packets.kind(Extra::None, true, true);
    let mut ext = Headers { xrceth: xrc.then(|| XrcEth::new(wqe.srqn)), ..Headers::default() };
    let offset = (psn - wqe.first) * u64::from(mtu);
    let len = wqe.length.min((limit - wqe.first) * u64::from(mtu)).saturating_sub(offset);
    ext.reth = Some(Reth::new(target.addr.wrapping_add(offset), target.rkey, len as u32));
    let mut payload = None;
    match (row.action, wqe.op) {
        (TargetAction::Word, _) if row.list == ListUse::Sent => {
            payload = Some(Payload::of(env, core.pd(), wqe, 0, len as u32)?)
        }
        (TargetAction::Word, op) => {
            let Operands { compare, value } = op.operands();
            (ext.reth, ext.atomic) = (None, Some(AtomicEth::new(target.addr, target.rkey, value, compare)));
        }
        (_, SendOp::Flush { length, placement, level, .. }) => {
            ext.reth = Some(Reth::new(target.addr, target.rkey, length));
            ext.feth = Some(Feth::new(placement, level));
        }
        _ => {}
    }
    let bytes = if payload.is_some() { len as u32 } else { 0 };
    core.begin(tx, kind, psn, Bits { ack_req, solicited: false }, &ext, bytes);
    if let Some(payload) = payload {
        payload.add(wqe, tx);
    }
    if row.action == TargetAction::Flush && core.flush_for_rxe {
        tx.flush_for_rxe();
    }
    Ok(())
}
