//! Fast path for the most common request, a short SEND with none before it, sent when it is posted.
//! [`Requester::advance`] does the same in more steps; here the frame goes out first, and the bookkeeping follows.

use weft_verbs::{QpState, QpType, SendFlags, SendOp, WcStatus};

use crate::Env;
use crate::core::Core;
use crate::frame::{Frame, FrameFlags, FrameKind, Outgoing};
use crate::sq::{SendQueue, Wqe};

use super::peer_ring::PeerRing;
use super::requester::{NAMED_MIN, Ranges, Requester, gather};

impl Requester {
    /// Sends the request that was just posted, if the fast path applies. Returns whether it did; if not, nothing has
    /// changed, except that the ring may be marked full.
    #[inline]
    pub fn send_fast<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, ring: &mut PeerRing, env: &mut E) -> bool {
        let at = self.progress.cur;
        let first_in_line = at + 1 == sq.tail()
            && at == self.progress.started
            && self.progress.nxt == self.progress.max
            && !self.progress.stopped;
        let held_back = self.rnr_until.is_some() || ring.full_until.is_some();
        if !first_in_line || held_back || core.state() != QpState::Rts || core.qp_type() != QpType::Rc {
            return false;
        }
        let wqe = sq.get(at);
        if !is_plain(wqe) {
            return false;
        }
        let mut frame = Frame::new(FrameKind::Send, core.qpn, core.attr.dest_qpn);
        frame.seq = self.progress.nxt as u32;
        frame.epoch = self.epoch;
        frame.total = wqe.length as u32;
        frame.flags = FrameFlags::FIRST | FrameFlags::LAST;
        frame.flags.set(FrameFlags::SOLICITED, wqe.flags.contains(SendFlags::SOLICITED));
        let mut ranges = Ranges::new();
        let payload = if wqe.is_inline() {
            Outgoing::Bytes(wqe.inline.get(..wqe.length as usize).unwrap_or_default())
        } else if gather(env, core, wqe, 0, wqe.length, &mut ranges).is_ok() {
            Outgoing::Memory(&ranges)
        } else {
            return false;
        };
        if !ring.push(core, frame, payload, env) {
            return false;
        }
        let wqe = sq.get_mut(at);
        (wqe.first, wqe.psns, wqe.answered, wqe.named) = (self.progress.nxt, 1, 0, false);
        self.progress.nxt += 1;
        self.progress.max = self.progress.nxt;
        self.progress.cur = at + 1;
        self.progress.started = self.progress.cur;
        self.watch.arm(core.now);
        true
    }
}

/// Returns whether a request is one frame that carries its bytes, and waits for nothing.
#[inline]
fn is_plain(wqe: &Wqe) -> bool {
    matches!(wqe.op, SendOp::Send)
        && wqe.length <= NAMED_MIN
        && !wqe.flags.contains(SendFlags::FENCE)
        && wqe.status == WcStatus::Success
}
