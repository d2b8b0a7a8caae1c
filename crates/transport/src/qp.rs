//! One queue pair of any type: the shell that checks posted work requests, changes states, and passes packets, time and
//! transmit turns to the service inside.
//!
//! ```text
//!            post_recv        receive        send
//!   RESET ──▶ INIT ──▶ RTR ──▶ RTS ◀──▶ SQD        UC, UD: send error: RTS ──▶ SQE ──▶ RTS
//!     ▲                         │
//!     └──── any state ──────────┴──▶ ERR: everything flushes
//! ```

use weft_verbs::op::{ListUse, TargetAction};
use weft_verbs::{
    AsyncEvent, DeviceId, Instant, QpAttr, QpAttrMask, QpId, QpInit, QpState, QpType, Qpn, RecvWr, SendFlags, SendWr,
    VerbsError, WcOpcode, WcStatus,
};

use crate::core::{Core, Fault};
use crate::iwarp::Iwarp;
use crate::local::Local;
use crate::peer_quota::PeerQuota;
use crate::progress;
use crate::rc::Rc;
use crate::rq::RecvQueue;
use crate::sq::SendQueue;
use crate::uc::Uc;
use crate::ud::Ud;
use crate::word::WORD_BYTES;
use crate::{Env, Memory, RxPacket, TxBatch};

mod attributes;
mod peer;
mod stream;

pub use stream::StreamPlaces;

#[derive(Debug)]
enum Service {
    Rc(Box<Rc>),
    Local(Box<Local>),
    Uc(Box<Uc>),
    Ud(Box<Ud>),
    Iwarp(Box<Iwarp>),
}

impl Service {
    /// Returns the service of a type, over the wire.
    fn of(kind: QpType) -> Service {
        match kind {
            QpType::Uc => Service::Uc(Box::default()),
            QpType::Ud => Service::Ud(Box::default()),
            QpType::Rc | QpType::XrcSend | QpType::XrcRecv => Service::Rc(Box::default()),
        }
    }
}

/// A queue pair.
#[derive(Debug)]
pub struct Qp {
    core: Core,
    sq: SendQueue,
    rq: RecvQueue,
    service: Service,
    /// SQD was entered, and SQ_DRAINED not yet reported.
    draining: bool,
    /// Whether acknowledgements may wait for an own message to ride on.
    ack_delay: bool,
    /// Whether its peer, on this host, may access it directly.
    published: bool,
}

impl Qp {
    /// Creates a queue pair in RESET. `init.cap` holds the granted capabilities.
    pub fn new(id: QpId, qpn: Qpn, init: &QpInit, device: DeviceId) -> Qp {
        Qp::with(id, qpn, init, device, Service::of(init.qp_type))
    }

    fn with(id: QpId, qpn: Qpn, init: &QpInit, device: DeviceId, service: Service) -> Qp {
        let cap = &init.cap;
        let kind = init.qp_type;
        let send = if kind.has_send_queue() { cap.max_send_wr } else { 0 };
        let recv = if kind.has_recv_queue() && init.srq.is_none() { cap.max_recv_wr } else { 0 };
        Qp {
            core: Core::new(id, qpn, init, device),
            sq: SendQueue::new(send, cap.max_send_sge, cap.max_inline_data, kind == QpType::Ud),
            rq: RecvQueue::new(recv, cap.max_recv_sge),
            service,
            draining: false,
            ack_delay: false,
            published: false,
        }
    }

    /// Lets acknowledgements wait some microseconds for an own message to ride on, if the traffic shows that this pays:
    /// it saves a system call in a ping-pong. Off at first. The owner that switches it on must switch it off again
    /// before the queue pair is destroyed or the process ends, and then send the output of [`Qp::poll_transmit`].
    pub fn allow_ack_delay(&mut self, allowed: bool) {
        self.ack_delay = allowed;
        if let Service::Rc(rc) = &mut self.service {
            rc.allow_ack_delay(allowed);
        }
    }

    /// Sends the last acknowledgement once more: the network may have lost it, and this queue pair is about to go.
    pub fn acknowledge_again(&mut self) {
        if let Service::Rc(rc) = &mut self.service {
            rc.acknowledge_again();
        }
    }

    /// Shares the peer with the other queue pairs of this process that send to it: from RTS on, and until the queue
    /// pair leaves the states in which it sends.
    pub fn join(&mut self, peer_quota: &PeerQuota) {
        if let Service::Rc(rc) = &mut self.service {
            rc.join(peer_quota);
        }
    }

    /// Returns whether it wants to send and must wait for a place among those that send to its peer: [`Qp::admit`].
    #[inline]
    pub fn waits_for_place(&self) -> bool {
        matches!(&self.service, Service::Rc(rc) if rc.waits_for_place())
    }

    /// Gives it a place. Returns whether it has something to send; if not, the place stays free.
    pub fn admit(&mut self, now: Instant) -> bool {
        if let Service::Rc(rc) = &mut self.service {
            rc.admit();
        }
        let wants = self.wants_transmit(now);
        if let Service::Rc(rc) = &mut self.service
            && !wants
        {
            rc.decline();
        }
        wants
    }

    /// Takes over attributes and changes state. The caller has checked the transition against
    /// [`weft_verbs::qp_state::check`] and resolved the address vector.
    pub fn modify(&mut self, now: Instant, attr: &QpAttr, mask: QpAttrMask, env: &mut impl Env) {
        self.core.now = now;
        self.core.apply(attr, mask);
        if !mask.contains(QpAttrMask::STATE) {
            return;
        }
        let (from, to) = (self.state(), attr.qp_state);
        match to {
            QpState::Reset => self.reset(env),
            QpState::Err => self.enter_error(env, false),
            QpState::Rtr if from != to => {
                let psn = self.core.attr.rq_psn;
                match &mut self.service {
                    Service::Rc(rc) => rc.start_responder(psn),
                    Service::Uc(uc) => uc.start_responder(psn),
                    Service::Ud(_) | Service::Local(_) | Service::Iwarp(_) => {}
                }
            }
            QpState::Rts if from == QpState::Rtr => {
                let psn = self.core.attr.sq_psn;
                match &mut self.service {
                    Service::Rc(rc) => rc.start_requester(psn, &self.core, &self.sq),
                    Service::Local(local) => local.start_requester(&self.core, &self.sq),
                    Service::Uc(uc) => uc.start_requester(psn),
                    Service::Ud(ud) => ud.start_requester(psn),
                    // It starts with its stream.
                    Service::Iwarp(_) => {}
                }
            }
            QpState::Rts if from == QpState::Sqe => {
                if let Service::Local(local) = &mut self.service {
                    local.start_requester(&self.core, &self.sq);
                }
            }
            _ => {}
        }
        if !matches!(to, QpState::Reset | QpState::Err) {
            self.core.set_state(to);
        }
        self.draining = to == QpState::Sqd && (self.draining || from != to);
        if matches!(to, QpState::Rtr | QpState::Rts | QpState::Sqd) {
            self.publish(env);
        }
        self.after(env);
    }

    /// Posts a send work request.
    pub fn post_send(&mut self, now: Instant, wr: &SendWr<'_>, env: &mut impl Env) -> Result<(), VerbsError> {
        self.post(now, wr, WcStatus::Success, env)
    }

    /// Posts a send work request that is not carried out: it completes with `status` after those before it, and the queue
    /// pair leaves RTS.
    ///
    /// # Errors
    /// As [`Qp::post_send`].
    #[cold]
    pub fn post_failing_send(
        &mut self,
        now: Instant,
        wr: &SendWr<'_>,
        status: WcStatus,
        env: &mut impl Env,
    ) -> Result<(), VerbsError> {
        self.post(now, wr, status, env)
    }

    #[inline]
    fn post(
        &mut self,
        now: Instant,
        wr: &SendWr<'_>,
        injected: WcStatus,
        env: &mut impl Env,
    ) -> Result<(), VerbsError> {
        self.core.now = now;
        self.check_send(wr)?;
        if matches!(self.state(), QpState::Err | QpState::Sqe) {
            let wc = self.core.wc(wr.wr_id, WcStatus::WrFlushErr, wr.op.info().completion);
            self.core.complete_send(env, wc);
            return Ok(());
        }
        let signaled = self.core.init.sq_sig_all || wr.flags.contains(SendFlags::SIGNALED);
        self.sq.push(wr, signaled, |addr, out| env.memory().read(addr, out))?;
        if injected != WcStatus::Success {
            self.sq.fail_newest(injected);
        }
        if let Service::Local(local) = &mut self.service {
            // There are no packets to batch: send at once.
            local.on_post(&mut self.core, &mut self.sq, env);
            self.after(env);
        } else if let Service::Iwarp(iwarp) = &mut self.service
            && iwarp.on_post(&mut self.core, &mut self.sq, env)
        {
            self.after(env);
        }
        Ok(())
    }

    /// Returns whether [`Qp::post_send`] would accept a work request behind `ahead` others posted first.
    pub fn would_post(&self, wr: &SendWr<'_>, ahead: usize) -> Result<(), VerbsError> {
        self.check_send(wr)?;
        if matches!(self.state(), QpState::Err | QpState::Sqe) {
            return Ok(());
        }
        self.sq.check(wr, ahead).map(drop)
    }

    #[inline]
    fn check_send(&self, wr: &SendWr<'_>) -> Result<(), VerbsError> {
        if !self.qp_type().has_send_queue() {
            return Err(VerbsError::Invalid("an XRC target has no send queue"));
        }
        if matches!(self.state(), QpState::Reset | QpState::Init | QpState::Rtr) {
            return Err(VerbsError::NOT_IN_RTS);
        }
        let bytes = crate::sge_list::total(wr.sges);
        let kind = self.qp_type();
        let row = wr.op.info();
        if !wr.op.is_carried_by(kind) || !self.stream_carries(&wr.op) {
            return Err(VerbsError::Invalid("the operation is not one of this kind of queue pair"));
        }
        if wr.flags.contains(SendFlags::INLINE) && row.list != ListUse::Sent {
            return Err(VerbsError::Invalid("only what is sent can be inline"));
        }
        let aligned = match (row.action, row.list) {
            // The responder refuses an address that is not a multiple of 8 (IBA A19.4.2), as rxe does.
            (TargetAction::Word, ListUse::Sent) => bytes == WORD_BYTES,
            (TargetAction::Word, _) => {
                wr.op.target().is_some_and(|target| target.addr.is_multiple_of(WORD_BYTES)) && bytes >= WORD_BYTES
            }
            _ => true,
        };
        if !aligned {
            return Err(VerbsError::Invalid("an atomic takes 8 bytes at an address that is a multiple of 8"));
        }
        if kind == QpType::Ud {
            if wr.ud.is_none() {
                return Err(VerbsError::Invalid("a datagram needs an address handle"));
            }
            if bytes > self.core.port_mtu.bytes() as u64 {
                return Err(VerbsError::Invalid("a datagram is one packet: no longer than the port's MTU"));
            }
        }
        if kind == QpType::XrcSend && wr.xrc_srqn.is_none() {
            return Err(VerbsError::Invalid("XRC needs the number of the peer's SRQ"));
        }
        Ok(())
    }

    /// Posts a receive work request.
    #[inline]
    pub fn post_recv(&mut self, wr: &RecvWr<'_>, env: &mut impl Env) -> Result<(), VerbsError> {
        if !self.qp_type().has_recv_queue() || self.core.init.srq.is_some() {
            return Err(VerbsError::Invalid("the queue pair has no receive queue of its own"));
        }
        match self.state() {
            QpState::Reset => Err(VerbsError::Invalid("receives can be posted from INIT on")),
            QpState::Err => {
                let wc = self.core.wc(wr.wr_id, WcStatus::WrFlushErr, WcOpcode::Recv);
                self.core.complete_recv(env, None, wc);
                Ok(())
            }
            _ => self.rq.push(wr),
        }
    }

    /// Gives the receive posted last the status with which it completes instead of taking a message.
    pub fn fail_newest_recv(&mut self, status: WcStatus) {
        self.rq.fail_newest(status);
    }

    /// Handles a packet for this queue pair.
    pub fn handle_packet(&mut self, now: Instant, rx: &RxPacket<'_>, env: &mut impl Env) {
        self.core.now = now;
        self.core.stats.rx_packets += 1;
        self.core.stats.rx_bytes += rx.packet.payload.len() as u64;
        let receives = matches!(self.state(), QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe);
        if !receives || rx.packet.info.service != self.core.service() {
            self.core.stats.dropped += 1;
            if let Service::Rc(rc) = &mut self.service
                && self.core.attr.qp_state == QpState::Err
                && rx.packet.info.service == self.core.service()
            {
                rc.on_late_packet(rx);
            }
            return;
        }
        self.core.note_arrival(env);
        let core = &mut self.core;
        match &mut self.service {
            Service::Rc(rc) => rc.handle_packet(core, &mut self.sq, &mut self.rq, now, rx, env),
            // The peer knows to send no packets, so this sender is not the peer.
            Service::Local(_) | Service::Iwarp(_) => core.stats.dropped += 1,
            Service::Uc(uc) => uc.handle_packet(core, &mut self.rq, rx, env),
            Service::Ud(ud) => ud.handle_packet(core, &mut self.rq, rx, env),
        }
        self.after(env);
    }

    /// Handles the deadline that [`Qp::poll_timeout`] returned.
    pub fn handle_timeout(&mut self, now: Instant, env: &mut impl Env) {
        self.core.now = now;
        match &mut self.service {
            Service::Rc(rc) => rc.handle_timeout(&mut self.core, &mut self.sq, now, env),
            Service::Local(local) => local.handle_timeout(&mut self.core, &mut self.sq, env),
            Service::Iwarp(iwarp) => iwarp.handle_timeout(&mut self.core, &mut self.sq, env),
            Service::Uc(_) | Service::Ud(_) => return,
        }
        self.after(env);
    }

    /// Fills the batch with at most [`crate::TX_BURST_PACKETS`] packets that may be sent now. Returns whether there are more.
    pub fn poll_transmit(&mut self, now: Instant, tx: &mut TxBatch, env: &mut impl Env) -> bool {
        self.core.now = now;
        let core = &mut self.core;
        match &mut self.service {
            Service::Rc(rc) => rc.poll_transmit(core, &mut self.sq, &self.rq, now, tx, env),
            Service::Local(local) => local.poll_transmit(core, &mut self.sq, env),
            Service::Uc(uc) => uc.poll_transmit(core, &mut self.sq, tx, env),
            Service::Ud(ud) => ud.poll_transmit(core, &mut self.sq, tx, env),
            Service::Iwarp(iwarp) => iwarp.poll_transmit(core, &mut self.sq, env),
        }
        self.after(env);
        self.wants_transmit(now)
    }

    /// Returns whether [`Qp::poll_transmit`] would send something.
    #[inline]
    pub fn wants_transmit(&self, now: Instant) -> bool {
        match &self.service {
            Service::Rc(rc) => rc.wants_transmit(&self.core, &self.sq, now),
            Service::Local(local) => local.wants_transmit(&self.core, &self.sq, now),
            Service::Uc(uc) => uc.wants_transmit(&self.core, &self.sq, now),
            Service::Ud(ud) => ud.wants_transmit(&self.core, &self.sq, now),
            // A stream has turns of its own: [`Qp::wants_stream`].
            Service::Iwarp(iwarp) => iwarp.wants_transmit(&self.core, &self.sq, now),
        }
    }

    /// Returns when [`Qp::handle_timeout`] must be called.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.service {
            Service::Rc(rc) => rc.poll_timeout(&self.core),
            Service::Local(local) => local.poll_timeout(&self.core),
            Service::Uc(uc) => uc.poll_timeout(&self.core, &self.sq),
            Service::Ud(ud) => ud.poll_timeout(&self.core, &self.sq),
            Service::Iwarp(iwarp) => iwarp.poll_timeout(&self.core),
        }
    }

    /// Enters ERR and flushes, because something around the queue pair failed (CQ overrun, device gone).
    pub fn to_error(&mut self, now: Instant, env: &mut impl Env) {
        self.core.now = now;
        self.enter_error(env, false);
    }

    /// Acts on the findings of the service: errors, and the end of draining.
    fn after(&mut self, env: &mut impl Env) {
        match self.core.fault.take() {
            Some(Fault::Error) => self.enter_error(env, true),
            Some(Fault::SendError) if self.state() != QpState::Err => {
                self.core.set_state(QpState::Sqe);
                progress::flush(&self.core, &mut self.sq, env);
            }
            _ => {}
        }
        if self.draining && self.drained() {
            self.draining = false;
            if self.state() == QpState::Sqd && self.core.attr.en_sqd_async_notify {
                self.core.event(env, AsyncEvent::SqDrained);
            }
        }
    }

    fn drained(&self) -> bool {
        match &self.service {
            Service::Rc(rc) => rc.is_drained(&self.sq),
            Service::Local(local) => local.is_drained(&self.sq),
            Service::Uc(uc) => uc.is_drained(),
            Service::Ud(_) => true,
            Service::Iwarp(iwarp) => iwarp.is_drained(&self.sq),
        }
    }

    /// Enters ERR: completes everything with a flush error, in order. With `reply`, queued answers are still sent,
    /// among them the NAK that tells the peer the reason.
    fn enter_error(&mut self, env: &mut impl Env, reply: bool) {
        if self.state() == QpState::Err {
            return;
        }
        let was_reset = self.state() == QpState::Reset;
        self.core.set_state(QpState::Err);
        self.revoke(env);
        let held = match &mut self.service {
            Service::Rc(rc) => rc.stop(reply),
            Service::Local(local) => local.stop(reply),
            Service::Uc(uc) => uc.stop(),
            Service::Ud(_) => None,
            Service::Iwarp(iwarp) => iwarp.stop(&self.core, reply),
        };
        progress::flush(&self.core, &mut self.sq, env);
        if let Some((wr_id, cq)) = held {
            let wc = self.core.wc(wr_id, WcStatus::WrFlushErr, WcOpcode::Recv);
            self.core.complete_recv(env, cq, wc);
        }
        while let Some(wr_id) = self.rq.pop_id() {
            let wc = self.core.wc(wr_id, WcStatus::WrFlushErr, WcOpcode::Recv);
            self.core.complete_recv(env, None, wc);
        }
        if self.core.init.srq.is_some() && !was_reset {
            self.core.event(env, AsyncEvent::QpLastWqeReached);
        }
    }

    /// Enters RESET: work requests vanish without completions, attributes return to their initial values.
    fn reset(&mut self, env: &mut impl Env) {
        self.revoke(env);
        self.sq.clear();
        self.rq.clear();
        match &mut self.service {
            Service::Rc(rc) => rc.reset(),
            Service::Local(_) => {
                self.service = Service::of(self.core.qp_type());
                self.allow_ack_delay(self.ack_delay);
            }
            Service::Uc(uc) => **uc = Uc::default(),
            Service::Ud(ud) => **ud = Ud::default(),
            Service::Iwarp(iwarp) => {
                iwarp.flush_ack(&mut self.core, env);
                iwarp.reset();
            }
        }
        let fresh = Core::new(self.core.id, self.core.qpn, &self.core.init, self.core.device);
        self.core = Core { stats: self.core.stats, now: self.core.now, port_mtu: self.core.port_mtu, ..fresh };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_queue_pair_is_small() {
        let fixed = size_of::<Qp>() + size_of::<Rc>();
        assert!(fixed <= 2048, "{fixed} bytes");
    }
}
