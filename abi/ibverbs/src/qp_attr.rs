//! Attributes of queue pairs, to and from C.

use libc::c_int;
use weft_abi_types::{IBV_MIG_MIGRATED, ibv_qp_attr, ibv_qp_cap};
use weft_verbs::{AddressVector, Mtu, QpAttr, QpAttrMask as Mask, QpCap, QpState};

use crate::ah::attr_of;
use crate::mr::access_of;
use crate::object::zeroed;

/// Converts sizes to the adapter's form.
pub(crate) fn cap_of(cap: &ibv_qp_cap) -> QpCap {
    QpCap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

/// Converts sizes to their C form.
pub(crate) fn cap_to_c(cap: &QpCap) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

/// Converts the attributes of `ibv_modify_qp`: reads only the fields that the mask names, as the others may be
/// uninitialised. `av` is the primary path, resolved.
pub(crate) fn attr_from_c(attr: &ibv_qp_attr, mask: Mask, av: Option<AddressVector>) -> Result<QpAttr, c_int> {
    let mut out = QpAttr::default();
    let given = |m: Mask| mask.contains(m);
    if given(Mask::STATE) {
        out.qp_state = QpState::from_enum(attr.qp_state).ok_or(libc::EINVAL)?;
    }
    if given(Mask::CUR_STATE) {
        out.cur_qp_state = QpState::from_enum(attr.cur_qp_state).ok_or(libc::EINVAL)?;
    }
    if given(Mask::PATH_MTU) {
        out.path_mtu = Mtu::from_enum(attr.path_mtu).ok_or(libc::EINVAL)?;
    }
    if given(Mask::ACCESS_FLAGS) {
        out.qp_access = access_of(attr.qp_access_flags)?;
    }
    if given(Mask::CAP) {
        out.cap = cap_of(&attr.cap);
    }
    macro_rules! copy {
        ($($bit:ident: $to:ident = $from:ident;)*) => {$(if given(Mask::$bit) { out.$to = attr.$from; })*};
    }
    copy! {
        PKEY_INDEX: pkey_index = pkey_index;
        PORT: port_num = port_num;
        QKEY: qkey = qkey;
        TIMEOUT: timeout = timeout;
        RETRY_CNT: retry_cnt = retry_cnt;
        RNR_RETRY: rnr_retry = rnr_retry;
        RQ_PSN: rq_psn = rq_psn;
        SQ_PSN: sq_psn = sq_psn;
        MAX_QP_RD_ATOMIC: max_rd_atomic = max_rd_atomic;
        MAX_DEST_RD_ATOMIC: max_dest_rd_atomic = max_dest_rd_atomic;
        MIN_RNR_TIMER: min_rnr_timer = min_rnr_timer;
        DEST_QPN: dest_qpn = dest_qp_num;
    }
    if given(Mask::EN_SQD_ASYNC_NOTIFY) {
        out.en_sqd_async_notify = attr.en_sqd_async_notify != 0;
    }
    out.av = av;
    Ok(out)
}

/// Converts attributes for `ibv_query_qp`; all of them, whatever the mask requests.
pub(crate) fn attr_to_c(attr: &QpAttr) -> ibv_qp_attr {
    let mut out: ibv_qp_attr = zeroed();
    out.qp_state = attr.qp_state as u32;
    out.cur_qp_state = attr.qp_state as u32;
    out.path_mtu = attr.path_mtu as u32;
    out.path_mig_state = IBV_MIG_MIGRATED;
    out.qkey = attr.qkey;
    out.rq_psn = attr.rq_psn;
    out.sq_psn = attr.sq_psn;
    out.dest_qp_num = attr.dest_qpn;
    out.qp_access_flags = attr.qp_access.bits();
    out.cap = cap_to_c(&attr.cap);
    if let Some(av) = &attr.av {
        out.ah_attr = attr_of(av);
    }
    out.pkey_index = attr.pkey_index;
    out.en_sqd_async_notify = u8::from(attr.en_sqd_async_notify);
    out.sq_draining = u8::from(attr.sq_draining);
    out.max_rd_atomic = attr.max_rd_atomic;
    out.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    out.min_rnr_timer = attr.min_rnr_timer;
    out.port_num = attr.port_num;
    out.timeout = attr.timeout;
    out.retry_cnt = attr.retry_cnt;
    out.rnr_retry = attr.rnr_retry;
    out
}
