//! Received datagrams: passed to the InfiniBand connection manager, whose events this module handles.

use weft_mad::{GmpAddress, MadBytes};
use weft_verbs::Instant;

use super::command::IdNumber;
use super::errno::ETIMEDOUT;
use super::event::{EventKind, EventParam};
use super::id::State;
use super::message::ece_above;
use super::param::{ConnParam, Ece};
use super::service::Service;
use crate::ib;

/// Service timeout in the MRA to a peer that repeats its message while the program is slow: 4.096 µs × 2^24, about a
/// minute.
pub const PATIENCE: u8 = 24;

impl Service {
    /// Handles a datagram received on queue pair 1 of a device, however malformed; errors are counted.
    pub fn handle_gmp(&mut self, now: Instant, from: &GmpAddress, mad: &MadBytes) {
        self.ib.handle_mad(now, from, mad);
        self.drain(now);
    }

    /// Returns the next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<(GmpAddress, MadBytes)> {
        self.ib.poll_transmit()
    }

    /// Handles everything that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.expire_questions(now);
        self.ib.handle_timeout(now);
        self.drain(now);
        self.iw.handle_timeout(now);
        self.drain_streams(now);
    }

    /// Returns when [`Service::handle_timeout`] must be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let question = self.deadlines.first().map(|(deadline, _)| *deadline);
        [question, self.ib.poll_timeout(), self.iw.poll_timeout()].into_iter().flatten().min()
    }

    /// Returns the counters of the layer below.
    pub fn stats(&self) -> &ib::CmStats {
        self.ib.stats()
    }

    /// Handles all events of the layer below. Called after every call into it.
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
                // The connection has no owner, so only this layer can end it.
                None => self.ib.destroy(now, conn),
            },
        }
    }

    /// Handles an event of an id's connection (`cma_ib_handler`). After its end only TIMEWAIT_EXIT counts.
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
                // The program may be slow: the peer learns so if it repeats its answer.
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
            // MRA events, and alternate paths, which this layer does not offer.
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

/// Converts a REP's event as `cma_set_rep_event_data` does.
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
