//! Messages that name a connection: MRA, REJ, REP, RTU, DREQ, DREP.

use weft_mad::exponent_to_duration;
use weft_verbs::Duration;
use weft_wire::cm::{Drep, Dreq, MessageMraed, MessageRejected, Mra, Rej, RejectReason, Rep, Rtu};

use super::cm::{Cm, Rx};
use super::comm_id::ConnId;
use super::conn::Conn;
use super::event::{EventKind, RejReceived};
use super::limits::SERVICE_TIMEOUT_MAX;
use super::message;
use super::path::ack_timeout;
use super::state::{Action, Input, State, step};
use super::tables::ConnTables;

impl ConnTables {
    /// Applies the table to a message from the peer. Returns whether to tell the owner.
    pub fn take(&mut self, rx: &Rx<'_>, conn: &mut Conn, input: Input) -> bool {
        let (next, action) = step(conn.state, input);
        match action {
            Action::Tell | Action::Patience => {
                self.enter(rx.now, conn, next);
                return true;
            }
            Action::Duplicate => self.duplicate(rx.attr_id),
            Action::SayAgain => {
                self.duplicate(rx.attr_id);
                self.say_again(conn);
            }
            Action::SayStale => {
                self.duplicate(rx.attr_id);
                if self.has_room()
                    && let Ok(rej) = message::rej(conn, RejectReason::STALE_CONN, &[], &[])
                {
                    self.say(conn, rej);
                }
            }
            Action::SayDrep => {
                self.duplicate(rx.attr_id);
                self.drep_again(rx, conn);
            }
            _ => self.stats.rx_unexpected += 1,
        }
        false
    }

    /// Sends the DREP again, or a first one if the connection ended otherwise.
    fn drep_again(&mut self, rx: &Rx<'_>, conn: &mut Conn) {
        if conn.reply.is_some() {
            self.say_again(conn);
        } else if self.has_room()
            && let Ok(drep) = message::drep(conn, &[])
        {
            conn.tid = rx.tid;
            self.say(conn, drep);
        }
    }
}

impl Cm {
    /// Returns the connection that a message names by both ids, if the message comes from the peer. `remote` is 0 when
    /// the peer's id cannot be known yet.
    pub(super) fn find(&mut self, rx: &Rx<'_>, local: u32, remote: u32) -> Option<(&mut ConnTables, &mut Conn)> {
        let Some(conn) = self.conns.get_mut(&ConnId(local)) else {
            self.tables.stats.rx_unexpected += 1;
            return None;
        };
        if !conn.is_peer(rx.from) {
            self.tables.stats.rx_spoofed += 1;
            return None;
        }
        if conn.remote_comm_id != remote {
            self.tables.stats.rx_unexpected += 1;
            return None;
        }
        Some((&mut self.tables, conn))
    }

    pub(super) fn on_mra(&mut self, rx: &Rx<'_>, mra: &Mra) {
        let (input, remote) = match mra.message_mraed {
            // A requester that awaits the answer to its REQ knows no id of the peer yet.
            MessageMraed::REQ => (Input::RxMraReq, 0),
            MessageMraed::REP => (Input::RxMraRep, mra.local_comm_id),
            MessageMraed::LAP => return self.on_mra_lap(rx, mra),
            _ => {
                self.tables.stats.rx_unexpected += 1;
                return;
            }
        };
        let Some((tables, conn)) = self.find(rx, mra.remote_comm_id, remote) else { return };
        if tables.take(rx, conn, input) {
            tables.extend(rx.now, conn, patience(conn, mra.service_timeout));
            let kind = EventKind::MraReceived { service_timeout: mra.service_timeout };
            tables.tell(conn, kind, mra.private_data.as_slice());
        }
    }

    pub(super) fn on_rej(&mut self, rx: &Rx<'_>, rej: &Rej) {
        let Some(local) = self.rejected(rej) else {
            self.tables.stats.rx_unexpected += 1;
            return;
        };
        let remote = self.conns.get(&local).map_or(0, |conn| match conn.state {
            State::ReqSent | State::MraReqRcvd => 0,
            _ => rej.local_comm_id,
        });
        let stale = rej.reason == RejectReason::STALE_CONN;
        let Some((tables, conn)) = self.find(rx, local.0, remote) else { return };
        if tables.take(rx, conn, if stale { Input::RxRejStale } else { Input::RxRej }) {
            let rejected = RejReceived { reason: rej.reason, ari: rej.ari().to_vec() };
            tables.tell(conn, EventKind::RejReceived(rejected), rej.private_data.as_slice());
        }
        self.remove_closed(rx.now, local);
    }

    /// Returns the connection that a REJ is about. A peer that gives up may not know this side's id; it then names
    /// itself by its GUID.
    pub(super) fn rejected(&self, rej: &Rej) -> Option<ConnId> {
        let by_guid = || {
            let guid = u64::from_be_bytes(rej.ari().get(..8)?.try_into().ok()?);
            self.tables.remote_ids.get(&(guid, rej.local_comm_id)).copied()
        };
        let timeout = rej.reason == RejectReason::TIMEOUT;
        timeout.then(by_guid).flatten().or((rej.remote_comm_id != 0).then_some(ConnId(rej.remote_comm_id)))
    }

    pub(super) fn on_rep(&mut self, rx: &Rx<'_>, rep: &Rep) {
        let Some(conn) = self.conns.get(&ConnId(rep.remote_comm_id)) else {
            // The answer crossed the REJ that gave up the request, or that REJ was lost.
            let refusal = (RejectReason::INVALID_COMM_ID, Vec::new());
            let rej = message::rej_stranger(rep.remote_comm_id, rep.local_comm_id, MessageRejected::REP, &refusal);
            self.tables.say_to_stranger(rx.from, rx.tid, rej);
            self.tables.stats.rx_unexpected += 1;
            return;
        };
        if conn.remote_comm_id != 0 {
            if let Some((tables, conn)) = self.find(rx, rep.remote_comm_id, rep.local_comm_id) {
                tables.take(rx, conn, Input::RxRep);
            }
            return;
        }
        let qpn = message::rep_qpn(rep, conn.qp_type);
        let waits = conn.is_peer(rx.from) && step(conn.state, Input::RxRep).1 == Action::Tell;
        if waits && !self.check_rep(rx, rep, qpn) {
            return;
        }
        let Some((tables, conn)) = self.find(rx, rep.remote_comm_id, 0) else { return };
        if tables.take(rx, conn, Input::RxRep) {
            conn.take_rep(rep, qpn);
            tables.remote_ids.insert((conn.remote_ca_guid, conn.remote_comm_id), conn.id);
            tables.remote_qps.insert(conn.remote_qp(), conn.id);
            let received = message::rep_received(rep, rx.attr_mod, conn.qp_type);
            tables.tell(conn, EventKind::RepReceived(Box::new(received)), rep.private_data.as_slice());
        }
    }

    /// Returns whether the peer named in an answer is free of other connections.
    fn check_rep(&mut self, rx: &Rx<'_>, rep: &Rep, qpn: u32) -> bool {
        if self.tables.remote_ids.contains_key(&(rep.local_ca_guid, rep.local_comm_id)) {
            self.tables.duplicate(rx.attr_id);
            return false;
        }
        let Some(old) = self.tables.remote_qps.get(&(rx.from.dgid, rep.local_ca_guid, qpn)).copied() else {
            return true;
        };
        let refusal = (RejectReason::STALE_CONN, Vec::new());
        let rej = message::rej_stranger(rep.remote_comm_id, rep.local_comm_id, MessageRejected::REP, &refusal);
        self.tables.say_to_stranger(rx.from, rx.tid, rej);
        self.end_stale(rx, old);
        false
    }

    pub(super) fn on_rtu(&mut self, rx: &Rx<'_>, rtu: &Rtu) {
        let Some((tables, conn)) = self.find(rx, rtu.remote_comm_id, rtu.local_comm_id) else { return };
        if tables.take(rx, conn, Input::RxRtu) {
            tables.tell(conn, EventKind::RtuReceived, rtu.private_data.as_slice());
        }
    }

    pub(super) fn on_dreq(&mut self, rx: &Rx<'_>, dreq: &Dreq) {
        let id = ConnId(dreq.remote_comm_id);
        if !self.conns.contains_key(&id) {
            // Forgotten here: let the peer end it too.
            let drep =
                Drep { local_comm_id: dreq.remote_comm_id, remote_comm_id: dreq.local_comm_id, ..Drep::default() };
            self.tables.duplicate(rx.attr_id);
            self.tables.say_to_stranger(rx.from, rx.tid, drep);
            return;
        }
        let Some((tables, conn)) = self.find(rx, id.0, dreq.local_comm_id) else { return };
        if conn.local_qpn != dreq.remote_qpn {
            tables.stats.rx_unexpected += 1;
            return;
        }
        if tables.take(rx, conn, Input::RxDreq) {
            conn.tid = rx.tid;
            tables.tell(conn, EventKind::DreqReceived, dreq.private_data.as_slice());
        }
        self.remove_closed(rx.now, id);
    }

    pub(super) fn on_drep(&mut self, rx: &Rx<'_>, drep: &Drep) {
        let id = ConnId(drep.remote_comm_id);
        let Some((tables, conn)) = self.find(rx, id.0, drep.local_comm_id) else { return };
        if tables.take(rx, conn, Input::RxDrep) {
            tables.tell(conn, EventKind::DrepReceived, drep.private_data.as_slice());
        }
        self.remove_closed(rx.now, id);
    }
}

impl Conn {
    fn take_rep(&mut self, rep: &Rep, qpn: u32) {
        self.remote_comm_id = rep.local_comm_id;
        self.remote_ca_guid = rep.local_ca_guid;
        self.remote_qpn = qpn;
        self.initiator_depth = rep.responder_resources;
        self.responder_resources = rep.initiator_depth;
        self.sq_psn = rep.starting_psn.value();
        self.rnr_retry_count = rep.rnr_retry_count;
        self.ack_timeout = ack_timeout(rep.target_ack_delay, self.ack_timeout.saturating_sub(1));
    }
}

/// Returns how long the peer may take: the requested time, within limits, plus the round trip.
pub(super) fn patience(conn: &Conn, service_timeout: u8) -> Duration {
    let both_ways = conn.ack_timeout.min(SERVICE_TIMEOUT_MAX);
    exponent_to_duration(service_timeout.min(SERVICE_TIMEOUT_MAX)) + exponent_to_duration(both_ways)
}
