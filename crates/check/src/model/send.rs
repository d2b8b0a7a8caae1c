//! Requests of send queues.

use super::finding::Excess;
use super::ids::{Handle, Site};
use super::memory::{Flaw, Poster};
use super::objects::{Kind, Qp, QpKind, QpState};
use super::request::{Opcode, Outstanding, SendRequest, Sge, Span, overlap};
use super::state::{Memory, Model};
use crate::rules;

/// Bytes of the result of an atomic operation.
const ATOMIC_BYTES: u64 = 8;

impl Model {
    /// The program posts this request; `state` is the queue pair's, as its library knows it. Returns a request beyond the
    /// queue's capacity.
    pub fn post_send(
        &mut self,
        qp: Handle,
        state: QpState,
        request: SendRequest,
        memory: &mut impl Memory,
        site: Site,
    ) -> Option<Excess> {
        self.counters.requests += 1;
        let Some(queue) = self.qps.get(&qp) else {
            self.check_alive(Kind::Qp, qp, site);
            return None;
        };
        let poster = Poster {
            kind: Kind::Qp,
            handle: qp,
            context: queue.context,
            pd: queue.pd,
            opcode: Some(request.opcode),
            wr_id: request.wr_id,
        };
        let excess = self.check_send(&poster, state, &request, site);
        if !request.flags.is_inline() {
            self.check_keys(&poster, &request.sges, site);
            self.check_fence(&poster, &request, site);
        }
        self.push_send(&poster, request, memory, site);
        excess
    }

    /// The library refused the last `count` requests.
    pub fn unpost_send(&mut self, qp: Handle, count: usize) {
        for _ in 0..count {
            let Some(queue) = self.qps.get_mut(&qp) else { return };
            let Some(request) = queue.sends.pop_back() else { return };
            let cq = queue.send_cq;
            self.forget_request(qp, cq, &request);
        }
    }

    fn check_send(&mut self, poster: &Poster, state: QpState, request: &SendRequest, site: Site) -> Option<Excess> {
        let qp = self.qps.get(&poster.handle)?;
        let shown_state = if self.is_iwarp(poster.context) { QpState::Unknown } else { state };
        let flaw = wrong_state(shown_state)
            .or_else(|| wrong_opcode(qp, request))
            .or_else(|| wrong_size(qp, request))
            .or_else(|| wrong_atomic(request))
            .or_else(|| self.wrong_datagram(qp, request));
        let excess = if flaw.is_none() { full(qp) } else { None };
        let history =
            if excess.as_ref().is_some_and(|flaw| flaw.0 == &rules::NEVER_SIGNALED) { oldest(qp) } else { vec![] };
        let excess = excess.map(|flaw| Excess { finding: self.flaw_of(poster, flaw, history, site), is_certain: true });
        if let Some(flaw) = flaw {
            self.push_finding(self.flaw_of(poster, flaw, Vec::new(), site));
        }
        if let Some(binding) = &request.binding {
            self.check_binding(poster.handle, binding, site);
        }
        excess
    }

    fn wrong_datagram(&self, qp: &Qp, request: &SendRequest) -> Option<Flaw> {
        if qp.kind != QpKind::Ud {
            return None;
        }
        if let Some(ah) = self.ahs.get(&request.ah)
            && !self.same_pd(ah.pd, qp.pd)
        {
            let name = self.name(Kind::Ah, request.ah);
            return Some((&rules::AH_WRONG_PD, format!("{name} is of another protection domain")));
        }
        if self.tombstones.contains_key(&(Kind::Ah, request.ah)) {
            return Some((&rules::USE_AFTER_DESTROY, "its address handle is already destroyed".to_owned()));
        }
        let mtu = qp.port.and_then(|port| self.contexts.get(&qp.context)?.ports.get(&port)).map_or(0, |p| p.mtu_bytes);
        let length = total(request);
        let exceeds = mtu > 0 && length > u64::from(mtu);
        exceeds
            .then(|| (&rules::UD_MESSAGE_EXCEEDS_MTU, format!("{length} bytes exceed the port's MTU of {mtu} bytes")))
    }

    /// Reports a request that reads a buffer while a READ or atomic of the same queue pair may still write it.
    fn check_fence(&mut self, poster: &Poster, request: &SendRequest, site: Site) {
        let Some(qp) = self.qps.get(&poster.handle) else { return };
        if qp.sinks_outstanding == 0 || request.flags.is_fenced() || !request.opcode.reads_buffers() {
            return;
        }
        let own: Vec<Span> = request.sges.iter().filter_map(|sge| self.span_of(qp.context, sge)).collect();
        let collides = |other: &&Outstanding| {
            let mut spans = other.sges.iter().filter_map(|sge| self.span_of(qp.context, sge));
            other.is_sink() && spans.any(|span| own.iter().any(|mine| overlap(*mine, span)))
        };
        let Some(sink) = qp.sends.iter().find(collides) else { return };
        let history = vec![(sink.description(), sink.stack)];
        let message =
            format!("{} reads the buffer of an outstanding READ or atomic, without a fence", poster.request());
        self.find_with(&rules::FENCE_MISSING, site, self.qp_name(poster.handle), message, history);
    }

    /// Libraries such as UCX put a reliable protocol on datagrams, and use a buffer again when the peer has acknowledged it: it
    /// was sent then, whether or not its completion is polled.
    fn is_acknowledged_by_peer(&self, poster: &Poster, sges: &[Sge]) -> bool {
        let is_datagram = self.qps.get(&poster.handle).is_some_and(|qp| qp.kind == QpKind::Ud);
        is_datagram && sges.iter().any(|sge| self.region_of(poster.context, sge).is_some_and(|mr| mr.is_cached))
    }

    fn push_send(&mut self, poster: &Poster, request: SendRequest, memory: &mut impl Memory, site: Site) {
        if self.qps.get(&poster.handle).is_some_and(|qp| self.completes_unseen(qp.send_cq)) {
            return;
        }
        let length = total(&request);
        let digest = self.digest_to_compare(poster, &request, length, memory);
        let posted = self.tick();
        let Some(qp) = self.qps.get_mut(&poster.handle) else { return };
        let sges = if request.flags.is_inline() { Vec::new() } else { request.sges };
        let outstanding = Outstanding {
            wr_id: request.wr_id,
            opcode: Some(request.opcode),
            is_signaled: qp.signals_all || request.flags.is_signaled(),
            sges,
            length,
            ah: request.ah,
            stack: site.stack,
            posted,
            digest,
        };
        qp.sinks_outstanding += usize::from(outstanding.is_sink());
        let expected_on = qp.send_cq.filter(|_| outstanding.is_signaled);
        qp.sends.push_back(outstanding);
        self.expect_completion(expected_on, site);
        self.limit_queue(poster.handle);
    }

    /// The digest of a request's buffers, if the program alone may change them.
    fn digest_to_compare(
        &mut self,
        poster: &Poster,
        request: &SendRequest,
        length: u64,
        memory: &mut impl Memory,
    ) -> Option<u64> {
        if length == 0 || request.flags.is_inline() || !request.opcode.reads_buffers() {
            return None;
        }
        let spans = self.spans_of(poster.context, &request.sges)?;
        if self.is_acknowledged_by_peer(poster, &request.sges) {
            return None;
        }
        if length > self.snapshot_bytes_max {
            self.counters.buffers_skipped += 1;
            return None;
        }
        memory.digest(&spans)
    }
}

fn total(request: &SendRequest) -> u64 {
    request.sges.iter().map(|sge| u64::from(sge.length)).sum()
}

fn wrong_state(state: QpState) -> Option<Flaw> {
    let is_wrong = matches!(state, QpState::Reset | QpState::Init | QpState::Rtr);
    is_wrong.then(|| (&rules::POST_IN_WRONG_STATE, format!("the queue pair is in {}, not in RTS", state.as_str())))
}

fn wrong_opcode(qp: &Qp, request: &SendRequest) -> Option<Flaw> {
    let opcode = request.opcode;
    let is_supported = match qp.kind {
        QpKind::Rc | QpKind::XrcSend | QpKind::Driver => true,
        QpKind::Uc => !opcode.needs_reliability(),
        QpKind::Ud => matches!(opcode, Opcode::SEND | Opcode::SEND_WITH_IMM | Opcode::TSO),
        QpKind::RawPacket => matches!(opcode, Opcode::SEND | Opcode::TSO),
        QpKind::XrcReceive => false,
    };
    if !is_supported {
        return Some((
            &rules::OPCODE_NOT_FOR_TYPE,
            format!("queue pairs of type {} have no {opcode}", qp.kind.as_str()),
        ));
    }
    let exceeds_limit = opcode.is_sink() && qp.read_limit == Some(0);
    exceeds_limit.then(|| (&rules::READ_LIMIT_ZERO, "max_rd_atomic of the queue pair is 0".to_owned()))
}

fn wrong_size(qp: &Qp, request: &SendRequest) -> Option<Flaw> {
    if qp.kind == QpKind::Driver {
        return None;
    }
    let (count, length) = (request.sges.len(), total(request));
    if request.flags.is_inline() && length > u64::from(qp.cap.inline_max) {
        let max = qp.cap.inline_max;
        return Some((&rules::INLINE_TOO_LONG, format!("{length} inline bytes exceed max_inline_data of {max}")));
    }
    let max = qp.cap.send_sge_max;
    let exceeds = !request.flags.is_inline() && count > usize::try_from(max).unwrap_or(usize::MAX);
    exceeds.then(|| (&rules::TOO_MANY_SGE, format!("{count} buffers exceed max_send_sge of {max}")))
}

fn wrong_atomic(request: &SendRequest) -> Option<Flaw> {
    if !request.opcode.is_atomic() {
        return None;
    }
    if !request.remote_address.is_multiple_of(ATOMIC_BYTES) {
        let address = request.remote_address;
        return Some((&rules::ATOMIC_MISALIGNED, format!("the remote address {address:#x} is no multiple of 8")));
    }
    let length = total(request);
    (length != ATOMIC_BYTES).then(|| (&rules::ATOMIC_LENGTH, format!("its buffer has {length} bytes")))
}

fn full(qp: &Qp) -> Option<Flaw> {
    let max = usize::try_from(qp.cap.send_wr_max).unwrap_or(usize::MAX);
    if qp.sends.len() < max || qp.kind == QpKind::Driver {
        return None;
    }
    // The length is not below the maximum, so a zero maximum is a full queue as well.
    let is_unreclaimable = max > 0 && qp.sends.iter().all(|request| !request.is_signaled);
    Some(if is_unreclaimable {
        (&rules::NEVER_SIGNALED, format!("all {max} requests of the send queue are unsignaled"))
    } else {
        (&rules::SEND_QUEUE_FULL, format!("the send queue already holds max_send_wr of {max} requests"))
    })
}

fn oldest(qp: &Qp) -> Vec<(String, u32)> {
    qp.sends.front().map(|request| (request.description(), request.stack)).into_iter().collect()
}
