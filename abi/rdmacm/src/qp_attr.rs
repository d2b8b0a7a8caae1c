//! Queue pair attributes that the daemon determines for a connection.

use libc::c_int;
use weft_abi_types::{ibv_ah_attr, ibv_gid, ibv_global_route, ibv_qp_attr, rdma_cm_id};
use weft_cm::rdma_cm::{AhAttr, Command, QpAttributes, Reply};

use crate::errors::{code, fail};
use crate::id::Id;

/// Converts an address to the form of verbs.
pub(crate) fn ah_attr(from: &AhAttr) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: from.dgid },
            flow_label: from.flow_label,
            sgid_index: from.sgid_index,
            hop_limit: from.hop_limit,
            traffic_class: from.traffic_class,
        },
        dlid: from.dlid,
        sl: from.sl,
        src_path_bits: from.src_path_bits,
        static_rate: from.static_rate,
        is_global: from.is_global.into(),
        port_num: from.port_num,
    }
}

/// Returns empty attributes.
pub(crate) fn none() -> ibv_qp_attr {
    // SAFETY: a structure of numbers, for all of which zero is a value.
    unsafe { std::mem::zeroed() }
}

fn attr(from: &QpAttributes) -> ibv_qp_attr {
    ibv_qp_attr {
        qp_state: from.qp_state,
        path_mtu: from.path_mtu.into(),
        path_mig_state: from.path_mig_state.into(),
        qkey: from.qkey,
        rq_psn: from.rq_psn,
        sq_psn: from.sq_psn,
        dest_qp_num: from.dest_qp_num,
        qp_access_flags: from.qp_access_flags,
        ah_attr: ah_attr(&from.ah_attr),
        pkey_index: from.pkey_index,
        max_rd_atomic: from.max_rd_atomic,
        max_dest_rd_atomic: from.max_dest_rd_atomic,
        min_rnr_timer: from.min_rnr_timer,
        port_num: from.port_num,
        timeout: from.timeout,
        retry_cnt: from.retry_cnt,
        rnr_retry: from.rnr_retry,
        ..none()
    }
}

/// Returns the attributes for a state, and the mask of the valid ones.
pub(crate) fn of_connection(id: &Id, qp_state: u32) -> Result<(ibv_qp_attr, c_int), c_int> {
    match id.ask(Command::InitQpAttr { id: id.number, qp_state })? {
        Reply::QpAttributes(from) => Ok((attr(&from), from.mask as c_int)),
        _ => Err(libc::EPROTO),
    }
}

/// Returns the attributes that move a queue pair to `qp_attr->qp_state`, for programs that do this themselves.
pub unsafe extern "C" fn rdma_init_qp_attr(
    id: *mut rdma_cm_id,
    qp_attr: *mut ibv_qp_attr,
    qp_attr_mask: *mut c_int,
) -> c_int {
    if qp_attr.is_null() || qp_attr_mask.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: the program's identifier, and its places for the answer.
    unsafe {
        let state = (*qp_attr).qp_state;
        code(Id::of_argument(id).and_then(|this| of_connection(this, state)).map(|(attr, mask)| {
            *qp_attr = attr;
            *qp_attr_mask = mask;
        }))
    }
}
