//! A received REQ: a repeat, a peer-to-peer counterpart, one from a restarted peer, or a new request.

use weft_mad::exponent_to_duration;
use weft_wire::cm::{LID_PERMISSIVE, MessageRejected, RejectReason, Req};

use super::cm::{Cm, Rx};
use super::comm_id::ConnId;
use super::event::{EventKind, ReqReceived};
use super::limits::{PENDING_REQUESTS_MAX, RESPONSE_TIMEOUT_MAX};
use super::message::{Refusal, rej_stranger, req_received};
use super::state::{Input, State};

impl Cm {
    pub(super) fn on_req(&mut self, rx: &Rx<'_>, req: &Req) {
        if let Some(old) = self.tables.remote_ids.get(&(req.local_ca_guid, req.local_comm_id)).copied() {
            self.on_req_again(rx, old);
            return;
        }
        if let Some(own) = self.tables.peers.get(&(req.service_id.0, rx.from.dgid)).copied() {
            self.on_peer_req(rx, req, own);
            return;
        }
        match self.accept_req(rx, req) {
            Ok((id, received)) => self.enter_req(rx, req, id, received),
            Err(refusal) => self.refuse_req(rx, req, &refusal),
        }
    }

    fn on_req_again(&mut self, rx: &Rx<'_>, id: ConnId) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if conn.is_peer(rx.from) {
            self.tables.take(rx, conn, Input::RxReq);
        } else {
            self.tables.stats.rx_spoofed += 1;
        }
    }

    /// Handles a crossing peer-to-peer REQ. The CA with the greater GUID, or else the greater queue pair, stays active;
    /// the other side takes the peer's request and drops its own.
    fn on_peer_req(&mut self, rx: &Rx<'_>, req: &Req, id: ConnId) {
        let Some(conn) = self.conns.get(&id) else { return };
        let own_guid = self.devices.get(&conn.to.device).map_or(0, |ca| ca.node_guid);
        if !conn.is_peer(rx.from) {
            self.tables.stats.rx_spoofed += 1;
            return;
        }
        if (own_guid, conn.local_qpn) >= (req.local_ca_guid, req.local_qpn) {
            self.tables.duplicate(rx.attr_id);
            return;
        }
        let received = match self.check_req(rx, req) {
            Ok(()) => req_received(rx.from, req, rx.attr_mod, None),
            Err(refusal) => Err(refusal),
        };
        match received {
            Ok(received) => self.enter_req(rx, req, id, received),
            Err(refusal) => self.refuse_req(rx, req, &refusal),
        }
    }

    /// Checks that the peer's queue pair is free, as far as this side knows.
    fn check_req(&mut self, rx: &Rx<'_>, req: &Req) -> Result<(), Refusal> {
        match self.tables.remote_qps.get(&(rx.from.dgid, req.local_ca_guid, req.local_qpn)).copied() {
            Some(old) => {
                self.end_stale(rx, old);
                Err((RejectReason::STALE_CONN, Vec::new()))
            }
            None => Ok(()),
        }
    }

    fn accept_req(&mut self, rx: &Rx<'_>, req: &Req) -> Result<(ConnId, ReqReceived), Refusal> {
        self.check_req(rx, req)?;
        let listen = self.listeners.find(req.service_id.0);
        let listen = listen.ok_or_else(|| (RejectReason::INVALID_SERVICE_ID, Vec::new()))?;
        let received = req_received(rx.from, req, rx.attr_mod, Some(listen))?;
        let room = self.tables.pending < PENDING_REQUESTS_MAX;
        let id = room.then(|| self.create(*rx.from, req.service_id.0, None).ok()).flatten();
        let id = id.ok_or_else(|| {
            self.tables.stats.rx_no_room += 1;
            (RejectReason::NO_RESOURCES, Vec::new())
        })?;
        Ok((id, received))
    }

    fn refuse_req(&mut self, rx: &Rx<'_>, req: &Req, refusal: &Refusal) {
        let rej = rej_stranger(0, req.local_comm_id, MessageRejected::REQ, refusal);
        self.tables.say_to_stranger(rx.from, rx.tid, rej);
    }

    /// Makes a connection the passive side of a request.
    fn enter_req(&mut self, rx: &Rx<'_>, req: &Req, id: ConnId, received: ReqReceived) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        // Called before the peer's identifiers are set: it removes those from the time as active side.
        self.tables.enter(rx.now, conn, State::ReqRcvd);
        conn.tid = rx.tid;
        conn.to.traffic_class = received.primary.traffic_class;
        conn.to.flow_label = received.primary.flow_label;
        conn.to.sl = received.primary.sl;
        conn.to.hop_limit = received.primary.hop_limit;
        if rx.from.dlid != 0 && received.primary.dlid != LID_PERMISSIVE {
            // The connection's own path may differ from that of its messages.
            conn.to.dlid = received.primary.dlid;
        }
        conn.alternate_dgid = received.alternate.map(|path| path.dgid);
        conn.remote_comm_id = req.local_comm_id;
        conn.remote_ca_guid = req.local_ca_guid;
        conn.remote_qpn = req.local_qpn;
        conn.qp_type = received.qp_type;
        conn.path_mtu = received.primary.mtu;
        conn.pkey = req.pkey;
        conn.sq_psn = received.starting_psn;
        conn.responder_resources = received.responder_resources;
        conn.initiator_depth = received.initiator_depth;
        conn.retry_count = req.retry_count;
        conn.rnr_retry_count = req.rnr_retry_count;
        conn.ack_timeout = received.primary.packet_life_time.saturating_add(1);
        conn.timeout = exponent_to_duration(req.local_cm_response_timeout.min(RESPONSE_TIMEOUT_MAX));
        conn.max_cm_retries = req.max_cm_retries;
        self.tables.remote_ids.insert((req.local_ca_guid, req.local_comm_id), id);
        self.tables.remote_qps.insert(conn.remote_qp(), id);
        self.tables.tell(conn, EventKind::ReqReceived(Box::new(received)), req.private_data.as_slice());
    }

    /// Ends the old connection of a peer's queue pair that connects anew. Only the peer itself may cause that.
    pub(super) fn end_stale(&mut self, rx: &Rx<'_>, old: ConnId) {
        if self.conns.get(&old).is_some_and(|conn| conn.is_peer(rx.from)) {
            // In any state but Established, the connection's own timers end it.
            let _ = self.send_dreq(rx.now, old, &[]);
        }
    }
}
