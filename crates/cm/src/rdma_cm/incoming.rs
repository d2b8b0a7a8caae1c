//! What comes from the network: datagrams for the InfiniBand connection manager, and what that makes of them.

use weft_mad::{GmpAddress, MadBytes};
use weft_verbs::Instant;

use super::command::IdNumber;
use super::connect::ece_above;
use super::errno::ETIMEDOUT;
use super::event::{EventKind, EventParam};
use super::id::State;
use super::param::{ConnParam, Ece};
use super::service::Service;
use crate::ib;

/// How long a peer is asked to wait for a program, once it repeats itself: 4.096 µs × 2^24, about a minute.
pub const PATIENCE: u8 = 24;

impl Service {
    /// A datagram came to queue pair 1 of a device. Whatever it is, it is dealt with; what is wrong with it is counted.
    pub fn handle_gmp(&mut self, now: Instant, from: &GmpAddress, mad: &MadBytes) {
        self.ib.handle_mad(now, from, mad);
        self.drain(now);
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<(GmpAddress, MadBytes)> {
        self.ib.poll_transmit()
    }

    /// Lets everything happen that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.expire_questions(now);
        self.ib.handle_timeout(now);
        self.drain(now);
    }

    /// When [`Service::handle_timeout`] must be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let question = self.deadlines.first().map(|(deadline, _)| *deadline);
        [question, self.ib.poll_timeout()].into_iter().flatten().min()
    }

    /// The counters of the layer below.
    pub fn stats(&self) -> &ib::CmStats {
        self.ib.stats()
    }

    /// Deals with everything that the layer below has to tell. Called after every call into it.
    pub(super) fn drain(&mut self, now: Instant) {
        while let Some(event) = self.ib.poll_event() {
            self.on_event(now, event);
        }
    }

    fn on_event(&mut self, now: Instant, event: ib::Event) {
        let ib::Event { conn, kind, private_data } = event;
        match kind {
            ib::EventKind::ReqReceived(request) => self.on_request(now, conn, &request, private_data),
            ib::EventKind::SidrReqReceived(request) => self.on_sidr_request(now, conn, &request, private_data),
            kind => match self.owners.get(&conn) {
                Some(number) => self.on_progress(now, *number, conn, kind, private_data),
                // Nobody owns it, so nobody can end it but we.
                None => self.ib.destroy(now, conn),
            },
        }
    }

    /// Something happened to a connection of an id (`cma_ib_handler`). Only TIMEWAIT_EXIT counts once it is over.
    fn on_progress(
        &mut self,
        now: Instant,
        number: IdNumber,
        conn: ib::ConnId,
        kind: ib::EventKind,
        private_data: Vec<u8>,
    ) {
        let Some(state) = self.ids.look(number).map(|id| id.state) else { return };
        if matches!(kind, ib::EventKind::TimewaitExit) {
            if state == State::Disconnect {
                self.emit(number, EventKind::TimewaitExit, 0, EventParam::None);
            }
            return;
        }
        if state != State::Connect {
            return;
        }
        let data = |private_data| EventParam::Conn(ConnParam { private_data, ..ConnParam::default() });
        match kind {
            ib::EventKind::ReqError | ib::EventKind::RepError => {
                self.emit(number, EventKind::Unreachable, -ETIMEDOUT, EventParam::None);
            }
            ib::EventKind::RepReceived(reply) => {
                // The program may take its time: the peer learns so if it repeats its answer.
                let _ = self.ib.send_mra(now, conn, PATIENCE, true, &[]);
                let (param, ece) = answer(&reply, private_data);
                self.emit_ece(number, EventKind::ConnectResponse, 0, EventParam::Conn(param), ece);
            }
            ib::EventKind::RtuReceived | ib::EventKind::UserEstablished => {
                self.emit(number, EventKind::Established, 0, data(private_data));
            }
            ib::EventKind::DreqError => self.on_end(number, -ETIMEDOUT),
            ib::EventKind::DreqReceived | ib::EventKind::DrepReceived => self.on_end(number, 0),
            ib::EventKind::RejReceived(rejection) => {
                let reason = rejection.reason.0.into();
                self.emit(number, EventKind::Rejected, reason, data(private_data));
            }
            ib::EventKind::SidrRepReceived(reply) => self.on_sidr_reply(number, &reply, private_data),
            ib::EventKind::SidrReqError => self.on_sidr_silence(number),
            // Patience, and alternate paths, which are not offered.
            _ => {}
        }
    }

    fn on_end(&mut self, number: IdNumber, status: i32) {
        if let Some(id) = self.ids.change(number) {
            id.state = State::Disconnect;
        }
        self.emit(number, EventKind::Disconnected, status, EventParam::None);
    }
}

/// What an answer says, as `cma_set_rep_event_data` passes it on.
fn answer(reply: &ib::RepReceived, private_data: Vec<u8>) -> (ConnParam, Ece) {
    let param = ConnParam {
        qp_num: reply.remote_qpn,
        private_data,
        srq: reply.srq,
        responder_resources: reply.responder_resources,
        initiator_depth: reply.initiator_depth,
        flow_control: reply.flow_control.into(),
        rnr_retry_count: reply.rnr_retry_count,
        ..ConnParam::default()
    };
    (param, ece_above(reply.ece))
}
