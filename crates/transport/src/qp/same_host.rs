//! A queue pair whose peer is a process of the same host: how it gets there, and the frames that come.

use weft_verbs::{Access, Instant, QpState, QpType};

use crate::local::Local;
use crate::same_host::{Frame, PeerId, QpView};
use crate::{Env, SameHost};

use super::{Qp, Service};

impl Qp {
    /// Reach the peer through `peer`, a process of this host, from the next transition to RTR on until RESET. For
    /// datagrams, which have no one peer, nothing changes.
    pub fn set_peer(&mut self, peer: PeerId) {
        if self.qp_type() != QpType::Ud {
            self.service = Service::Local(Box::new(Local::new(peer)));
        }
    }

    /// The process that its peer belongs to, if that is one of this host.
    pub fn peer(&self) -> Option<PeerId> {
        match &self.service {
            Service::Local(local) => Some(local.peer()),
            _ => None,
        }
    }

    /// Let the peer address this queue pair directly, as its attributes say now.
    pub(super) fn publish(&mut self, env: &mut impl Env) {
        let Service::Local(local) = &self.service else { return };
        if !matches!(self.qp_type(), QpType::Rc | QpType::Uc) {
            // XRC takes its domain from what each message names.
            return;
        }
        (self.core.direct, self.published) = (true, true);
        let mut access = self.core.attr.qp_access;
        if self.core.attr.max_dest_rd_atomic == 0 {
            // Whoever asks is to be refused.
            access -= Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        }
        env.memory().publish_qp(&QpView {
            qpn: self.core.qpn,
            peer: local.peer(),
            dest_qpn: self.core.attr.dest_qpn,
            pd: self.core.pd(),
            access,
        });
    }

    /// End that; no copy through the queue pair is under way afterwards.
    pub(super) fn revoke(&mut self, env: &mut impl Env) {
        self.core.direct = false;
        if std::mem::take(&mut self.published) {
            env.memory().revoke_qp(self.core.qpn);
        }
    }

    /// The queue pair is destroyed.
    pub fn retire(&mut self, env: &mut impl Env) {
        self.revoke(env);
    }

    /// A frame for this queue pair, from its peer's process: it is the current one of the lane.
    pub fn handle_frame(&mut self, now: Instant, frame: &Frame, env: &mut impl Env) {
        self.core.now = now;
        let receives = matches!(self.state(), QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe);
        let ours = frame.dest_qpn == self.core.qpn && frame.src_qpn == self.core.attr.dest_qpn;
        if !receives || !ours || self.peer().is_none() {
            self.core.stats.dropped += 1;
            return;
        }
        self.core.note_arrival(env);
        if let Service::Local(local) = &mut self.service {
            local.handle_frame(&mut self.core, &mut self.sq, &mut self.rq, frame, env);
        }
        self.after(env);
    }

    /// Whether an acknowledgement waits for company.
    pub fn owes_ack(&self) -> bool {
        match &self.service {
            Service::Local(local) => local.owes_ack(),
            _ => false,
        }
    }

    /// Send it. Whether it still waits, for room.
    pub fn flush_ack(&mut self, now: Instant, env: &mut impl Env) -> bool {
        self.core.now = now;
        let Service::Local(local) = &mut self.service else { return false };
        local.flush_ack(&mut self.core, env);
        local.owes_ack()
    }
}
