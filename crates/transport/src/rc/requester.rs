//! Requester: selects the next packet to send. PSNs are counted without wrapping from the first one on, so that a
//! message of 2^31 bytes compares like any other.
//!
//! ```text
//!        una            acked_to          nxt              max
//!   ──────┴────────────────┴───────────────┴────────────────┴──────▶ PSN
//!    done   a response is     acknowledged   to send again     new
//!           missing           or in flight   (after a rewind)
//! ```

use std::collections::VecDeque;

use weft_verbs::{Instant, Op, QpState, SendFlags, WcStatus};
use weft_wire::Psn;

use crate::core::Core;
use crate::peer_quota::{PeerQuota, Share};
use crate::progress::{self, SendProgress};
use crate::sq::{SendQueue, Wqe};
use crate::{Env, TxBatch};

use super::credits::Credits;
use super::received::Received;
use super::retry::Timing;
use super::window::Window;

/// Bytes of one READ request on the wire, if several may be outstanding; a longer READ becomes several requests.
const READ_CHUNK_BYTES: u64 = 128 << 10;
/// Start of the PSN count, so that no count before the first is negative.
const PSN_BASE: u64 = 1 << 32;

/// Returns the count nearest to `near` whose low 24 bits are `psn`.
pub(crate) fn extend(near: u64, psn: Psn) -> u64 {
    near.wrapping_add_signed(i64::from(psn.distance(Psn::new(near as u32))))
}

/// Returns the initial count for a first PSN.
pub(crate) fn origin(psn: u32) -> u64 {
    PSN_BASE + u64::from(psn & Psn::MASK)
}

/// A request on the wire that the peer answers with response packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    /// First PSN.
    pub first: u64,
    /// PSN after its last.
    pub end: u64,
}

impl Chunk {
    pub fn holds(&self, psn: u64) -> bool {
        self.first <= psn && psn < self.end
    }
}

/// Next action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Request the response missing at `una` again.
    Reread,
    /// Retransmit out of turn for a NAK or a probe.
    Resend,
    /// Retransmit at `nxt`.
    Again,
    /// Send the next packet of the current request.
    Continue,
    /// Start the next request.
    Start,
}

/// State of the requester.
#[derive(Debug, Default)]
pub(crate) struct Requester {
    pub progress: SendProgress,
    /// PSN before which the peer acknowledged everything; ahead of `progress.una` while a response is missing.
    pub acked_to: u64,
    /// Requests that await responses, oldest first; at most max_rd_atomic.
    pub chunks: VecDeque<Chunk>,
    pub received: Received,
    pub window: Window,
    /// Its share of the data that all queue pairs together may have in flight to the peer.
    pub share: Share,
    pub timing: Timing,
    pub credits: Credits,
    /// PSNs to retransmit out of turn.
    pub resend: Option<(u64, u64)>,
    /// PSNs retransmitted after the last NAK.
    pub resent: (u64, u64),
    /// Whether to request the response at `una` again.
    pub reread: bool,
    /// The gap requested last, and until when not to request it again.
    pub gap: (u64, Instant),
    /// When to request it again, if no response arrives.
    pub gap_at: Option<Instant>,
    /// Number of requests for it by that timer.
    pub gap_tries: u32,
    /// After a NAK: until when to wait for the peer's answer.
    pub hold_until: Option<Instant>,
    /// Number of holds since the last progress.
    pub holds: u32,
    /// Whether the peer keeps packets behind a gap, once known.
    pub peer_buffers: Option<bool>,
    /// Until when to wait because the peer had no receive.
    pub rnr_until: Option<Instant>,
    /// PSN of that RNR NAK.
    pub rnr_psn: u64,
    pub rnr_left: u8,
    pub retry_left: u8,
    /// Packets sent since the last request for an acknowledgement.
    pub silent: u64,
}

impl Requester {
    /// Enters RTS: `psn` is the first to send.
    pub fn start(&mut self, psn: u32, core: &Core, sq: &SendQueue) {
        let first = origin(psn);
        *self = Requester {
            progress: SendProgress::new(first, sq),
            acked_to: first,
            rnr_left: core.attr.rnr_retry,
            retry_left: core.attr.retry_cnt,
            ..Requester::default()
        };
    }

    /// Returns the PSNs in flight, relative to the next one to send.
    fn inflight(&self) -> u64 {
        self.progress.nxt.saturating_sub(self.progress.una)
    }

    fn holding(&self) -> bool {
        self.hold_until.is_some() && self.peer_buffers != Some(true)
    }

    /// Returns the next possible action, if any.
    #[inline]
    pub fn step(&self, core: &Core, sq: &SendQueue, now: Instant) -> Option<Step> {
        if !matches!(core.state(), QpState::Rts | QpState::Sqd) || self.rnr_until.is_some_and(|t| now < t) {
            return None;
        }
        if self.reread {
            return Some(Step::Reread);
        }
        if self.resend.is_some() {
            return Some(Step::Resend);
        }
        if self.holding() {
            return None;
        }
        let window = self.window_packets(core);
        if self.progress.nxt < self.progress.max {
            return self.has_room(core, window).then_some(Step::Again);
        }
        if self.progress.stopped || self.progress.cur >= sq.tail() {
            return None;
        }
        let wqe = sq.get(self.progress.cur);
        if self.progress.cur < self.progress.started {
            let open = self.window_open(core, wqe, window, wqe.end() - self.progress.nxt) && self.credit(wqe, wqe.ssn);
            return open.then_some(Step::Continue);
        }
        if core.state() != QpState::Rts {
            return None;
        }
        if wqe.flags.contains(SendFlags::FENCE) && !self.chunks.is_empty() {
            return None;
        }
        if wqe.is_local() {
            // A key must not vanish under requests that may be retransmitted.
            let ready = wqe.op.op() != Op::LocalInv || sq.head() == self.progress.cur;
            return ready.then_some(Step::Start);
        }
        let left = crate::segment::packets(wqe.length, core.mtu());
        let open = self.window_open(core, wqe, window, left) && self.credit(wqe, self.credits.upcoming());
        open.then_some(Step::Start)
    }

    /// Returns the number of packets that may be in flight.
    pub fn window_packets(&self, core: &Core) -> u64 {
        self.window.packets(core.mtu()).min(self.share.packets(core.mtu()))
    }

    /// Returns whether another packet may be sent. If others became busy and this queue pair's share shrank below its
    /// packets in flight, one more packet is sent that requests an acknowledgement, unless one is already requested.
    fn has_room(&self, core: &Core, window: u64) -> bool {
        let inflight = self.inflight();
        inflight < window || (self.silent > 0 && inflight < self.window.packets(core.mtu()))
    }

    /// Joins the queue pairs that share a limit on data in flight to the peer.
    pub fn join(&mut self, peer_quota: &PeerQuota) {
        self.share = Share::of(peer_quota);
    }

    fn window_open(&self, core: &Core, wqe: &Wqe, window: u64, left: u64) -> bool {
        if !self.has_room(core, window) {
            return false;
        }
        if !wqe.has_response() {
            return true;
        }
        let inflight = self.inflight();
        // A depth of zero lets the request through to fail.
        if self.chunks.len() >= usize::from(core.attr.max_rd_atomic.max(1)) {
            return false;
        }
        // Avoid tiny READ requests into an almost full window.
        inflight == 0 || window.saturating_sub(inflight) >= left.min(self.chunk_packets(core, window) / 2)
    }

    /// Returns the most packets that one READ request asks for.
    pub fn chunk_packets(&self, core: &Core, window: u64) -> u64 {
        let fixed = READ_CHUNK_BYTES / u64::from(core.mtu());
        let share = window / u64::from(core.attr.max_rd_atomic.max(1));
        fixed.max(share).clamp(1, window)
    }

    /// Returns whether end-to-end credits permit a packet of `wqe`: without credit, one at a time as a probe.
    fn credit(&self, wqe: &Wqe, ssn: u32) -> bool {
        !wqe.takes_receive() || self.credits.allow(ssn) || self.progress.una == self.progress.max
    }

    /// Returns whether it could send now. While it waits for a place among its peer's others, only retransmissions
    /// count.
    pub fn wants_transmit(&self, core: &Core, sq: &SendQueue, now: Instant) -> bool {
        match self.step(core, sq, now) {
            Some(Step::Start | Step::Continue) => !self.share.waits(),
            step => step.is_some(),
        }
    }

    /// Sends everything permitted now.
    pub fn poll_transmit<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        now: Instant,
        tx: &mut TxBatch,
        env: &mut E,
        budget: u32,
    ) {
        if self.rnr_until.is_some_and(|t| t <= now) {
            self.rnr_until = None;
        }
        for _ in 0..budget {
            if !tx.has_room() || core.fault.is_some() {
                break;
            }
            let Some(step) = self.step(core, sq, now) else { break };
            match step {
                Step::Reread => self.send_reread(core, sq, tx, env),
                Step::Resend => self.send_resend(core, sq, tx, env),
                Step::Again => self.send_again(core, sq, tx, env),
                Step::Continue | Step::Start if !self.share.enter(core.mtu()) => break,
                Step::Continue => self.send_new(core, sq, now, tx, env),
                Step::Start => {
                    if self.begin(core, sq, env) {
                        self.send_new(core, sq, now, tx, env);
                    }
                }
            }
        }
        if self.progress.una >= self.progress.max || self.share.is_unused() {
            self.share.leave();
        }
        if self.progress.una < self.progress.max && self.rnr_until.is_none() {
            self.timing.arm(core.attr.timeout, now);
        }
    }

    /// Starts the request at `cur`. False if it sends nothing: a local operation, or a failure.
    fn begin<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) -> bool {
        let at = self.progress.cur;
        let wqe = sq.get_mut(at);
        wqe.first = self.progress.max;
        wqe.psns = 0;
        self.progress.started = at + 1;
        match progress::begin(core, wqe, env) {
            Ok(true) => {
                // Operations on words are shorter than a packet, and a FLUSH has no bytes.
                wqe.psns = crate::segment::packets(wqe.length, core.mtu());
                wqe.ssn = self.credits.number();
                true
            }
            Ok(false) => {
                self.progress.cur += 1;
                self.retire(core, sq, env);
                false
            }
            Err(status) => {
                let max = self.progress.max;
                self.fail_at(core, sq, at, max, status, env);
                false
            }
        }
    }

    /// Rewinds to `psn`, but not to finished packets.
    pub fn rewind(&mut self, sq: &SendQueue, psn: u64) {
        self.progress.rewind(sq, psn.max(self.progress.una));
    }

    /// Completes requests in their turn, oldest first.
    pub fn retire<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) {
        // An acknowledgement moves past a request only once its response is complete.
        self.progress.retire(core, sq, |_| false, |_, _| {}, env);
        self.progress.cur = self.progress.cur.max(sq.head());
    }

    /// Fails request `at` at `psn` for a local reason: earlier ones still end normally.
    pub fn fail_at<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        at: u64,
        psn: u64,
        status: WcStatus,
        env: &mut E,
    ) {
        self.stop_repairs();
        self.chunks.retain(|c| c.first < psn);
        if let Some(last) = self.chunks.back_mut() {
            last.end = last.end.min(psn);
        }
        self.progress.fail_at(sq, at, psn, status);
        self.retire(core, sq, env);
    }
}
