//! Connection commands of programs: `rdma_connect`, `rdma_accept`, `rdma_reject`, `rdma_disconnect` and `rdma_notify`,
//! with the values that Linux's `cma.c` puts into the messages.

use weft_mad::GmpAddress;
use weft_verbs::{Gid, GidType, Instant, Mtu, QpType};
use weft_wire::cm::{Failover, IpCmHeader, IpPair, RejectReason};

use super::address::SockAddr;
use super::command::{IdNumber, RoceMode};
use super::datagram;
use super::errno::{EINVAL, ENOENT, Errno};
use super::id::{Attachment, Id, QPT_RC, QPT_UC, QPT_XRC_RECV, QPT_XRC_SEND, State};
use super::limits::PRIVATE_DATA_BYTES_MAX;
use super::param::{ConnParam, Ece, PathRecord};
use super::route::PKEY_DEFAULT;
use super::service::Service;
use crate::ib;

/// Time in which either side must answer: 4.096 µs × 2^20, about four seconds.
pub const RESPONSE_TIMEOUT: u8 = 20;

/// Number of repeats of a message.
pub const RETRIES: u8 = 15;

/// Largest retry count in three bits.
const RETRY_COUNT_MAX: u8 = 7;

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
        let (conn, service) = (id.conn.take(), id.service.take());
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

/// Builds a REQ as Linux sends it.
fn request(id: &Id, param: &ConnParam) -> Result<ib::ReqParams, Errno> {
    let (attachment, path, dst) = route_of(id)?;
    Ok(ib::ReqParams {
        to: gmp_address(&attachment, &path),
        service_id: id.service_id(dst),
        primary: ib_path(&path)?,
        alternate: None,
        qpn: id.qp_num,
        qp_type: qp_type(id.qp_type).ok_or(EINVAL)?,
        starting_psn: id.starting_psn,
        responder_resources: param.responder_resources,
        initiator_depth: param.initiator_depth,
        flow_control: param.flow_control != 0,
        retry_count: param.retry_count.min(RETRY_COUNT_MAX),
        rnr_retry_count: param.rnr_retry_count.min(RETRY_COUNT_MAX),
        srq: id.srq,
        remote_cm_response_timeout: RESPONSE_TIMEOUT,
        local_cm_response_timeout: RESPONSE_TIMEOUT,
        max_cm_retries: RETRIES,
        peer_to_peer: false,
        ece: ece_below(id.ece),
        private_data: with_header(id, &param.private_data)?,
    })
}

/// Builds a REP as Linux sends it.
fn reply(id: &Id, param: &ConnParam) -> ib::RepParams {
    ib::RepParams {
        qpn: id.qp_num,
        qkey: 0,
        starting_psn: id.starting_psn,
        responder_resources: param.responder_resources,
        initiator_depth: param.initiator_depth,
        failover: Failover::ACCEPTED,
        flow_control: param.flow_control != 0,
        rnr_retry_count: param.rnr_retry_count.min(RETRY_COUNT_MAX),
        srq: id.srq,
        ece: ece_below(id.ece),
        private_data: param.private_data.clone(),
    }
}

/// Returns the parts of a connected route.
pub fn route_of(id: &Id) -> Result<(Attachment, PathRecord, SockAddr), Errno> {
    match (id.attachment, id.path, id.dst) {
        (Some(attachment), Some(path), Some(dst)) => Ok((attachment, path, dst)),
        _ => Err(EINVAL),
    }
}

/// Returns the private data of a request: after the header with the addresses of both ends, except for `AF_IB`.
pub fn with_header(id: &Id, data: &[u8]) -> Result<Vec<u8>, Errno> {
    let (src, dst) = (id.src.ok_or(EINVAL)?, id.dst.ok_or(EINVAL)?);
    let addresses = match (src, dst) {
        (SockAddr::V4 { addr: src, .. }, SockAddr::V4 { addr: dst, .. }) => IpPair::V4(src, dst),
        (SockAddr::V6 { addr: src, .. }, SockAddr::V6 { addr: dst, .. }) => IpPair::V6(src, dst),
        (SockAddr::Ib(_), SockAddr::Ib(_)) => return Ok(data.to_vec()),
        _ => return Err(EINVAL),
    };
    let header = IpCmHeader { source_port: src.port(), addresses };
    Ok([&header.encode()[..], data].concat())
}

/// Returns the destination of messages along a route.
pub fn gmp_address(attachment: &Attachment, path: &PathRecord) -> GmpAddress {
    GmpAddress {
        device: attachment.device,
        port: attachment.port,
        sgid_index: attachment.sgid_index,
        sgid: Gid(attachment.sgid),
        gid_type: match attachment.mode {
            RoceMode::V1 => GidType::IbOrRoceV1,
            RoceMode::V2 => GidType::RoceV2,
        },
        dgid: Gid(path.dgid),
        dlid: path.dlid,
        remote_qpn: 1,
        pkey: pkey_of(path),
        sl: path.sl,
        traffic_class: path.traffic_class,
        flow_label: path.flow_label,
        hop_limit: path.hop_limit,
        ifindex: attachment.ifindex,
    }
}

/// Returns the partition of a route's messages. RoCE has only one, whatever a program put into its path.
pub fn pkey_of(path: &PathRecord) -> u16 {
    if path.dlid == 0 { PKEY_DEFAULT } else { path.pkey }
}

fn ib_path(path: &PathRecord) -> Result<ib::Path, Errno> {
    Ok(ib::Path {
        sgid: Gid(path.sgid),
        dgid: Gid(path.dgid),
        slid: path.slid,
        dlid: path.dlid,
        flow_label: path.flow_label,
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
        sl: path.sl,
        pkey: path.pkey,
        mtu: Mtu::from_enum(path.mtu.into()).ok_or(EINVAL)?,
        rate: path.rate,
        packet_life_time: path.packet_life_time,
    })
}

/// Converts the type of a connected queue pair.
pub fn qp_type(number: u8) -> Option<QpType> {
    match number {
        QPT_RC => Some(QpType::Rc),
        QPT_UC => Some(QpType::Uc),
        QPT_XRC_SEND => Some(QpType::XrcSend),
        QPT_XRC_RECV => Some(QpType::XrcRecv),
        _ => None,
    }
}

/// Converts options to the type of the layer below.
pub fn ece_below(ece: Ece) -> ib::Ece {
    ib::Ece { vendor_id: ece.vendor_id, attr_mod: ece.attr_mod }
}

/// Converts options from the type of the layer below.
pub fn ece_above(ece: ib::Ece) -> Ece {
    Ece { vendor_id: ece.vendor_id, attr_mod: ece.attr_mod }
}
