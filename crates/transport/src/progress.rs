//! The requester's record of progress, the same whether its requests travel as packets or as frames: which work requests
//! are started, what of them is sent and acknowledged, and how each one ends. Packets (by PSN) and frames are numbered
//! without wrapping, so that comparisons are plain.
//!
//! ```text
//!   work requests   head ──── finished in their turn ──── cur ──────── started ──── tail
//!   numbers         una ──── in flight ──── nxt ──── to send again ──── max ──── new
//! ```

use weft_verbs::{MSG_SIZE_MAX, QpType, SendOp, VENDOR_ERR_INJECTED, WcStatus};

use crate::Env;
use crate::core::{Core, Fault};
use crate::segment;
use crate::sq::{SendQueue, Wqe};

/// Progress of a send queue's requests.
#[derive(Debug, Default)]
pub(crate) struct SendProgress {
    /// Oldest unfinished number.
    pub una: u64,
    /// Number to send next.
    pub nxt: u64,
    /// Number after the last one ever sent.
    pub max: u64,
    /// Position of the request to which `nxt` belongs.
    pub cur: u64,
    /// Position after the last started request.
    pub started: u64,
    /// A request has failed: it completes in its turn, and nothing new is sent.
    pub stopped: bool,
}

impl SendProgress {
    /// Begins with the oldest request of the queue, at number `first`.
    pub fn new(first: u64, sq: &SendQueue) -> SendProgress {
        SendProgress { una: first, nxt: first, max: first, cur: sq.head(), started: sq.head(), stopped: false }
    }

    /// Returns whether every started request has ended.
    pub fn is_drained(&self, sq: &SendQueue) -> bool {
        self.started <= sq.head()
    }

    /// Returns the position of the started request that holds a number, or of the next one to start.
    pub fn find(&self, sq: &SendQueue, number: u64) -> u64 {
        let (mut low, mut high) = (sq.head(), self.started);
        while low < high {
            let middle = low + (high - low) / 2;
            if sq.get(middle).end() <= number {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Continues at a number that was sent before.
    pub fn rewind(&mut self, sq: &SendQueue, number: u64) {
        self.nxt = number;
        self.cur = self.find(sq, number);
    }

    /// Completes acknowledged requests in their turn, oldest first. A request that `waits` for its response holds up
    /// those behind it; `note` learns of each one that ends.
    #[inline]
    pub fn retire<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        waits: impl Fn(&Wqe) -> bool,
        note: impl Fn(&mut Core, &Wqe),
        env: &mut E,
    ) {
        while sq.head() < self.started {
            let wqe = sq.get(sq.head());
            if self.una < wqe.end() || waits(wqe) {
                break;
            }
            note(core, wqe);
            let status = wqe.status;
            complete_oldest(core, sq, status, env);
            if status != WcStatus::Success {
                core.fault = Some(if core.qp_type() == QpType::Uc { Fault::SendError } else { Fault::Error });
                break;
            }
        }
    }

    /// Fails the started request `at`, of which everything before `number` was sent, for a local reason: it ends in its
    /// turn, after the requests before it.
    pub fn fail_at(&mut self, sq: &mut SendQueue, at: u64, number: u64, status: WcStatus) {
        let wqe = sq.get_mut(at);
        wqe.status = status;
        wqe.psns = number.saturating_sub(wqe.first);
        self.stopped = true;
        self.max = number;
        self.rewind(sq, self.nxt.min(number));
    }

    /// Fails request `at` for good: flushes earlier unfinished ones, and puts the queue pair into ERR.
    pub fn fail_now<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, at: u64, status: WcStatus, env: &mut E) {
        while sq.head() <= at && !sq.is_empty() {
            let status = if sq.head() == at { status } else { WcStatus::WrFlushErr };
            complete_oldest(core, sq, status, env);
        }
        self.stopped = true;
        core.fault = Some(Fault::Error);
    }
}

/// Checks a request that is about to start, and executes it if it is local. Returns whether it must be sent. A request
/// with an injected status fails here, like one with a local error.
#[inline]
pub(crate) fn begin<E: Env>(core: &Core, wqe: &Wqe, env: &mut E) -> Result<bool, WcStatus> {
    match wqe.op {
        _ if wqe.status != WcStatus::Success => Err(wqe.status),
        SendOp::BindMw(ref bind) => env.bind_mw(core.pd(), core.qpn, bind).map(|()| false),
        SendOp::LocalInv(key) => env.invalidate_local(core.pd(), core.qpn, key).map(|()| false),
        _ if wqe.length > u64::from(MSG_SIZE_MAX) => Err(WcStatus::LocLenErr),
        _ if wqe.has_response() && core.attr.max_rd_atomic == 0 => Err(WcStatus::LocQpOpErr),
        // The response must find its place, whatever happens meanwhile at the peer.
        _ if wqe.op.op().fills_list() => segment::check(env, core.pd(), &wqe.sges, true).map(|()| true),
        _ => Ok(true),
    }
}

/// Ends the oldest request with a completion, unless it succeeded and asked for none.
#[inline]
pub(crate) fn complete_oldest<E: Env>(core: &Core, sq: &mut SendQueue, status: WcStatus, env: &mut E) {
    let wqe = sq.get(sq.head());
    if status != WcStatus::Success || wqe.signaled {
        let mut wc = core.wc(wqe.wr_id, status, wqe.wc_opcode());
        if status == WcStatus::Success {
            wc.byte_len = wqe.length as u32;
        } else if wqe.injected && status == wqe.status {
            wc.vendor_err = VENDOR_ERR_INJECTED;
        }
        core.complete_send(env, wc);
    }
    sq.pop();
}

/// Completes every request with a flush error.
pub(crate) fn flush<E: Env>(core: &Core, sq: &mut SendQueue, env: &mut E) {
    while !sq.is_empty() {
        complete_oldest(core, sq, WcStatus::WrFlushErr, env);
    }
}
