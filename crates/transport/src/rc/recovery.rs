//! Loss recovery of the requester: NAKs, gaps among responses, and timers. Retransmission is legal go-back-N, but
//! limited to what the peer needs: after a NAK only the missing packet is sent, and the requester holds for about a
//! round trip; a peer that kept the packets behind the gap acknowledges them all, and nothing else is sent twice.

use weft_verbs::{Duration, Instant, QpState, WcStatus};
use weft_wire::NakCode;
use weft_wire::aeth::rnr_delay_us;

use crate::Env;
use crate::core::Core;
use crate::sq::SendQueue;

use super::requester::Requester;

/// Packets retransmitted at once when NAKs follow each other packet by packet: a burst was lost.
const RESEND_RUN_MAX: u64 = 64;
/// How many times only the missing packet is retransmitted, before everything is.
const HOLDS_MAX: u32 = 3;
/// rnr_retry value that means "for ever".
const RNR_RETRY_INFINITE: u8 = 7;

impl Requester {
    /// Handles a NAK: the peer misses `psn`; everything before it is acknowledged.
    pub fn on_sequence_nak<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        now: Instant,
        psn: u64,
        env: &mut E,
    ) {
        if psn < self.acked_to.max(self.progress.una) {
            return;
        }
        core.stats.sequence_naks_received += 1;
        self.acked_to = psn;
        self.settle(core, sq, now, None, env);
        // A repeated NAK has no new information while the missing packet is being retransmitted.
        let repeated = self.hold_until.is_some() && psn == self.resent.0;
        if core.fault.is_some() || psn >= self.progress.max || repeated {
            return;
        }
        self.window.on_loss(psn, self.progress.max, core.mtu());
        self.timing.forget_sample();
        let (from, to) = self.resent;
        let asked_before = from < to;
        if asked_before && psn > to && self.hold_until.is_some() {
            self.peer_buffers = Some(true);
        }
        if self.peer_buffers == Some(false) {
            self.hold_until = None;
            self.resend = None;
            self.resent = (psn, psn);
            return self.rewind(sq, psn);
        }
        let run = if asked_before && psn == to { ((to - from) * 2).min(RESEND_RUN_MAX) } else { 1 };
        let end = (psn + run).min(self.progress.max);
        self.resend = Some((psn, end));
        self.resent = (psn, end);
        self.holds = 0;
        self.hold_until = Some(now + self.timing.hold());
        self.rewind(sq, self.progress.max);
    }

    /// Handles an RNR NAK: the peer had no receive for `psn`.
    pub fn on_rnr_nak<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        now: Instant,
        psn: u64,
        timer: u8,
        env: &mut E,
    ) {
        let waiting = self.rnr_until.is_some() && self.rnr_psn == psn;
        if psn < self.progress.una || psn < self.acked_to || waiting {
            return;
        }
        core.stats.rnr_naks_received += 1;
        self.acked_to = psn;
        self.settle(core, sq, now, None, env);
        if core.fault.is_some() || psn >= self.progress.max {
            return;
        }
        if core.attr.rnr_retry != RNR_RETRY_INFINITE {
            if self.rnr_left == 0 {
                let at = self.progress.find(sq, psn);
                return self.progress.fail_now(core, sq, at, WcStatus::RnrRetryExcErr, env);
            }
            self.rnr_left -= 1;
        }
        self.share.leave();
        self.rnr_psn = psn;
        self.rnr_until = Some(now + Duration::from_micros(u64::from(rnr_delay_us(timer))));
        self.stop_repairs();
        self.timing.forget_sample();
        self.timing.disarm();
        self.rewind(sq, psn);
    }

    /// Handles a fatal NAK: the peer refuses the request that `psn` belongs to.
    pub fn on_fatal_nak<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        now: Instant,
        psn: u64,
        code: NakCode,
        env: &mut E,
    ) {
        let status = match code {
            NakCode::INVALID_REQUEST => WcStatus::RemInvReqErr,
            NakCode::REMOTE_ACCESS => WcStatus::RemAccessErr,
            NakCode::REMOTE_OPERATIONAL => WcStatus::RemOpErr,
            NakCode::INVALID_RD_REQUEST => WcStatus::RemInvRdReqErr,
            _ => {
                core.stats.dropped += 1;
                return;
            }
        };
        if psn < self.progress.una {
            return;
        }
        self.acked_to = self.acked_to.max(psn);
        self.settle(core, sq, now, None, env);
        if core.fault.is_none() && self.progress.una < self.progress.max {
            let at = self.progress.find(sq, psn);
            self.progress.fail_now(core, sq, at, status, env);
        }
    }

    /// Handles a missing response at `una` when a later one arrived (IBA 9.7.5.2.8: an implied NAK).
    pub fn on_gap(&mut self, core: &mut Core, now: Instant) {
        let missing = self.chunks.front().is_some_and(|c| c.holds(self.progress.una));
        if !missing || self.progress.nxt <= self.progress.una || (self.gap.0 == self.progress.una && now < self.gap.1) {
            return;
        }
        core.stats.implied_naks += 1;
        self.window.on_loss(self.progress.una, self.progress.max, core.mtu());
        self.timing.forget_sample();
        self.ask_gap(now);
    }

    fn ask_gap(&mut self, now: Instant) {
        let until = now + self.timing.hold() * (1 << self.gap_tries);
        self.gap = (self.progress.una, until);
        self.gap_at = Some(until);
        self.reread = true;
    }

    /// Repeats the request for a missing response that did not arrive.
    fn on_gap_over(&mut self, now: Instant) {
        self.gap_at = None;
        let missing = self.chunks.front().is_some_and(|c| c.holds(self.progress.una));
        if missing
            && self.gap.0 == self.progress.una
            && self.progress.nxt > self.progress.una
            && self.gap_tries < HOLDS_MAX
        {
            self.gap_tries += 1;
            self.ask_gap(now);
        }
    }

    /// Cancels retransmissions out of turn, because everything is retransmitted.
    pub fn stop_repairs(&mut self) {
        self.resend = None;
        self.reread = false;
        self.hold_until = None;
        self.gap_at = None;
    }

    /// Returns the earliest deadline.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timing = &self.timing;
        [self.rnr_until, self.hold_until, self.gap_at, timing.retry_at, timing.probe_at].into_iter().flatten().min()
    }

    /// Handles the deadlines that have passed.
    pub fn on_timeout<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, now: Instant, env: &mut E) {
        if !matches!(core.state(), QpState::Rts | QpState::Sqd) {
            return;
        }
        if self.rnr_until.is_some_and(|t| t <= now) {
            self.rnr_until = None;
            self.timing.restart(core.attr.timeout, now);
        }
        if self.hold_until.is_some_and(|t| t <= now) {
            self.on_hold_over(sq, now);
        }
        if self.gap_at.is_some_and(|t| t <= now) {
            self.on_gap_over(now);
        }
        if self.timing.retry_at.is_some_and(|t| t <= now) {
            self.on_retry(core, sq, now, env);
        } else if self.timing.probe_at.is_some_and(|t| t <= now) {
            self.on_probe(core, now);
        }
    }

    /// Handles the absence of an answer to what was retransmitted after a NAK.
    fn on_hold_over(&mut self, sq: &SendQueue, now: Instant) {
        self.hold_until = None;
        let from = self.resent.0.max(self.progress.una);
        if from >= self.resent.1 {
            return;
        }
        if self.peer_buffers == Some(true) && self.holds < HOLDS_MAX {
            self.holds += 1;
            self.resend = Some((from, self.resent.1));
            self.hold_until = Some(now + self.timing.hold() * (1 << self.holds));
        } else {
            self.resend = None;
            self.rewind(sq, self.progress.una);
        }
    }

    /// Handles a whole timeout without progress.
    fn on_retry<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, now: Instant, env: &mut E) {
        if self.progress.una >= self.progress.max {
            return self.timing.disarm();
        }
        core.stats.timeouts += 1;
        if self.retry_left == 0 {
            return self.progress.fail_now(core, sq, sq.head(), WcStatus::RetryExcErr, env);
        }
        self.retry_left -= 1;
        self.share.leave();
        self.stop_repairs();
        self.resent = (0, 0);
        self.window.on_timeout(self.progress.max, core.mtu());
        self.timing.on_retry(core.attr.timeout, now);
        self.rewind(sq, self.progress.una);
    }

    /// Probes after a few round trips without an answer. It sends the last packet first, since a peer that misses
    /// something before it answers with a NAK; every other time the oldest one, in case that NAK was sent and lost.
    fn on_probe(&mut self, core: &mut Core, now: Instant) {
        if self.progress.una >= self.progress.max {
            return self.timing.disarm();
        }
        let before = self.timing.on_probe(now);
        self.share.leave();
        // After a rewind the window may be full of packets that were all lost again: the last one sent since then
        // counts.
        if self.reread || self.resend.is_some() || self.progress.nxt <= self.progress.una {
            return;
        }
        core.stats.probes += 1;
        let last = self.progress.nxt - 1;
        if self.chunks.front().is_some_and(|c| c.holds(self.progress.una)) {
            self.reread = true;
        } else if before.is_multiple_of(2) && !self.chunks.iter().any(|c| c.holds(last)) {
            self.resend = Some((last, self.progress.nxt));
        } else {
            self.resend = Some((self.progress.una, self.progress.una + 1));
        }
    }
}
