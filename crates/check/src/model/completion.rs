//! Completions: they end requests, and show what became of their buffers.

use super::ids::{Handle, Site};
use super::limits::QUEUE_MAX;
use super::objects::{Kind, QpState};
use super::request::{Outstanding, Sge, Span};
use super::state::{Memory, Model};
use crate::rules;

/// `enum ibv_wc_status`, as far as the model reads it.
mod status {
    pub const SUCCESS: u32 = 0;
    pub const LOCAL_LENGTH: u32 = 1;
    pub const RNR_RETRY_EXCEEDED: u32 = 13;
}

/// Bit of `enum ibv_wc_opcode` in completions of receives.
const RECEIVE_OPCODE: u32 = 128;

/// `struct ibv_wc`, as far as the model reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The request's number.
    pub wr_id: u64,
    /// `enum ibv_wc_status`.
    pub status: u32,
    /// `enum ibv_wc_opcode`; undefined if the request failed.
    pub opcode: u32,
    /// The queue pair's number.
    pub qp_number: u32,
}

impl Model {
    /// The program polled a completion from `cq`.
    pub fn complete(&mut self, cq: Handle, completion: Completion, memory: &mut impl Memory, site: Site) {
        self.counters.completions += 1;
        let Some(queue) = self.cqs.get(&cq) else { return self.check_alive(Kind::Cq, cq, site) };
        let Some(qp) = self.qp_numbers.get(&(queue.context, completion.qp_number)).copied() else { return };
        if self.is_receive(qp, &completion) {
            self.complete_receive(qp, &completion, site);
        } else {
            self.complete_send(qp, &completion, memory, site);
        }
        if completion.status != status::SUCCESS {
            self.fail_qp(qp);
        }
    }

    /// The opcode of a failed request is undefined: its number tells the queue, if only one queue has it.
    fn is_receive(&self, qp: Handle, completion: &Completion) -> bool {
        let by_opcode = completion.opcode & RECEIVE_OPCODE != 0;
        if completion.status == status::SUCCESS {
            return by_opcode;
        }
        let Some(queue) = self.qps.get(&qp) else { return by_opcode };
        let has = |mut requests: std::collections::vec_deque::Iter<'_, Outstanding>| {
            requests.any(|request| request.wr_id == completion.wr_id)
        };
        let receives = queue.srq.and_then(|srq| self.srqs.get(&srq)).map_or(&queue.receives, |srq| &srq.receives);
        match (has(queue.sends.iter()), has(receives.iter())) {
            (true, false) => false,
            (false, true) => true,
            _ => by_opcode,
        }
    }

    fn complete_send(&mut self, qp: Handle, completion: &Completion, memory: &mut impl Memory, site: Site) {
        let succeeded = completion.status == status::SUCCESS;
        let Some(queue) = self.qps.get_mut(&qp) else { return };
        let ends = |request: &Outstanding| request.wr_id == completion.wr_id && (request.is_signaled || !succeeded);
        let Some(place) = queue.sends.iter().position(ends) else { return };
        let (context, cq, number) = (queue.context, queue.send_cq, queue.number);
        // A queue pair in error flushes its requests and no longer reads their buffers.
        let is_active = queue.is_active();
        let done: Vec<Outstanding> = queue.sends.drain(..=place).collect();
        for request in &done {
            self.forget_request(qp, cq, request);
            if is_active {
                self.compare(qp, context, request, memory, site);
            }
        }
        if completion.status == status::RNR_RETRY_EXCEEDED
            && let Some(request) = done.last()
        {
            let message =
                format!("the peer of queue pair {number:#08x} had no receive for the {} bytes", request.length);
            let history = vec![(request.description(), request.stack)];
            self.find_with(&rules::RECEIVE_MISSING, site, self.qp_name(qp), message, history);
        }
    }

    fn complete_receive(&mut self, qp: Handle, completion: &Completion, site: Site) {
        let Some(queue) = self.qps.get_mut(&qp) else { return };
        let (context, cq, srq) = (queue.context, queue.receive_cq, queue.srq);
        let is_it = |request: &Outstanding| request.wr_id == completion.wr_id;
        let request = match srq {
            None => {
                let done = queue.receives.iter().position(is_it).and_then(|place| queue.receives.remove(place));
                if done.is_some() {
                    self.unexpect_completion(cq);
                }
                done
            }
            Some(srq) => self.srqs.get_mut(&srq).and_then(|srq| {
                let place = srq.receives.iter().position(is_it)?;
                srq.receives.remove(place)
            }),
        };
        let Some(request) = request else { return };
        self.log_sinks(context, &request);
        if completion.status == status::LOCAL_LENGTH {
            let message = format!("a message is longer than the {} bytes of the receive", request.length);
            let history = vec![(request.description(), request.stack)];
            self.find_with(&rules::RECEIVE_TOO_SHORT, site, self.qp_name(qp), message, history);
        }
    }

    /// Remembers where the device wrote.
    fn log_sinks(&mut self, context: Handle, request: &Outstanding) {
        let now = self.tick();
        for sge in &request.sges {
            if let Some(span) = self.span_of(context, sge) {
                self.sinks.add(now, span);
            }
        }
    }

    /// Takes a request of a send queue out of the counts.
    pub(super) fn forget_request(&mut self, qp: Handle, cq: Option<Handle>, request: &Outstanding) {
        if request.is_signaled {
            self.unexpect_completion(cq);
        }
        if request.is_sink()
            && let Some(queue) = self.qps.get_mut(&qp)
        {
            queue.sinks_outstanding = queue.sinks_outstanding.saturating_sub(1);
            let context = queue.context;
            self.log_sinks(context, request);
        }
    }

    /// Reports a send buffer that changed since the post, unless the device may have changed it.
    fn compare(&mut self, qp: Handle, context: Handle, request: &Outstanding, memory: &mut impl Memory, site: Site) {
        let Some(before) = request.digest else { return };
        let Some(spans) = self.spans_of(context, &request.sges) else { return };
        let Some(after) = memory.digest(&spans) else { return };
        self.counters.buffers_compared += 1;
        if before == after || self.device_may_have_written(context, request) {
            return;
        }
        let (address, length) = spans.first().copied().unwrap_or_default();
        let message = format!("the program changed the {length} bytes at {address:#x} before their request completed");
        let history = vec![(request.description(), request.stack)];
        self.find_with(&rules::BUFFER_CHANGED, site, self.qp_name(qp), message, history);
    }

    fn device_may_have_written(&self, context: Handle, request: &Outstanding) -> bool {
        let spans = request.sges.iter().filter_map(|sge| self.span_of(context, sge));
        spans.into_iter().any(|span| {
            self.sinks.may_have_written(span, request.posted)
                || self.has_outstanding_sink(span)
                || self.has_remotely_writable_region(span)
        })
    }

    fn has_outstanding_sink(&self, span: Span) -> bool {
        let writes = |context: Handle, request: &Outstanding| {
            let mut spans = request.sges.iter().filter_map(|sge| self.span_of(context, sge));
            request.is_sink() && spans.any(|other| super::request::overlap(other, span))
        };
        let by_qp = |qp: &super::Qp| qp.sends.iter().chain(&qp.receives).any(|request| writes(qp.context, request));
        let by_srq = |srq: &super::Srq| {
            let is_unknown = srq.is_untracked || self.is_incomplete(srq.context);
            is_unknown || srq.receives.iter().any(|request| writes(srq.context, request))
        };
        self.qps.values().any(by_qp) || self.srqs.values().any(by_srq)
    }

    /// Whether a peer may write there: a region allows it, and so does a queue pair of its protection domain. Direct
    /// verbs make queue pairs that the model does not know.
    fn has_remotely_writable_region(&self, span: Span) -> bool {
        const REMOTE: u32 = 2 | 8;
        let mut regions = self.mrs.values().filter(|mr| mr.is_remotely_writable());
        let has_qp = |pd: Handle| self.qps.values().any(|qp| self.same_pd(qp.pd, pd) && qp.access & REMOTE != 0);
        let is_reachable = |mr: &super::Mr| self.is_incomplete(mr.context) || has_qp(mr.pd);
        regions.any(|mr| mr.span().is_some_and(|own| super::request::overlap(own, span)) && is_reachable(mr))
    }

    /// The program's memory behind all buffers, as addresses and lengths.
    pub(super) fn spans_of(&self, context: Handle, sges: &[Sge]) -> Option<Vec<(u64, u64)>> {
        let used = sges.iter().filter(|sge| sge.length > 0);
        used.map(|sge| self.span_of(context, sge).map(|(start, end)| (start, end - start))).collect()
    }

    /// A failed request moves its queue pair to an error state.
    fn fail_qp(&mut self, qp: Handle) {
        if let Some(queue) = self.qps.get_mut(&qp)
            && queue.state != QpState::Reset
        {
            queue.state = QpState::Err;
        }
    }

    /// Takes all requests out of a queue pair that is reset or destroyed.
    pub(super) fn drop_requests(&mut self, qp: Handle) {
        let Some(queue) = self.qps.get_mut(&qp) else { return };
        let (send_cq, receive_cq) = (queue.send_cq, queue.receive_cq);
        let (sends, receives) = (std::mem::take(&mut queue.sends), std::mem::take(&mut queue.receives));
        if let Some(srq) = queue.srq.and_then(|srq| self.srqs.get_mut(&srq)) {
            srq.may_have_lost = true;
        }
        for request in &sends {
            self.forget_request(qp, send_cq, request);
        }
        receives.iter().for_each(|_| self.unexpect_completion(receive_cq));
    }

    /// Whether the queue's completions do not say to which queue pair they belong.
    pub(super) fn completes_unseen(&self, cq: Option<Handle>) -> bool {
        cq.and_then(|cq| self.cqs.get(&cq)).is_some_and(|cq| cq.hides_qp_numbers)
    }

    /// Counts a completion that a new request can produce, and warns when the queue has no room for it.
    pub(super) fn expect_completion(&mut self, cq: Option<Handle>, site: Site) {
        let Some((handle, queue)) = cq.and_then(|handle| Some((handle, self.cqs.get_mut(&handle)?))) else { return };
        queue.expected = queue.expected.saturating_add(1);
        if queue.expected == queue.capacity.saturating_add(1) && !queue.ignores_overrun {
            let (expected, capacity) = (queue.expected, queue.capacity);
            let message = format!("{expected} completions are outstanding for a queue of {capacity} entries");
            self.find(&rules::CQ_OVERRUN_POSSIBLE, site, self.name(Kind::Cq, handle), message);
        }
    }

    pub(super) fn unexpect_completion(&mut self, cq: Option<Handle>) {
        if let Some(queue) = cq.and_then(|handle| self.cqs.get_mut(&handle)) {
            queue.expected = queue.expected.saturating_sub(1);
        }
    }

    /// Forgets the oldest requests of a queue that grows without bound.
    pub(super) fn limit_queue(&mut self, qp: Handle) {
        let Some(queue) = self.qps.get_mut(&qp) else { return };
        let (send_cq, receive_cq) = (queue.send_cq, queue.receive_cq);
        let send = if queue.sends.len() > QUEUE_MAX { queue.sends.pop_front() } else { None };
        let receive = if queue.receives.len() > QUEUE_MAX { queue.receives.pop_front() } else { None };
        if let Some(request) = send {
            self.forget_request(qp, send_cq, &request);
            self.counters.untracked += 1;
        }
        if receive.is_some() {
            self.unexpect_completion(receive_cq);
            self.counters.untracked += 1;
        }
    }
}
