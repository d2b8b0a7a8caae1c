//! A queue pair whose peer is a process of the same host: access to that process, and frames from it.

use weft_verbs::{Access, Instant, QpState, QpType};

use crate::frame::Frame;
use crate::local::Local;
use crate::peers::{PeerId, QpView};
use crate::{Env, Peers};

use super::{Qp, Service};

impl Qp {
    /// Connects to the peer through `peer`, a process of this host, from the next transition to RTR on until RESET. No
    /// effect on datagram queue pairs, which have no single peer.
    pub fn set_peer(&mut self, peer: PeerId) {
        if self.qp_type() != QpType::Ud {
            self.service = Service::Local(Box::new(Local::new(peer)));
        }
    }

    /// Returns the process of its peer, if that is on this host.
    pub fn peer(&self) -> Option<PeerId> {
        match &self.service {
            Service::Local(local) => Some(local.peer()),
            Service::Iwarp(iwarp) => iwarp.peer(),
            _ => None,
        }
    }

    /// Opens or closes the path to its peer over the fabric. On a closed path frames are lost, and nothing is accessed
    /// directly.
    pub fn set_path_open(&mut self, open: bool) {
        self.core.path_closed = !open;
    }

    /// Lets the peer access this queue pair directly, with its present attributes.
    pub(super) fn publish(&mut self, env: &mut impl Env) {
        let Some(peer) = self.peer() else { return };
        if !matches!(self.qp_type(), QpType::Rc | QpType::Uc) {
            // XRC takes its protection domain from the SRQ that each message names.
            return;
        }
        (self.core.direct, self.published) = (true, true);
        let mut access = self.core.attr.qp_access;
        if self.core.attr.max_dest_rd_atomic == 0 {
            // The responder refuses every such request.
            access -= Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        }
        env.peers().publish_qp(&QpView {
            qpn: self.core.qpn,
            peer,
            dest_qpn: self.core.attr.dest_qpn,
            pd: self.core.pd(),
            access,
        });
    }

    /// Ends direct access; no copy through the queue pair is in progress afterwards.
    pub(super) fn revoke(&mut self, env: &mut impl Env) {
        self.core.direct = false;
        if std::mem::take(&mut self.published) {
            env.peers().revoke_qp(self.core.qpn);
        }
    }

    /// Retires the queue pair before its destruction.
    pub fn retire(&mut self, env: &mut impl Env) {
        self.revoke(env);
        if let Service::Iwarp(iwarp) = &mut self.service {
            iwarp.flush_ack(&mut self.core, env);
        }
    }

    /// Handles a frame from the peer's process, which is the current one of the ring.
    pub fn handle_frame(&mut self, now: Instant, frame: &Frame, env: &mut impl Env) {
        self.core.now = now;
        let receives = matches!(self.state(), QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe);
        let ours = frame.dest_qpn == self.core.qpn && frame.src_qpn == self.core.attr.dest_qpn;
        if !receives || !ours || self.peer().is_none() {
            self.core.stats.dropped += 1;
            return;
        }
        self.core.note_arrival(env);
        let core = &mut self.core;
        match &mut self.service {
            Service::Local(local) => local.handle_frame(core, &mut self.sq, &mut self.rq, frame, env),
            Service::Iwarp(iwarp) => iwarp.handle_frame(core, &mut self.sq, &mut self.rq, frame, env),
            _ => {}
        }
        self.after(env);
    }

    /// Returns whether an acknowledgement waits for a frame to ride on.
    pub fn owes_ack(&self) -> bool {
        match &self.service {
            Service::Local(local) => local.owes_ack(),
            Service::Iwarp(iwarp) => iwarp.owes_ack(),
            _ => false,
        }
    }

    /// Sends that acknowledgement. Returns whether it still waits, for room.
    pub fn flush_ack(&mut self, now: Instant, env: &mut impl Env) -> bool {
        self.core.now = now;
        match &mut self.service {
            Service::Local(local) => local.flush_ack(&mut self.core, env),
            Service::Iwarp(iwarp) => iwarp.flush_ack(&mut self.core, env),
            _ => {}
        }
        self.owes_ack()
    }
}
