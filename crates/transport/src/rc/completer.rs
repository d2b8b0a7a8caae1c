//! Receive side of the requester: acknowledgements, responses and NAKs, and their effects.

use weft_verbs::op::ResponseKind;
use weft_verbs::{Instant, QpState, WcStatus};
use weft_wire::{Kind, NakCode, Packet, Syndrome};

use crate::Env;
use crate::core::Core;
use crate::segment;
use crate::sq::SendQueue;

use super::requester::{Requester, extend};

/// Responses that may overtake a missing one before it counts as lost: the network may reorder a little.
const REORDER_SLACK: u64 = 3;

/// Reason why a response is not accepted.
enum Bad {
    /// It answers no request of this queue pair.
    Stray,
    /// The request it answers fails.
    Fails(WcStatus),
}

impl Requester {
    /// Handles a response packet.
    pub fn on_response<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        now: Instant,
        packet: &Packet<'_>,
        env: &mut E,
    ) {
        let psn = extend(self.progress.una, packet.bth.psn());
        if !matches!(core.state(), QpState::Rts | QpState::Sqd) || psn >= self.progress.max {
            core.stats.dropped += 1;
            return;
        }
        let syndrome = packet.ext.aeth.map(|a| (a.syndrome(), a.msn()));
        if let Some((Syndrome::Ack(code), msn)) = syndrome {
            self.credits.on_ack(msn, code);
        }
        if packet.info.kind != Kind::Acknowledge {
            return self.on_data(core, sq, now, packet, psn, env);
        }
        match syndrome {
            Some((Syndrome::Ack(_), _)) => self.on_ack(core, sq, now, psn, env),
            Some((Syndrome::RnrNak(timer), _)) => self.on_rnr_nak(core, sq, now, psn, timer, env),
            Some((Syndrome::Nak(NakCode::PSN_SEQUENCE), _)) => self.on_sequence_nak(core, sq, now, psn, env),
            Some((Syndrome::Nak(code), _)) => self.on_fatal_nak(core, sq, now, psn, code, env),
            _ => core.stats.dropped += 1,
        }
    }

    fn on_ack<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, now: Instant, psn: u64, env: &mut E) {
        if psn < self.progress.una {
            return;
        }
        self.learn(psn + 1);
        self.acked_to = self.acked_to.max(psn + 1);
        self.settle(core, sq, now, None, env);
        if self.progress.una < self.acked_to {
            self.on_gap(core, now);
        }
        self.after_resend(sq, psn + 1);
    }

    /// Learns from an acknowledgement beyond the packets retransmitted since a NAK: the peer had kept the rest after
    /// all.
    fn learn(&mut self, acked_to: u64) {
        let (from, to) = self.resent;
        if from != 0
            && from == to
            && self.progress.nxt < self.progress.max
            && acked_to > self.progress.nxt.max(from + 1)
        {
            self.peer_buffers = Some(true);
        }
    }

    /// Learns from the acknowledgement of packets retransmitted after a NAK whether the peer kept the packets behind
    /// them.
    fn after_resend(&mut self, sq: &SendQueue, acked_to: u64) {
        let (from, to) = self.resent;
        if self.hold_until.is_none() || acked_to <= from {
            return;
        }
        if acked_to > to || to >= self.progress.max {
            self.peer_buffers = if acked_to > to { Some(true) } else { self.peer_buffers };
            self.hold_until = None;
        } else if acked_to == to {
            self.peer_buffers = Some(false);
            self.hold_until = None;
            self.rewind(sq, acked_to.max(self.progress.una));
        }
    }

    /// Handles responses with data, and empty ones that are not mere acknowledgements.
    fn on_data<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        now: Instant,
        packet: &Packet<'_>,
        psn: u64,
        env: &mut E,
    ) {
        if psn < self.progress.una || self.received.has(psn) {
            core.stats.duplicates += 1;
            return;
        }
        let Some(at) = self.chunks.iter().position(|c| c.holds(psn)) else {
            core.stats.dropped += 1;
            return;
        };
        let chunk = self.chunks[at];
        let request = self.progress.find(sq, psn);
        match store(core, sq, request, packet, psn, env) {
            Ok(()) => {}
            Err(Bad::Stray) => {
                core.stats.dropped += 1;
                return;
            }
            Err(Bad::Fails(status)) => return self.progress.fail_now(core, sq, request, status, env),
        }
        self.acked_to = self.acked_to.max(chunk.first);
        self.settle(core, sq, now, Some(psn), env);
        if self.hold_until.is_some() && self.progress.una > self.resent.0 {
            // The NAK was for this request; whether the peer kept the later ones is still unknown.
            self.hold_until = None;
            if self.peer_buffers != Some(true) {
                self.rewind(sq, self.resent.1.max(self.acked_to).min(self.progress.max));
            }
        }
        if psn > self.progress.una && (at > 0 || psn + 1 == chunk.end || psn - self.progress.una >= REORDER_SLACK) {
            self.on_gap(core, now);
        }
    }

    /// Advances `una` over everything acknowledged or received, `arrived` included, and completes finished requests.
    pub fn settle<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        now: Instant,
        arrived: Option<u64>,
        env: &mut E,
    ) {
        let before = self.progress.una;
        loop {
            let Some(chunk) = self.chunks.front().copied() else {
                self.progress.una = self.progress.una.max(self.acked_to);
                break;
            };
            if self.progress.una < chunk.first {
                self.progress.una = self.progress.una.max(self.acked_to.min(chunk.first));
                if self.progress.una < chunk.first {
                    break;
                }
            }
            while self.progress.una < chunk.end
                && (arrived == Some(self.progress.una) || self.received.has(self.progress.una))
            {
                self.progress.una += 1;
            }
            if self.progress.una < chunk.end {
                break;
            }
            self.chunks.pop_front();
        }
        if let Some(psn) = arrived.filter(|p| *p >= self.progress.una) {
            self.received.insert(self.progress.una, psn);
        }
        if self.progress.una == before {
            return;
        }
        self.received.forget_before(self.progress.una);
        self.window.on_ack(self.progress.una - before, core.mtu());
        self.timing.on_ack(self.progress.una, now);
        self.retry_left = core.attr.retry_cnt;
        self.rnr_left = core.attr.rnr_retry;
        self.holds = 0;
        self.gap_at = None;
        self.gap_tries = 0;
        if self.progress.una > self.rnr_psn {
            self.rnr_until = None;
        }
        if self.progress.una >= self.progress.max {
            self.share.leave();
            self.timing.disarm();
            self.stop_repairs();
        } else if self.rnr_until.is_none() {
            self.timing.restart(core.attr.timeout, now);
        }
        let reached = self.progress.una.max(self.acked_to);
        if self.progress.nxt < reached {
            self.rewind(sq, reached);
        }
        self.retire(core, sq, env);
    }
}

/// Stores the data of a response.
fn store<E: Env>(core: &Core, sq: &SendQueue, at: u64, packet: &Packet<'_>, psn: u64, env: &mut E) -> Result<(), Bad> {
    if at >= sq.tail() {
        return Err(Bad::Stray);
    }
    let wqe = sq.get(at);
    let atomic = packet.info.kind == Kind::AtomicAcknowledge;
    let local = |status| Bad::Fails(status);
    match wqe.op.info().response {
        ResponseKind::Data if !atomic => {
            let mtu = u64::from(core.mtu());
            let offset = (psn - wqe.first) * mtu;
            let want = wqe.length.saturating_sub(offset).min(mtu);
            if packet.payload.len() as u64 != want {
                return Err(Bad::Fails(WcStatus::BadRespErr));
            }
            segment::scatter(env, core.pd(), &wqe.sges, offset, packet.payload).map_err(local)
        }
        ResponseKind::Value if atomic => {
            let original = packet.ext.atomic_ack.map_or(0, |a| a.original());
            segment::scatter(env, core.pd(), &wqe.sges, 0, &original.to_ne_bytes()).map_err(local)
        }
        ResponseKind::Done if !atomic && packet.payload.is_empty() => Ok(()),
        _ => Err(Bad::Fails(WcStatus::BadRespErr)),
    }
}
