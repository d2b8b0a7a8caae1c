//! Messages of connected ids, with the values that Linux's `cma.c` puts into them.

use weft_mad::GmpAddress;
use weft_verbs::{Gid, GidType, Mtu, QpType};
use weft_wire::cm::{Failover, IpCmHeader, IpPair};

use super::address::SockAddr;
use super::command::RoceMode;
use super::errno::{EINVAL, Errno};
use super::id::{Attachment, Id, QPT_RC, QPT_UC, QPT_XRC_RECV, QPT_XRC_SEND};
use super::param::{ConnParam, Ece, PathRecord};
use super::route::PKEY_DEFAULT;
use crate::ib;

/// Time in which either side must answer: 4.096 µs × 2^20, about four seconds.
pub const RESPONSE_TIMEOUT: u8 = 20;

/// Number of repeats of a message.
pub const RETRIES: u8 = 15;

/// Largest retry count in three bits.
const RETRY_COUNT_MAX: u8 = 7;

/// Builds a REQ as Linux sends it.
pub fn request(id: &Id, param: &ConnParam) -> Result<ib::ReqParams, Errno> {
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
pub fn reply(id: &Id, param: &ConnParam) -> ib::RepParams {
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
fn qp_type(number: u8) -> Option<QpType> {
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
