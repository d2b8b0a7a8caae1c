//! Receives, of queue pairs and of shared receive queues.

use super::finding::Excess;
use super::ids::{Handle, Site};
use super::memory::{Flaw, Poster};
use super::objects::{Kind, QpKind, QpState};
use super::request::{Outstanding, ReceiveRequest};
use super::state::Model;
use crate::rules;

/// Bytes of the GRH that precede a datagram's payload.
const GRH_BYTES: u64 = 40;

impl Model {
    /// The program posts a receive to a queue pair; `state` is the queue pair's, as its library knows it. Returns a receive
    /// beyond the queue's capacity.
    pub fn post_receive(&mut self, qp: Handle, state: QpState, request: ReceiveRequest, site: Site) -> Option<Excess> {
        self.counters.requests += 1;
        let Some(queue) = self.qps.get(&qp) else {
            self.check_alive(Kind::Qp, qp, site);
            return None;
        };
        let (kind, cap, has_srq, posted) = (queue.kind, queue.cap, queue.srq.is_some(), queue.receives.len());
        let poster = poster(Kind::Qp, qp, queue.context, queue.pd, &request);
        let length = total(&request);
        let is_reset = state == QpState::Reset && !self.is_iwarp(poster.context);
        let flaw: Option<Flaw> = if has_srq {
            Some((&rules::SRQ_WITH_RECEIVE, "the queue pair uses a shared receive queue".to_owned()))
        } else if is_reset {
            Some((&rules::POST_IN_WRONG_STATE, "the queue pair is in RESET".to_owned()))
        } else if kind == QpKind::Driver {
            None
        } else if kind == QpKind::Ud && length < GRH_BYTES {
            Some((&rules::RECEIVE_NO_GRH_ROOM, format!("its {length} bytes have no room for the GRH of 40")))
        } else if request.sges.len() > size(cap.receive_sge_max) {
            let (count, max) = (request.sges.len(), cap.receive_sge_max);
            Some((&rules::TOO_MANY_SGE, format!("{count} buffers exceed max_recv_sge of {max}")))
        } else {
            None
        };
        let is_full = flaw.is_none() && kind != QpKind::Driver && posted >= size(cap.receive_wr_max);
        let excess = is_full.then(|| {
            let max = cap.receive_wr_max;
            let reason = format!("the queue already holds max_recv_wr of {max} receives");
            let finding = self.flaw_of(&poster, (&rules::RECEIVE_QUEUE_FULL, reason), Vec::new(), site);
            Excess { finding, is_certain: true }
        });
        self.report_receive(&poster, flaw, site);
        self.check_keys(&poster, &request.sges, site);
        let cq = self.qps.get(&qp)?.receive_cq;
        if !self.completes_unseen(cq) {
            let outstanding = self.outstanding_receive(request, length, site);
            self.qps.get_mut(&qp)?.receives.push_back(outstanding);
            self.expect_completion(cq, site);
            self.limit_queue(qp);
        }
        excess
    }

    /// The library refused the last `count` receives.
    pub fn unpost_receive(&mut self, qp: Handle, count: usize) {
        for _ in 0..count {
            let Some(queue) = self.qps.get_mut(&qp) else { return };
            let cq = queue.receive_cq;
            if queue.receives.pop_back().is_some() {
                self.unexpect_completion(cq);
            }
        }
    }

    /// The program posts a receive to a shared receive queue. Returns a receive beyond the queue's capacity.
    pub fn post_shared_receive(&mut self, srq: Handle, request: ReceiveRequest, site: Site) -> Option<Excess> {
        self.counters.requests += 1;
        let Some(queue) = self.srqs.get(&srq) else {
            self.check_alive(Kind::Srq, srq, site);
            return None;
        };
        let poster = poster(Kind::Srq, srq, queue.context, queue.pd, &request);
        let (posted, wr_max, sge_max) = (queue.receives.len(), queue.wr_max, queue.sge_max);
        let is_certain = !queue.may_have_lost;
        let is_untracked = queue.is_untracked || self.is_incomplete(queue.context);
        let count = request.sges.len();
        let exceeds = count > size(sge_max);
        let flaw: Option<Flaw> =
            exceeds.then(|| (&rules::TOO_MANY_SGE, format!("{count} buffers exceed max_sge of {sge_max}")));
        let is_full = flaw.is_none() && !is_untracked && posted >= size(wr_max);
        let excess = is_full.then(|| {
            let reason = format!("the queue already holds max_wr of {wr_max} receives");
            let finding = self.flaw_of(&poster, (&rules::SRQ_FULL, reason), Vec::new(), site);
            Excess { finding, is_certain }
        });
        self.report_receive(&poster, flaw, site);
        self.check_keys(&poster, &request.sges, site);
        let length = total(&request);
        let outstanding = self.outstanding_receive(request, length, site);
        let queue = self.srqs.get_mut(&srq)?;
        if !is_untracked && queue.receives.len() < super::limits::QUEUE_MAX {
            queue.receives.push_back(outstanding);
        }
        excess
    }

    /// The library refused the last `count` receives.
    pub fn unpost_shared_receive(&mut self, srq: Handle, count: usize) {
        let Some(queue) = self.srqs.get_mut(&srq) else { return };
        let left = queue.receives.len().saturating_sub(count);
        queue.receives.truncate(left);
    }

    fn report_receive(&mut self, poster: &Poster, flaw: Option<Flaw>, site: Site) {
        if let Some(flaw) = flaw {
            self.push_finding(self.flaw_of(poster, flaw, Vec::new(), site));
        }
    }

    fn outstanding_receive(&mut self, request: ReceiveRequest, length: u64, site: Site) -> Outstanding {
        Outstanding {
            wr_id: request.wr_id,
            opcode: None,
            is_signaled: true,
            sges: request.sges,
            length,
            ah: 0,
            stack: site.stack,
            posted: self.tick(),
            digest: None,
        }
    }
}

fn poster(kind: Kind, handle: Handle, context: Handle, pd: Handle, request: &ReceiveRequest) -> Poster {
    Poster { kind, handle, context, pd, opcode: None, wr_id: request.wr_id }
}

fn total(request: &ReceiveRequest) -> u64 {
    request.sges.iter().map(|sge| u64::from(sge.length)).sum()
}

fn size(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
