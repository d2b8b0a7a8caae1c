//! Conversions: parameters and connections to messages, messages to events.

use weft_mad::GmpAddress;
use weft_verbs::{Gid, Mtu, QpType};
use weft_wire::Psn;
use weft_wire::cm::Path as WirePath;
use weft_wire::cm::{
    Drep, Dreq, ExtendedTransport, LID_PERMISSIVE, Lap, MessageMraed, MessageRejected, Mra, PrivateData, Rej,
    RejectReason, Rep, Req, Rtu, ServiceId, TooLong, TransportService,
};

use super::conn::Conn;
use super::event::{RepReceived, ReqReceived};
use super::param::{CaInfo, Ece, ListenId, RepParams, ReqParams};
use super::path::{Path, ack_timeout};
use super::state::State;

/// Rejection of a request: reason, and additional information.
pub(super) type Refusal = (RejectReason, Vec<u8>);

/// Converts a path to the form of a REQ or LAP.
pub(super) fn wire_path(path: &Path, ack_delay: u8) -> WirePath {
    let subnet_local = path.hop_limit <= 1;
    WirePath {
        local_lid: if subnet_local { path.slid } else { LID_PERMISSIVE },
        remote_lid: if subnet_local { path.dlid } else { LID_PERMISSIVE },
        local_gid: path.sgid.0,
        remote_gid: path.dgid.0,
        flow_label: path.flow_label,
        packet_rate: path.rate,
        traffic_class: path.traffic_class,
        hop_limit: path.hop_limit,
        sl: path.sl,
        subnet_local,
        local_ack_timeout: ack_timeout(ack_delay, path.packet_life_time),
    }
}

/// Reverses the peer's path: it leads from here to there.
pub(super) fn path_back(path: &WirePath, pkey: u16, mtu: Mtu) -> Path {
    Path {
        sgid: Gid(path.remote_gid),
        dgid: Gid(path.local_gid),
        slid: path.remote_lid,
        dlid: path.local_lid,
        flow_label: path.flow_label,
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
        sl: path.sl,
        pkey,
        mtu,
        rate: path.packet_rate,
        packet_life_time: path.local_ack_timeout.saturating_sub(1),
    }
}

/// Returns the transport of a queue pair type.
fn transport(qp_type: QpType) -> Option<(TransportService, ExtendedTransport)> {
    match qp_type {
        QpType::Rc => Some((TransportService::RC, ExtendedTransport(0))),
        QpType::Uc => Some((TransportService::UC, ExtendedTransport(0))),
        QpType::XrcSend => Some((TransportService::EXTENDED, ExtendedTransport::XRC)),
        QpType::XrcRecv | QpType::Ud => None,
    }
}

/// Returns the queue pair type that a request requires on this side.
fn qp_type(req: &Req) -> Option<QpType> {
    match (req.transport_service, req.extended_transport) {
        (TransportService::RC, _) => Some(QpType::Rc),
        (TransportService::UC, _) => Some(QpType::Uc),
        (TransportService::EXTENDED, ExtendedTransport::XRC) => Some(QpType::XrcRecv),
        _ => None,
    }
}

/// Builds the REQ of these parameters; `None` if a queue pair of that type does not connect.
pub(super) fn req(comm_id: u32, ca: &CaInfo, params: &ReqParams) -> Option<Result<Req, TooLong>> {
    let (transport_service, extended_transport) = transport(params.qp_type)?;
    // An XRC initiator receives nothing, so these values are the target's.
    let receives = params.qp_type != QpType::XrcSend;
    Some(PrivateData::new(&params.private_data).map(|private_data| Req {
        local_comm_id: comm_id,
        vendor_id: params.ece.vendor_id,
        service_id: ServiceId(params.service_id),
        local_ca_guid: ca.node_guid,
        local_qpn: params.qpn,
        responder_resources: if receives { params.responder_resources } else { 0 },
        initiator_depth: params.initiator_depth,
        remote_cm_response_timeout: params.remote_cm_response_timeout,
        transport_service,
        end_to_end_flow_control: params.flow_control,
        starting_psn: Psn::new(params.starting_psn),
        local_cm_response_timeout: params.local_cm_response_timeout,
        retry_count: if receives { params.retry_count } else { 0 },
        pkey: params.primary.pkey,
        path_mtu: params.primary.mtu as u8,
        rnr_retry_count: if receives { params.rnr_retry_count } else { 0 },
        max_cm_retries: params.max_cm_retries,
        srq: receives && params.srq,
        extended_transport,
        primary: wire_path(&params.primary, ca.ack_delay),
        alternate: params.alternate.as_ref().map_or_else(WirePath::default, |path| wire_path(path, ca.ack_delay)),
        private_data,
        ..Req::default()
    }))
}

/// Builds the event of a REQ, or the reason why it cannot be served.
pub(super) fn req_received(
    from: &GmpAddress,
    req: &Req,
    attr_mod: u32,
    listen: Option<ListenId>,
) -> Result<ReqReceived, Refusal> {
    let qp_type = qp_type(req).ok_or_else(|| (RejectReason::INVALID_TRANSPORT_TYPE, Vec::new()))?;
    let mtu = Mtu::from_enum(u32::from(req.path_mtu));
    let mtu = mtu.ok_or_else(|| (RejectReason::INVALID_MTU, vec![(Mtu::Mtu4096 as u8) << 4]))?;
    let mut primary = path_back(&req.primary, req.pkey, mtu);
    if primary.dgid != from.dgid || primary.sgid != from.sgid {
        // The path must be the one that the request took: an answer along another would reach a stranger.
        return Err((RejectReason::INVALID_GID, from.sgid.0.to_vec()));
    }
    if from.hop_limit != 0 {
        primary.hop_limit = from.hop_limit;
    }
    Ok(ReqReceived {
        listen,
        from: *from,
        service_id: req.service_id.0,
        primary,
        alternate: req.alternate.is_present().then(|| path_back(&req.alternate, req.pkey, mtu)),
        remote_ca_guid: req.local_ca_guid,
        remote_qkey: req.local_qkey,
        remote_qpn: req.local_qpn,
        qp_type,
        starting_psn: req.starting_psn.value(),
        responder_resources: req.initiator_depth,
        initiator_depth: req.responder_resources,
        local_cm_response_timeout: req.remote_cm_response_timeout,
        remote_cm_response_timeout: req.local_cm_response_timeout,
        flow_control: req.end_to_end_flow_control,
        retry_count: req.retry_count,
        rnr_retry_count: req.rnr_retry_count,
        srq: req.srq,
        ece: Ece { vendor_id: req.vendor_id, attr_mod },
    })
}

/// Builds the REP of these parameters.
pub(super) fn rep(conn: &Conn, ca: &CaInfo, params: &RepParams) -> Result<Rep, TooLong> {
    let target = conn.qp_type == QpType::XrcRecv;
    Ok(Rep {
        local_comm_id: conn.id.0,
        remote_comm_id: conn.remote_comm_id,
        local_qkey: params.qkey,
        local_qpn: if target { 0 } else { params.qpn },
        local_eecn: if target { params.qpn } else { 0 },
        starting_psn: Psn::new(params.starting_psn),
        vendor_id: params.ece.vendor_id,
        responder_resources: params.responder_resources,
        initiator_depth: if target { 0 } else { params.initiator_depth },
        target_ack_delay: ca.ack_delay,
        failover: params.failover,
        end_to_end_flow_control: !target && params.flow_control,
        rnr_retry_count: params.rnr_retry_count,
        srq: target || params.srq,
        local_ca_guid: ca.node_guid,
        private_data: PrivateData::new(&params.private_data)?,
    })
}

/// Returns the peer's queue pair in a REP to a request of this type.
pub(super) fn rep_qpn(rep: &Rep, qp_type: QpType) -> u32 {
    if qp_type == QpType::XrcSend { rep.local_eecn } else { rep.local_qpn }
}

/// Builds the event of a REP.
pub(super) fn rep_received(rep: &Rep, attr_mod: u32, qp_type: QpType) -> RepReceived {
    RepReceived {
        remote_ca_guid: rep.local_ca_guid,
        remote_qkey: rep.local_qkey,
        remote_qpn: rep_qpn(rep, qp_type),
        starting_psn: rep.starting_psn.value(),
        responder_resources: rep.initiator_depth,
        initiator_depth: rep.responder_resources,
        target_ack_delay: rep.target_ack_delay,
        failover: rep.failover,
        flow_control: rep.end_to_end_flow_control,
        rnr_retry_count: rep.rnr_retry_count,
        srq: rep.srq,
        ece: Ece { vendor_id: rep.vendor_id, attr_mod },
    }
}

/// Builds an RTU.
pub(super) fn rtu(conn: &Conn, private_data: &[u8]) -> Result<Rtu, TooLong> {
    let private_data = PrivateData::new(private_data)?;
    Ok(Rtu { local_comm_id: conn.id.0, remote_comm_id: conn.remote_comm_id, private_data })
}

/// Builds an MRA for the message received last.
pub(super) fn mra(conn: &Conn, service_timeout: u8, private_data: &[u8]) -> Result<Mra, TooLong> {
    let message_mraed = match conn.state {
        State::ReqRcvd => MessageMraed::REQ,
        State::RepRcvd => MessageMraed::REP,
        _ => MessageMraed::LAP,
    };
    let private_data = PrivateData::new(private_data)?;
    Ok(Mra {
        local_comm_id: conn.id.0,
        remote_comm_id: conn.remote_comm_id,
        message_mraed,
        service_timeout,
        private_data,
    })
}

/// Builds a REJ for the current state of the connection. After a REQ the peer knows no id of this side, so the REJ
/// carries none.
pub(super) fn rej(conn: &Conn, reason: RejectReason, ari: &[u8], private_data: &[u8]) -> Result<Rej, TooLong> {
    let message_rejected = match conn.state {
        State::ReqRcvd | State::MraReqSent => MessageRejected::REQ,
        State::RepRcvd | State::MraRepSent => MessageRejected::REP,
        _ => MessageRejected::NONE,
    };
    Ok(Rej {
        local_comm_id: if conn.state == State::ReqRcvd { 0 } else { conn.id.0 },
        remote_comm_id: conn.remote_comm_id,
        message_rejected,
        reject_info_len: ari.len() as u8,
        reason,
        ari: PrivateData::new(ari)?,
        private_data: PrivateData::new(private_data)?,
    })
}

/// Builds a REJ for a peer without a connection.
pub(super) fn rej_stranger(local: u32, remote: u32, rejected: MessageRejected, refusal: &Refusal) -> Rej {
    let ari = PrivateData::new(&refusal.1).unwrap_or_default();
    Rej {
        local_comm_id: local,
        remote_comm_id: remote,
        message_rejected: rejected,
        reject_info_len: refusal.1.len() as u8,
        reason: refusal.0,
        ari,
        ..Rej::default()
    }
}

/// Builds a DREQ.
pub(super) fn dreq(conn: &Conn, private_data: &[u8]) -> Result<Dreq, TooLong> {
    Ok(Dreq {
        local_comm_id: conn.id.0,
        remote_comm_id: conn.remote_comm_id,
        remote_qpn: conn.remote_qpn,
        private_data: PrivateData::new(private_data)?,
    })
}

/// Builds a DREP.
pub(super) fn drep(conn: &Conn, private_data: &[u8]) -> Result<Drep, TooLong> {
    let private_data = PrivateData::new(private_data)?;
    Ok(Drep { local_comm_id: conn.id.0, remote_comm_id: conn.remote_comm_id, private_data })
}

/// Builds a LAP.
pub(super) fn lap(conn: &Conn, ca: &CaInfo, path: &Path, response: u8, private_data: &[u8]) -> Result<Lap, TooLong> {
    Ok(Lap {
        local_comm_id: conn.id.0,
        remote_comm_id: conn.remote_comm_id,
        remote_qpn: conn.remote_qpn,
        remote_cm_response_timeout: response,
        alternate: wire_path(path, ca.ack_delay),
        private_data: PrivateData::new(private_data)?,
    })
}
