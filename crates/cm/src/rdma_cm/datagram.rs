//! Datagram ids: SIDR messages resolve the queue pair behind a service; there is no connection.

use weft_wire::cm::SidrStatus;

use super::address::PortSpace;
use super::command::IdNumber;
use super::errno::{EINVAL, ETIMEDOUT, Errno};
use super::event::{EventKind, EventParam};
use super::id::{Id, State};
use super::message::{RESPONSE_TIMEOUT, RETRIES, ece_above, ece_below, gmp_address, pkey_of, route_of, with_header};
use super::param::{ConnParam, UdParam};
use super::route::ah_of_path;
use super::service::Service;
use crate::ib;

/// `RDMA_UDP_QKEY`: the default Q_Key.
pub const UDP_QKEY: u32 = 0x0123_4567;

/// Timeout of one request, in milliseconds: 2^20 × 4.096 µs, rounded as in Linux.
const REQUEST_TIMEOUT_MS: u32 = 1 << (RESPONSE_TIMEOUT - 8);

/// Returns the Q_Key of an id that names none.
pub fn default_qkey(port_space: PortSpace) -> u32 {
    match port_space {
        PortSpace::Udp | PortSpace::Ib | PortSpace::Ipoib => UDP_QKEY,
        PortSpace::Tcp => 0,
    }
}

/// Checks that an id may take a Q_Key: any, but only one.
fn take_qkey(id: &mut Id, qkey: u32) -> Result<(), Errno> {
    if qkey == 0 || (id.qkey != 0 && id.qkey != qkey) {
        return Err(EINVAL);
    }
    id.qkey = qkey;
    Ok(())
}

/// Builds a SIDR_REQ as Linux sends it.
pub fn sidr_request(id: &Id, param: &ConnParam) -> Result<ib::SidrReqParams, Errno> {
    let (attachment, path, dst) = route_of(id)?;
    Ok(ib::SidrReqParams {
        to: gmp_address(&attachment, &path),
        service_id: id.service_id(dst),
        pkey: pkey_of(&path),
        timeout_ms: REQUEST_TIMEOUT_MS,
        max_cm_retries: RETRIES,
        private_data: with_header(id, &param.private_data)?,
    })
}

/// Builds the answer that gives a queue pair. A Q_Key counts only for `AF_IB`, as in Linux.
pub fn sidr_reply(id: &mut Id, param: Option<&ConnParam>) -> Result<ib::SidrRepParams, Errno> {
    let own = param.map_or(0, |param| param.qkey);
    if id.family() == Some(super::Family::Ib) && own != 0 {
        take_qkey(id, own)?;
    } else {
        id.qkey = default_qkey(id.port_space);
    }
    Ok(ib::SidrRepParams {
        status: SidrStatus::SUCCESS,
        qpn: id.qp_num,
        qkey: id.qkey,
        ece: ece_below(id.ece),
        info: Vec::new(),
        private_data: param.map_or(Vec::new(), |param| param.private_data.clone()),
    })
}

/// Builds the answer that gives no queue pair.
pub fn sidr_refusal(private_data: &[u8]) -> ib::SidrRepParams {
    ib::SidrRepParams {
        status: SidrStatus::REJECT,
        private_data: private_data.to_vec(),
        ..ib::SidrRepParams::default()
    }
}

impl Service {
    /// Handles an answer.
    pub(super) fn on_sidr_reply(&mut self, number: IdNumber, reply: &ib::SidrRepReceived, private_data: Vec<u8>) {
        let Some(id) = self.ids.change(number).filter(|id| id.state == State::Connect) else { return };
        let mut ud = UdParam { private_data, ..UdParam::default() };
        if reply.status != SidrStatus::SUCCESS {
            self.emit(number, EventKind::Unreachable, reply.status.0.into(), EventParam::Ud(ud));
            return;
        }
        if let Err(errno) = take_qkey(id, reply.qkey) {
            self.emit(number, EventKind::AddrError, -errno, EventParam::Ud(ud));
            return;
        }
        ud.qp_num = reply.qpn;
        ud.qkey = reply.qkey;
        if let (Some(path), Some(attachment)) = (&id.path, id.attachment) {
            ud.ah_attr = ah_of_path(path, &attachment);
        }
        self.emit_ece(number, EventKind::Established, 0, EventParam::Ud(ud), ece_above(reply.ece));
    }

    /// Handles a missing answer.
    pub(super) fn on_sidr_silence(&mut self, number: IdNumber) {
        if self.ids.look(number).is_some_and(|id| id.state == State::Connect) {
            self.emit(number, EventKind::Unreachable, -ETIMEDOUT, EventParam::None);
        }
    }
}
