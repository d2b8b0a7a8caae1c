//! Attributes for modifying a queue pair (`rdma_init_qp_attr`), as negotiated by the connection.

use weft_mad::GmpAddress;
use weft_verbs::{Access, QpAttrMask, QpType};

use super::command::IdNumber;
use super::datagram::default_qkey;
use super::errno::{EINVAL, ENOENT, Errno};
use super::message::pkey_of;
use super::param::{AhAttr, QpAttributes};
use super::service::Service;
use super::streams::qp_attributes;
use crate::ib::QpParams;

/// Partition bits of a P_Key.
const PARTITION_MASK: u16 = 0x7fff;

/// Values of `enum ibv_qp_state`.
const INIT: u32 = 1;
const RTR: u32 = 2;
const RTS: u32 = 3;
const ERR: u32 = 6;

impl Service {
    /// `rdma_init_qp_attr`. Before there is a connection, and for datagrams, every state gets the attributes of INIT.
    pub(super) fn init_qp_attr(&mut self, number: IdNumber, qp_state: u32) -> Result<QpAttributes, Errno> {
        let (pkey_index, is_on_rnic) = (self.pkey_index(number)?, self.is_on_rnic(number));
        let is_within_host = is_on_rnic && self.is_peer_on_rnic(number);
        let id = self.ids.change(number).ok_or(ENOENT)?;
        if qp_state > ERR {
            return Err(EINVAL);
        }
        let port_num = id.attachment.map_or(1, |attachment| attachment.port);
        if is_on_rnic && !id.is_datagram() {
            return Ok(qp_attributes(port_num, qp_state, id.stream.is_some(), is_within_host));
        }
        let mut attributes = match id.conn {
            Some(conn) if !id.is_datagram() => {
                let agreed = self.ib.qp_params(conn).ok_or(EINVAL)?;
                agreed_attributes(&agreed, port_num, qp_state).ok_or(EINVAL)?
            }
            _ => {
                let mut attributes = first_attributes(port_num, qp_state);
                if id.is_datagram() {
                    id.qkey = default_qkey(id.port_space);
                    attributes.qkey = id.qkey;
                    attributes.mask |= QpAttrMask::QKEY.bits();
                } else {
                    attributes.mask |= QpAttrMask::ACCESS_FLAGS.bits();
                }
                attributes
            }
        };
        if attributes.mask & QpAttrMask::PKEY_INDEX.bits() != 0 {
            attributes.pkey_index = pkey_index;
        }
        if qp_state == RTR {
            attributes.rq_psn = id.starting_psn;
        }
        if let Some(timeout) = id.options.ack_timeout
            && attributes.mask & QpAttrMask::TIMEOUT.bits() != 0
        {
            attributes.timeout = timeout;
        }
        Ok(attributes)
    }

    /// Returns the index of the partition of an id's route in its device's P_Key table; full and limited membership
    /// match.
    fn pkey_index(&self, number: IdNumber) -> Result<u16, Errno> {
        let id = self.ids.look(number).ok_or(ENOENT)?;
        let attachment = id.attachment.ok_or(EINVAL)?;
        let (Some(path), Some(entry)) = (&id.path, self.devices.look(attachment.place())) else { return Ok(0) };
        let wanted = pkey_of(path) & PARTITION_MASK;
        let found = entry.device.pkeys.iter().position(|pkey| pkey & PARTITION_MASK == wanted);
        Ok(found.and_then(|index| u16::try_from(index).ok()).unwrap_or(0))
    }
}

fn first_attributes(port_num: u8, qp_state: u32) -> QpAttributes {
    let mask = QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT;
    QpAttributes { mask: mask.bits(), qp_state, port_num, ..QpAttributes::default() }
}

/// `ib_cm_init_qp_attr`: `None` for states of the connection, or of the queue pair, without attributes.
fn agreed_attributes(agreed: &QpParams, port_num: u8, qp_state: u32) -> Option<QpAttributes> {
    let mut attributes = QpAttributes { qp_state, port_num, ..QpAttributes::default() };
    let reads = agreed.responder_resources != 0;
    let requester = matches!(agreed.qp_type, QpType::Rc | QpType::XrcSend);
    let responder = matches!(agreed.qp_type, QpType::Rc | QpType::XrcRecv);
    let mask = match qp_state {
        INIT if agreed.may_init => {
            let mut access = Access::REMOTE_WRITE;
            if reads {
                // FLUSH too, as Linux does where the adapter supports it: its acknowledgement is a response.
                access |= Access::REMOTE_READ | Access::REMOTE_ATOMIC | Access::FLUSH_GLOBAL | Access::FLUSH_PERSISTENT;
            }
            attributes.qp_access_flags = access.bits();
            QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::ACCESS_FLAGS
        }
        RTR if agreed.may_rtr => {
            attributes.ah_attr = ah_of_address(&agreed.address);
            attributes.path_mtu = agreed.path_mtu as u8;
            attributes.dest_qp_num = agreed.remote_qpn;
            attributes.rq_psn = agreed.rq_psn;
            attributes.max_dest_rd_atomic = agreed.responder_resources;
            let of_responder = match responder {
                true => QpAttrMask::MAX_DEST_RD_ATOMIC | QpAttrMask::MIN_RNR_TIMER,
                false => QpAttrMask::empty(),
            };
            of_responder
                | QpAttrMask::STATE
                | QpAttrMask::AV
                | QpAttrMask::PATH_MTU
                | QpAttrMask::DEST_QPN
                | QpAttrMask::RQ_PSN
        }
        RTS if agreed.may_rts => {
            attributes.sq_psn = agreed.sq_psn;
            attributes.retry_cnt = agreed.retry_count;
            attributes.rnr_retry = agreed.rnr_retry_count;
            attributes.max_rd_atomic = agreed.initiator_depth;
            attributes.timeout = agreed.timeout;
            let mut mask = QpAttrMask::STATE | QpAttrMask::SQ_PSN;
            if requester {
                mask |= QpAttrMask::RETRY_CNT | QpAttrMask::RNR_RETRY | QpAttrMask::MAX_QP_RD_ATOMIC;
            }
            if requester || responder {
                mask |= QpAttrMask::TIMEOUT;
            }
            mask
        }
        _ => return None,
    };
    attributes.mask = mask.bits();
    Some(attributes)
}

fn ah_of_address(address: &GmpAddress) -> AhAttr {
    AhAttr {
        dgid: address.dgid.0,
        flow_label: address.flow_label,
        sgid_index: address.sgid_index,
        hop_limit: address.hop_limit,
        traffic_class: address.traffic_class,
        dlid: address.dlid,
        sl: address.sl,
        is_global: address.is_global(),
        port_num: address.port,
        ..AhAttr::default()
    }
}
