//! Requester for a peer on this host. Each frame has a number, counted without wrapping here; `una` is the first that
//! the peer has not executed, `nxt` the next to send, `max` the one after the last ever sent.
//!
//! ```text
//!   una          nxt          max
//!    ├── in ring ──┤── again ──┤── new: cur ──▶
//! ```

use smallvec::SmallVec;
use weft_verbs::op::{ListUse, TargetAction};
use weft_verbs::{Instant, Op, QpState, QpType, SendFlags, SendOp, WcStatus};

use crate::core::Core;
use crate::frame::{FRAME_BYTES_MAX, Frame, FrameFlags, FrameKind, HostRange, Outgoing};
use crate::peers::Reach;
use crate::progress::{self, SendProgress};
use crate::segment;
use crate::sge_list;
use crate::sq::{SendQueue, Wqe};
use crate::word::{OPERANDS_MAX, operands};
use crate::{Env, Peers};

use super::peer_ring::PeerRing;
use super::watch::Watch;

/// Most frames and direct copies per call, so that queue pairs take turns.
const STEPS_MAX: u32 = 64;
/// The peer fetches a SEND longer than this from the sender's memory, which avoids the copies into and out of the ring.
pub(super) const NAMED_MIN: u64 = 2048;

/// Host memory of a request's bytes.
pub(super) type Ranges = SmallVec<[HostRange; 4]>;

/// Next action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Send the frame at `nxt`, of a request already started.
    Continue,
    /// Start the next request.
    Start,
    /// Continue a direct copy.
    Copy,
}

/// State of the requester.
#[derive(Debug, Default)]
pub(crate) struct Requester {
    pub(super) progress: SendProgress,
    /// Number of retransmissions.
    pub(super) epoch: u8,
    /// Requests in the ring that await answers; at most max_rd_atomic.
    pub(super) awaited: u32,
    pub(super) watch: Watch,
    pub(super) rnr_until: Option<Instant>,
    pub(super) rnr_left: u8,
    pub(super) retry_left: u8,
    /// Bytes of the request at `progress.cur` copied directly so far; the request counts as started after the last.
    pub(super) copied: u64,
    /// Position of a request that cannot take the direct path.
    pub(super) by_ring: Option<u64>,
    /// Whether the peer cannot fetch from local memory.
    pub(super) bytes_only: bool,
}

impl Requester {
    /// Enters RTS.
    pub fn start(&mut self, core: &Core, sq: &SendQueue) {
        *self = Requester {
            // A request without an answer would end before the peer could fetch its bytes.
            bytes_only: core.qp_type() == QpType::Uc,
            progress: SendProgress::new(0, sq),
            rnr_left: core.attr.rnr_retry,
            retry_left: core.attr.retry_cnt,
            ..Requester::default()
        };
    }

    /// Returns whether every started request has ended.
    pub fn is_drained(&self, sq: &SendQueue) -> bool {
        self.progress.is_drained(sq) && self.copied == 0
    }

    /// Returns the next possible action, if any.
    #[inline]
    pub(super) fn step(&self, core: &Core, sq: &SendQueue, ring: &PeerRing, now: Instant) -> Option<Step> {
        if !ring.is_open(now) || self.rnr_until.is_some_and(|until| now < until) {
            return None;
        }
        if self.progress.cur >= sq.tail() {
            return None;
        }
        if self.progress.cur < self.progress.started {
            return Some(Step::Continue);
        }
        if self.progress.stopped {
            return None;
        }
        if self.copied > 0 {
            return Some(Step::Copy);
        }
        let wqe = sq.get(self.progress.cur);
        if core.state() != QpState::Rts || (wqe.flags.contains(SendFlags::FENCE) && self.awaited > 0) {
            return None;
        }
        // A key must not vanish under requests that may be retransmitted, and a direct copy must not overtake requests
        // that the peer has yet to execute.
        let waits = wqe.op.op() == Op::LocalInv || self.goes_direct(core, wqe);
        if waits && sq.head() != self.progress.cur {
            return None;
        }
        if wqe.has_response() && self.awaited >= u32::from(core.attr.max_rd_atomic.max(1)) {
            return None;
        }
        Some(Step::Start)
    }

    /// Returns whether to try the direct path for a request.
    #[inline]
    fn goes_direct(&self, core: &Core, wqe: &Wqe) -> bool {
        core.direct
            && self.by_ring != Some(self.progress.cur)
            && wqe.length > 0
            && matches!(wqe.op.info().action, TargetAction::Write | TargetAction::Read | TargetAction::Word)
    }

    /// Does everything possible now.
    #[inline]
    pub fn advance<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        ring: &mut PeerRing,
        now: Instant,
        env: &mut E,
    ) {
        if self.rnr_until.is_some_and(|until| until <= now) {
            self.rnr_until = None;
        }
        for _ in 0..STEPS_MAX {
            let Some(step) = self.step(core, sq, ring, now) else { break };
            let sends = match step {
                Step::Continue => true,
                Step::Copy => self.copy_direct(core, sq, ring, env),
                Step::Start => self.begin(core, sq, ring, env),
            };
            if sends && !self.send(core, sq, ring, env) {
                break;
            }
            if core.fault.is_some() {
                return;
            }
            if self.copied > 0 {
                // The rest of a long copy waits: others have a turn first.
                break;
            }
        }
        if (self.progress.una < self.progress.max || self.awaited > 0) && self.rnr_until.is_none() {
            self.watch.arm(now);
        }
    }

    /// Starts the request at `cur`. Returns whether it must send frames.
    #[inline]
    fn begin<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, ring: &PeerRing, env: &mut E) -> bool {
        let wqe = sq.get(self.progress.cur);
        let checked = progress::begin(core, wqe, env).and_then(|sends| {
            // A request of one frame is checked when it is gathered.
            if sends && wqe.op.info().list == ListUse::Sent && !wqe.is_inline() && wqe.length > NAMED_MIN {
                segment::check(env, core.pd(), &wqe.sges, false)?;
            }
            Ok(sends)
        });
        match checked {
            Ok(true) if self.goes_direct(core, wqe) && env.peers().reach(ring.peer) != Reach::Ring => {
                self.copy_direct(core, sq, ring, env)
            }
            Ok(true) => {
                core.direct &= env.peers().reach(ring.peer) != Reach::Ring;
                self.open(sq);
                true
            }
            Ok(false) => {
                self.finish_here(core, sq, 0, env);
                false
            }
            Err(status) => {
                self.fail_here(core, sq, status, env);
                false
            }
        }
    }

    /// Sends the request at `cur` through the ring: numbers its frames.
    #[inline]
    pub(super) fn open(&mut self, sq: &mut SendQueue) {
        let (first, bytes_only) = (self.progress.max, self.bytes_only);
        let wqe = sq.get_mut(self.progress.cur);
        wqe.first = first;
        wqe.answered = 0;
        wqe.named = is_named(wqe, bytes_only);
        wqe.psns = frames(wqe);
        self.progress.started = self.progress.cur + 1;
        self.awaited += u32::from(wqe.has_response());
    }

    /// Records that the request at `cur` is executed; `frames` more tell the peer.
    #[inline]
    pub(super) fn finish_here<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, frames: u64, env: &mut E) {
        let first = self.progress.max;
        let wqe = sq.get_mut(self.progress.cur);
        wqe.first = first;
        wqe.psns = frames;
        wqe.named = false;
        wqe.answered = wqe.length.max(1);
        self.copied = 0;
        self.progress.started = self.progress.cur + 1;
        if frames == 0 {
            self.progress.cur += 1;
            self.retire(core, sq, env);
        }
    }

    /// Fails the request at `cur` for a local reason: earlier ones still end normally.
    pub(super) fn fail_here<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, status: WcStatus, env: &mut E) {
        let at = self.progress.cur;
        let fresh = at >= self.progress.started;
        let wqe = sq.get_mut(at);
        if fresh {
            wqe.first = self.progress.max;
        }
        wqe.answered = wqe.length.max(1);
        self.copied = 0;
        self.progress.started = at + 1;
        self.progress.fail_at(sq, at, self.progress.nxt, status);
        self.retire(core, sq, env);
    }

    /// Sends the frame at `nxt`. `false` if there was no room.
    #[inline]
    fn send<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, ring: &mut PeerRing, env: &mut E) -> bool {
        let wqe = sq.get(self.progress.cur);
        if !wqe.awaits_answer() {
            // Repeated READs may have requests between them that the peer has already executed.
            self.progress.nxt = self.progress.nxt.max(self.progress.una.min(wqe.end()));
        }
        if self.progress.nxt >= wqe.end() {
            // It has no frames: it was executed when it was started, and waits for those before it.
            self.progress.cur += 1;
            return true;
        }
        let pushed = match self.push(core, wqe, ring, env) {
            Ok(pushed) => pushed,
            Err(status) => {
                self.fail_here(core, sq, status, env);
                return true;
            }
        };
        if pushed && core.qp_type() == QpType::Uc {
            // There are no answers: a frame in the ring is done.
            self.progress.nxt += 1;
            (self.progress.max, self.progress.una) = (self.progress.nxt, self.progress.nxt);
            if self.progress.nxt >= wqe.end() {
                self.progress.cur += 1;
                self.retire(core, sq, env);
            }
        } else if pushed {
            core.stats.ring_frames_resent += u64::from(self.progress.nxt < self.progress.max);
            self.progress.nxt += 1;
            self.progress.max = self.progress.max.max(self.progress.nxt);
            if self.progress.nxt >= wqe.end() {
                self.progress.cur += 1;
            }
        }
        pushed
    }

    fn push<E: Env>(&self, core: &mut Core, wqe: &Wqe, ring: &mut PeerRing, env: &mut E) -> Result<bool, WcStatus> {
        let row = wqe.op.info();
        let Some(kind) = FrameKind::of(row.op) else { return Ok(true) };
        let mut frame = Frame::new(kind, core.qpn, core.attr.dest_qpn);
        frame.seq = self.progress.nxt as u32;
        frame.epoch = self.epoch;
        frame.srqn = wqe.srqn;
        frame.total = wqe.length as u32;
        if let Some(target) = wqe.op.target() {
            (frame.key, frame.addr) = (target.rkey, target.addr);
        }
        let mut value = [0; OPERANDS_MAX];
        let mut ranges = Ranges::new();
        let payload = match (row.list, wqe.op) {
            (ListUse::Sent, _) => self.part(core, wqe, &mut frame, &mut ranges, env)?,
            (_, SendOp::Flush { length, placement, level, .. }) => {
                frame.total = length;
                frame.code = placement | level << 4;
                Outgoing::NONE
            }
            (_, op) => Outgoing::Bytes(operands(row.op, op.operands(), &mut value)),
        };
        Ok(ring.push(core, frame, payload, env))
    }

    /// Builds a frame of a request that carries its bytes.
    fn part<'a, E: Env>(
        &self,
        core: &Core,
        wqe: &'a Wqe,
        frame: &mut Frame,
        ranges: &'a mut Ranges,
        env: &E,
    ) -> Result<Outgoing<'a>, WcStatus> {
        let n = self.progress.nxt - wqe.first;
        let (first, last) = (n == 0, self.progress.nxt + 1 == wqe.end());
        frame.flags.set(FrameFlags::FIRST, first);
        frame.flags.set(FrameFlags::LAST, last);
        frame.flags.set(FrameFlags::SOLICITED, last && wqe.flags.contains(SendFlags::SOLICITED));
        if last {
            let (imm, key) = (wqe.op.imm(), wqe.op.invalidates());
            frame.flags.set(FrameFlags::IMM, imm.is_some());
            frame.flags.set(FrameFlags::INV, key.is_some());
            frame.imm = imm.or(key).unwrap_or_default();
        }
        if wqe.answered > 0 {
            frame.flags |= FrameFlags::DATA_IN_PLACE;
            return Ok(Outgoing::NONE);
        }
        if wqe.named {
            frame.flags |= FrameFlags::RENDEZVOUS;
            return Ok(Outgoing::List(&wqe.sges));
        }
        let offset = n * u64::from(FRAME_BYTES_MAX);
        let len = wqe.length.saturating_sub(offset).min(u64::from(FRAME_BYTES_MAX));
        if wqe.is_inline() {
            return Ok(Outgoing::Bytes(wqe.inline.get(offset as usize..(offset + len) as usize).unwrap_or_default()));
        }
        gather(env, core, wqe, offset, len, ranges)?;
        Ok(Outgoing::Memory(ranges))
    }

    /// Completes requests in their turn, oldest first.
    #[inline]
    pub(super) fn retire<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, env: &mut E) {
        let count = |core: &mut Core, wqe: &Wqe| {
            if let Some(passed) = &mut core.passed {
                passed.count(wqe.length, core.attr.path_mtu, wqe.op.op().fills_list());
            }
        };
        self.progress.retire(core, sq, Wqe::awaits_answer, count, env);
        if self.progress.cur < sq.head() {
            // The request to repeat has been answered meanwhile.
            self.progress.cur = sq.head();
            self.progress.nxt = if self.progress.cur < self.progress.started {
                self.progress.nxt.max(sq.get(self.progress.cur).first)
            } else {
                self.progress.max
            };
        }
    }

    /// Returns the next deadline.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.rnr_until.is_some() {
            return self.rnr_until;
        }
        self.watch.at
    }
}

/// Returns whether the peer fetches a request's payload.
fn is_named(wqe: &Wqe, bytes_only: bool) -> bool {
    wqe.op.op() == Op::Send && !bytes_only && !wqe.is_inline() && wqe.length > NAMED_MIN
}

/// Returns the number of frames of a request.
pub(super) fn frames(wqe: &Wqe) -> u64 {
    match wqe.op {
        _ if wqe.is_local() => 0,
        _ if wqe.named || wqe.has_response() => 1,
        _ => segment::packets(wqe.length, FRAME_BYTES_MAX),
    }
}

/// Finds the local memory of `len` bytes of a request, from `offset` on.
pub(super) fn gather<E: Env>(
    env: &E,
    core: &Core,
    wqe: &Wqe,
    offset: u64,
    len: u64,
    ranges: &mut Ranges,
) -> Result<(), WcStatus> {
    let write = !matches!(core.qp_type(), QpType::XrcRecv) && wqe.op.op().fills_list();
    ranges.clear();
    for part in sge_list::parts(&wqe.sges, offset, len) {
        ranges.push(HostRange { addr: env.local(core.pd(), &part, write)?, len: u64::from(part.length) });
    }
    Ok(())
}
