//! Connection commands of programs: `rdma_connect`, `rdma_accept`, `rdma_reject`, `rdma_disconnect` and `rdma_notify`.

use weft_verbs::Instant;
use weft_wire::cm::RejectReason;

use super::command::IdNumber;
use super::datagram;
use super::errno::{EINVAL, ENOENT, Errno};
use super::id::State;
use super::limits::PRIVATE_DATA_BYTES_MAX;
use super::message::{reply, request};
use super::param::{ConnParam, Ece};
use super::service::Service;
use crate::ib;

/// Bits of a queue pair number.
const QPN_MASK: u32 = 0xff_ffff;

/// `IBV_EVENT_COMM_EST`.
const EVENT_COMM_EST: u32 = 4;

impl Service {
    /// `rdma_connect`.
    pub(super) fn connect(&mut self, now: Instant, number: IdNumber, param: ConnParam, ece: Ece) -> Result<(), Errno> {
        check_private_data(&param.private_data)?;
        let id = self.ids.change(number).ok_or(ENOENT)?;
        if id.attachment.is_none() || id.state != State::RouteResolved {
            return Err(EINVAL);
        }
        id.qp_num = param.qp_num & QPN_MASK;
        id.srq = param.srq;
        id.ece = ece;
        if self.is_on_rnic(number) {
            return self.connect_stream(now, number, param);
        }
        let id = self.ids.change(number).ok_or(ENOENT)?;
        let conn = if id.is_datagram() {
            let params = datagram::sidr_request(id, &param)?;
            self.ib.send_sidr_req(now, &params).map_err(errno_of)?
        } else {
            let params = request(id, &param)?;
            self.ib.send_req(now, &params).map_err(errno_of)?
        };
        id.conn = Some(conn);
        id.state = State::Connect;
        self.owners.insert(conn, number);
        self.drain(now);
        Ok(())
    }

    /// `rdma_accept`: answers a request, or, without parameters, confirms an answer. If that fails, the peer gets a
    /// reject.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        number: IdNumber,
        cookie: u64,
        param: Option<ConnParam>,
        ece: Ece,
    ) -> Result<(), Errno> {
        if let Some(param) = &param {
            check_private_data(&param.private_data)?;
        }
        let id = self.ids.change(number).ok_or(ENOENT)?;
        if id.stream.is_some() {
            if let Some(param) = &param {
                id.qp_num = param.qp_num & QPN_MASK;
            }
            return self.accept_stream(now, number, cookie, param);
        }
        let conn = id.conn.filter(|_| id.attachment.is_some() && id.state == State::Connect).ok_or(EINVAL)?;
        id.ece = ece;
        if let Some(param) = &param {
            id.qp_num = param.qp_num & QPN_MASK;
            id.srq = param.srq;
        }
        let answered = match &param {
            _ if id.is_datagram() => {
                let params = datagram::sidr_reply(id, param.as_ref());
                params.and_then(|params| self.ib.send_sidr_rep(now, conn, &params).map_err(errno_of))
            }
            Some(param) => self.ib.send_rep(now, conn, &reply(id, param)).map_err(errno_of),
            None => self.ib.send_rtu(now, conn, &[]).map_err(errno_of),
        };
        if answered.is_err() {
            // If the reject fails, the connection is gone already.
            let _ = self.send_reject(now, number, &[], RejectReason::CONSUMER_DEFINED);
        } else if let Some(id) = self.ids.change(number)
            && param.is_some()
            && cookie != 0
        {
            id.cookie = Some(cookie);
        }
        self.drain(now);
        answered
    }

    /// `rdma_reject`.
    pub(super) fn reject(
        &mut self,
        now: Instant,
        number: IdNumber,
        private_data: &[u8],
        reason: u8,
    ) -> Result<(), Errno> {
        check_private_data(private_data)?;
        if let Some(conn) = self.ids.look(number).and_then(|id| id.stream) {
            return self.reject_stream(now, conn, private_data);
        }
        let reason = match u16::from(reason) {
            0 => RejectReason::CONSUMER_DEFINED,
            reason => RejectReason(reason),
        };
        if reason != RejectReason::CONSUMER_DEFINED && reason != RejectReason::VENDOR_OPTION_NOT_SUPPORTED {
            return Err(EINVAL);
        }
        let rejected = self.send_reject(now, number, private_data, reason);
        self.drain(now);
        rejected
    }

    fn send_reject(
        &mut self,
        now: Instant,
        number: IdNumber,
        private_data: &[u8],
        reason: RejectReason,
    ) -> Result<(), Errno> {
        let id = self.ids.look(number).ok_or(ENOENT)?;
        let conn = id.conn.filter(|_| id.attachment.is_some()).ok_or(EINVAL)?;
        if id.is_datagram() {
            let params = datagram::sidr_refusal(private_data);
            return self.ib.send_sidr_rep(now, conn, &params).map_err(errno_of);
        }
        self.ib.send_rej(now, conn, reason, &[], private_data).map_err(errno_of)
    }

    /// `rdma_disconnect`: asks the peer to end the connection, or confirms the peer's request. Succeeds also if the
    /// connection cannot be ended.
    pub(super) fn disconnect(&mut self, now: Instant, number: IdNumber) -> Result<(), Errno> {
        let id = self.ids.look(number).ok_or(ENOENT)?;
        if self.is_on_rnic(number) {
            id.stream.into_iter().for_each(|conn| self.disconnect_stream(conn));
            return Ok(());
        }
        let conn = id.conn.filter(|_| id.attachment.is_some()).ok_or(EINVAL)?;
        if !id.is_datagram() && self.ib.send_dreq(now, conn, &[]).is_err() {
            let _ = self.ib.send_drep(now, conn, &[]);
        }
        self.drain(now);
        Ok(())
    }

    /// `rdma_notify`: a packet arrived before the message that establishes the connection.
    pub(super) fn notify(&mut self, now: Instant, number: IdNumber, event: u32) -> Result<(), Errno> {
        let id = self.ids.look(number).ok_or(ENOENT)?;
        let conn = id.conn.filter(|_| id.attachment.is_some()).ok_or(EINVAL)?;
        if event != EVENT_COMM_EST || id.is_datagram() {
            return Err(EINVAL);
        }
        self.ib.establish(now, conn).map_err(errno_of)?;
        self.drain(now);
        Ok(())
    }

    /// Releases the underlying connection, which informs the peer, and the service that an id listens to.
    pub(super) fn drop_connection(&mut self, now: Instant, number: IdNumber) {
        let Some(id) = self.ids.change(number) else { return };
        let (conn, stream, service) = (id.conn.take(), id.stream.take(), id.service.take());
        stream.into_iter().for_each(|stream| self.drop_stream(stream));
        if let Some(conn) = conn
            && self.owners.remove(&conn).is_some()
        {
            self.ib.destroy(now, conn);
            self.drain(now);
        }
        if let Some(service) = service {
            // The service is listened to, so `unlisten` cannot fail.
            let _ = self.ib.unlisten(service);
        }
    }
}

fn check_private_data(data: &[u8]) -> Result<(), Errno> {
    if data.len() > PRIVATE_DATA_BYTES_MAX { Err(EINVAL) } else { Ok(()) }
}

/// Returns the errno of an error of the layer below.
pub fn errno_of(error: ib::CmError) -> Errno {
    error.errno()
}
