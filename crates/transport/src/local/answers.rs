//! The requester's handling of answers, and of their absence.

use weft_verbs::op::ResponseKind;
use weft_verbs::{Instant, WcStatus};
use weft_wire::NakCode;
use weft_wire::aeth::rnr_delay_us;

use crate::core::Core;
use crate::frame::{Frame, FrameFlags, FrameKind, HostRange};
use crate::sge_list;
use crate::sq::SendQueue;
use crate::{Env, Peers};

use super::peer_ring::PeerRing;
use super::requester::{Requester, frames};
use super::responder::{CANNOT_FETCH, READY};
use super::watch::Look;

/// Retry count that means "for ever".
const RNR_FOREVER: u8 = 7;

impl Requester {
    /// Handles an acknowledgement: the peer executed everything before `ack`.
    #[inline]
    pub fn on_ack<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, ack: u32, env: &mut E) {
        let ahead = u64::from(ack.wrapping_sub(self.progress.una as u32));
        if ahead == 0 || ahead > self.progress.max - self.progress.una {
            return;
        }
        self.progress.una += ahead;
        if self.progress.nxt < self.progress.una {
            self.progress.rewind(sq, self.progress.una);
        }
        self.on_progress(core);
        self.retire(core, sq, env);
    }

    #[inline]
    fn on_progress(&mut self, core: &Core) {
        self.retry_left = core.attr.retry_cnt;
        self.rnr_left = core.attr.rnr_retry;
        self.watch.on_progress();
    }

    /// Handles an answer.
    pub fn on_answer<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, frame: &Frame, env: &mut E) {
        let past = u64::from((self.progress.max as u32).wrapping_sub(frame.seq));
        if past == 0 || past > self.progress.max {
            // It answers no sent frame, or is only an acknowledgement.
            return;
        }
        let seq = self.progress.max - past;
        match frame.kind {
            FrameKind::ReadData => self.on_read_data(core, sq, seq, frame, env),
            FrameKind::AtomicResult => self.on_result(core, sq, seq, frame, env),
            FrameKind::Rnr if frame.epoch == self.epoch && seq == self.progress.una => {
                self.on_rnr(core, sq, frame.code, env)
            }
            FrameKind::Nak => self.on_nak(core, sq, seq, frame.code, env),
            FrameKind::Dropped
                if frame.epoch == self.epoch && seq == self.progress.una && frame.code == CANNOT_FETCH =>
            {
                self.send_bytes(sq);
            }
            FrameKind::Dropped if seq == self.progress.una && frame.code == READY => self.on_ready(sq, frame.epoch),
            _ => {}
        }
    }

    fn on_rnr<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, timer: u8, env: &mut E) {
        core.stats.rnr_naks_received += 1;
        self.watch.disarm();
        if core.attr.rnr_retry != RNR_FOREVER {
            if self.rnr_left == 0 {
                let at = self.progress.find(sq, self.progress.una);
                return self.progress.fail_now(core, sq, at, WcStatus::RnrRetryExcErr, env);
            }
            self.rnr_left -= 1;
        }
        self.go_back(sq);
        self.rnr_until = Some(core.now + weft_verbs::Duration::from_micros(rnr_delay_us(timer).into()));
    }

    /// Sends the oldest frame again, unless it is on its way. A requester that waits has gone back already.
    fn on_ready(&mut self, sq: &SendQueue, epoch: u8) {
        if self.rnr_until.take().is_none() && epoch == self.epoch {
            self.go_back(sq);
        }
    }

    fn on_nak<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, seq: u64, code: u8, env: &mut E) {
        let at = self.progress.find(sq, seq);
        // The next request, or a READ that was accepted but lost its region while the peer answered it.
        if seq != self.progress.una && self.awaits(sq, at, seq).is_none() {
            return;
        }
        let status = match NakCode(code) {
            NakCode::INVALID_REQUEST => WcStatus::RemInvReqErr,
            NakCode::REMOTE_ACCESS => WcStatus::RemAccessErr,
            NakCode::REMOTE_OPERATIONAL => WcStatus::RemOpErr,
            _ => return,
        };
        self.progress.fail_now(core, sq, at, status, env);
    }

    /// Switches to sending bytes in frames, because the peer cannot fetch the memory that a frame named.
    fn send_bytes(&mut self, sq: &mut SendQueue) {
        self.bytes_only = true;
        let from = self.progress.find(sq, self.progress.una);
        let mut next = self.progress.una;
        for at in from..self.progress.started {
            let wqe = sq.get_mut(at);
            wqe.first = next;
            wqe.named = false;
            if wqe.psns > 0 && wqe.status == WcStatus::Success {
                wqe.psns = frames(wqe);
            }
            next = wqe.end();
        }
        self.progress.max = next;
        self.go_back(sq);
    }

    /// Handles bytes of a READ.
    fn on_read_data<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, seq: u64, frame: &Frame, env: &mut E) {
        let at = self.progress.find(sq, seq);
        let Some((offset, length)) = self.awaits(sq, at, seq) else { return };
        let wqe = sq.get(at);
        if wqe.op.info().response != ResponseKind::Data {
            return self.progress.fail_now(core, sq, at, WcStatus::BadRespErr, env);
        }
        if frame.addr < offset {
            // A duplicate request caused it.
            return;
        }
        let end = offset + u64::from(frame.bytes);
        let last = frame.flags.contains(FrameFlags::LAST);
        if frame.addr > offset || end > length || last != (end == length) {
            return self.progress.fail_now(core, sq, at, WcStatus::BadRespErr, env);
        }
        let stored = place(env, core, &wqe.sges, offset, frame.bytes);
        if let Err(status) = stored {
            return self.progress.fail_now(core, sq, at, status, env);
        }
        sq.get_mut(at).answered = if last { length.max(1) } else { end };
        self.on_part(core, sq, last, env);
    }

    /// Handles the result of an atomic operation, or a response without data.
    fn on_result<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, seq: u64, frame: &Frame, env: &mut E) {
        let at = self.progress.find(sq, seq);
        let Some((_, length)) = self.awaits(sq, at, seq) else { return };
        let wqe = sq.get(at);
        let stored = match (wqe.op.info().response, frame.bytes) {
            (ResponseKind::Value, 8) => place(env, core, &wqe.sges, 0, 8),
            (ResponseKind::Done, 0) => Ok(()),
            _ => Err(WcStatus::BadRespErr),
        };
        if let Err(status) = stored {
            return self.progress.fail_now(core, sq, at, status, env);
        }
        sq.get_mut(at).answered = length.max(1);
        self.on_part(core, sq, true, env);
    }

    /// Returns the received and the total length of the answer to the request at `at`; `None` if frame `seq` does not
    /// belong to that request, or its answer is complete.
    fn awaits(&self, sq: &SendQueue, at: u64, seq: u64) -> Option<(u64, u64)> {
        if at >= self.progress.started {
            return None;
        }
        let wqe = sq.get(at);
        let open = wqe.has_response() && wqe.first == seq && wqe.psns == 1 && wqe.answered < wqe.length.max(1);
        open.then_some((wqe.answered, wqe.length))
    }

    /// Handles a stored part of an answer, possibly the last.
    fn on_part<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, last: bool, env: &mut E) {
        self.awaited -= u32::from(last);
        self.on_progress(core);
        if last {
            self.retire(core, sq, env);
        }
    }

    /// Goes back to the first unanswered frame.
    fn go_back(&mut self, sq: &SendQueue) {
        let head = sq.head();
        let oldest =
            (head < self.progress.started).then(|| sq.get(head)).filter(|wqe| wqe.has_response() && wqe.psns == 1);
        let from = oldest.map_or(self.progress.una, |wqe| wqe.first.min(self.progress.una));
        self.epoch = self.epoch.wrapping_add(1);
        self.copied = 0;
        self.progress.rewind(sq, from);
    }

    /// Handles a deadline.
    pub fn on_timeout<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        ring: &mut PeerRing,
        now: Instant,
        env: &mut E,
    ) {
        if ring.full_until.is_some_and(|until| until <= now) {
            ring.full_until = None;
        }
        if self.rnr_until.is_some_and(|until| until <= now) {
            self.rnr_until = None;
        }
        let outstanding = self.progress.una < self.progress.max || self.awaited > 0;
        if !outstanding {
            return self.watch.disarm();
        }
        let look = self.watch.look(core.attr.timeout, now);
        if look == Look::Fine {
            return;
        }
        let (alive, taken) = (env.peers().is_alive(ring.peer), env.peers().is_taken(ring.peer, ring.mark));
        if alive && !taken {
            // The peer's process does not run at the moment. An adapter would answer in its place, so nothing is lost.
            return self.watch.excuse(now);
        }
        if look == Look::TimedOut {
            core.stats.timeouts += 1;
            if self.retry_left == 0 {
                return self.progress.fail_now(core, sq, sq.head(), WcStatus::RetryExcErr, env);
            }
            self.retry_left -= 1;
        }
        self.go_back(sq);
    }
}

/// Stores payload of the current frame at `offset` of a receiving list.
fn place<E: Env>(env: &mut E, core: &Core, sges: &[weft_verbs::Sge], offset: u64, bytes: u32) -> Result<(), WcStatus> {
    let mut at = 0;
    for part in sge_list::parts(sges, offset, u64::from(bytes)) {
        let addr = env.local(core.pd(), &part, true)?;
        env.peers().place(at, HostRange { addr, len: u64::from(part.length) });
        at += part.length;
    }
    if at == bytes { Ok(()) } else { Err(WcStatus::LocLenErr) }
}
