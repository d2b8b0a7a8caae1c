//! Service ID resolution (IBA 12.11): finds the datagram queue pair behind a service. One request, one answer, no
//! connection: on the passive side, the entry lives until it is answered.

use weft_verbs::{Duration, Instant};
use weft_wire::cm::{PrivateData, ServiceId, SidrRep, SidrReq, SidrStatus};

use super::cm::{Cm, Rx};
use super::comm_id::ConnId;
use super::command::Done;
use super::conn::Conn;
use super::error::CmError;
use super::event::{EventKind, SidrRepReceived, SidrReqReceived};
use super::limits::{CM_RETRIES_MAX, PENDING_REQUESTS_MAX};
use super::param::{Ece, SidrRepParams, SidrReqParams};
use super::state::{Input, State};

impl Cm {
    /// Requests the datagram queue pair behind a service (`ib_send_cm_sidr_req`).
    pub fn send_sidr_req(&mut self, now: Instant, params: &SidrReqParams) -> Result<ConnId, CmError> {
        if params.max_cm_retries > CM_RETRIES_MAX {
            return Err(CmError::Invalid("more retries than the message has room for"));
        }
        let private_data = PrivateData::new(&params.private_data)?;
        if !self.devices.contains_key(&params.to.device) {
            return Err(CmError::NoDevice(params.to.device));
        }
        let id = self.create(params.to, params.service_id, None)?;
        let service_id = ServiceId(params.service_id);
        let req = SidrReq { request_id: id.0, pkey: params.pkey, service_id, private_data };
        let (tables, conn) = self.both(id)?;
        conn.timeout = Duration::from_millis(u64::from(params.timeout_ms));
        conn.max_cm_retries = params.max_cm_retries;
        tables.enter(now, conn, State::SidrReqSent);
        tables.ask(now, conn, req, 0);
        Ok(id)
    }

    /// Answers a SIDR request (`ib_send_cm_sidr_rep`). The connection that stood for the request is removed.
    pub fn send_sidr_rep(&mut self, now: Instant, conn: ConnId, params: &SidrRepParams) -> Done {
        self.allowed(conn, Input::SendSidrRep)?;
        let (tables, entry) = self.both(conn)?;
        let rep = SidrRep {
            status: params.status,
            info_len: params.info.len() as u8,
            vendor_id: params.ece.vendor_id,
            qpn: params.qpn,
            qkey: params.qkey,
            info: PrivateData::new(&params.info)?,
            private_data: PrivateData::new(&params.private_data)?,
            ..sidr_rep(entry)
        };
        tables.say_with(entry, rep, params.ece.attr_mod);
        self.remove(now, conn);
        Ok(())
    }

    pub(super) fn on_sidr_req(&mut self, rx: &Rx<'_>, req: &SidrReq) {
        if self.tables.remote_sidrs.contains_key(&(rx.from.dgid, req.request_id)) {
            self.tables.duplicate(rx.attr_id);
            return;
        }
        let Some(listen) = self.listeners.find(req.service_id.0) else {
            return self.refuse_sidr(rx, req, SidrStatus::UNSUPPORTED);
        };
        let room = self.tables.pending < PENDING_REQUESTS_MAX;
        let id = room.then(|| self.create(*rx.from, req.service_id.0, Some(rx.tid)).ok()).flatten();
        let Some(conn) = id.and_then(|id| self.conns.get_mut(&id)) else {
            self.tables.stats.rx_no_room += 1;
            return self.refuse_sidr(rx, req, SidrStatus::NO_QP);
        };
        self.tables.enter(rx.now, conn, State::SidrReqRcvd);
        conn.remote_comm_id = req.request_id;
        self.tables.remote_sidrs.insert((rx.from.dgid, req.request_id), conn.id);
        let (from, service_id, pkey) = (*rx.from, req.service_id.0, req.pkey);
        let received = SidrReqReceived { listen, from, service_id, pkey };
        self.tables.tell(conn, EventKind::SidrReqReceived(received), req.private_data.as_slice());
    }

    fn refuse_sidr(&mut self, rx: &Rx<'_>, req: &SidrReq, status: SidrStatus) {
        let (request_id, service_id) = (req.request_id, req.service_id);
        let rep = SidrRep { request_id, service_id, status, ..SidrRep::default() };
        self.tables.say_to_stranger(rx.from, rx.tid, rep);
    }

    pub(super) fn on_sidr_rep(&mut self, rx: &Rx<'_>, rep: &SidrRep) {
        let Some((tables, conn)) = self.find(rx, rep.request_id, 0) else { return };
        if tables.take(rx, conn, Input::RxSidrRep) {
            let info = rep.info.as_slice();
            let received = SidrRepReceived {
                from: *rx.from,
                status: rep.status,
                qpn: rep.qpn,
                qkey: rep.qkey,
                ece: Ece { vendor_id: rep.vendor_id, attr_mod: rx.attr_mod },
                info: info[..usize::from(rep.info_len).min(info.len())].to_vec(),
            };
            tables.tell(conn, EventKind::SidrRepReceived(received), rep.private_data.as_slice());
        }
    }
}

/// Builds an answer without contents.
pub(super) fn sidr_rep(conn: &Conn) -> SidrRep {
    SidrRep { request_id: conn.remote_comm_id, service_id: ServiceId(conn.service_id), ..SidrRep::default() }
}
