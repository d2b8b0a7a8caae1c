//! Shared receive queues of identifiers.

use libc::c_int;
use std::ptr::null_mut;
use weft_abi_types::inlines::ibv_create_srq_ex;
use weft_abi_types::{
    IBV_QPT_XRC_RECV, IBV_SRQ_INIT_ATTR_CQ, IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQ_INIT_ATTR_XRCD,
    IBV_SRQT_BASIC, IBV_SRQT_XRC, ibv_pd, ibv_srq_init_attr, ibv_srq_init_attr_ex, rdma_cm_id,
};

use crate::cqs;
use crate::errors::{code, fail, made};
use crate::id::Id;
use crate::verbs::ibv_destroy_srq;

/// Creates the identifier's shared receive queue. The identifier supplies omitted attributes.
pub unsafe extern "C" fn rdma_create_srq_ex(id: *mut rdma_cm_id, attr: *mut ibv_srq_init_attr_ex) -> c_int {
    if attr.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: as the caller promises.
    code(unsafe { create(id, attr) })
}

/// As [`rdma_create_srq_ex`], of the type that the identifier's queue pairs need.
pub unsafe extern "C" fn rdma_create_srq(id: *mut rdma_cm_id, pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> c_int {
    if id.is_null() || attr.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: the program's identifier, and its attributes, which receive the granted values.
    unsafe {
        let mut more: ibv_srq_init_attr_ex = std::mem::zeroed();
        more.srq_context = (*attr).srq_context;
        more.attr = (*attr).attr;
        more.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
        more.srq_type = if (*id).qp_type == IBV_QPT_XRC_RECV { IBV_SRQT_XRC } else { IBV_SRQT_BASIC };
        more.pd = pd;
        let created = create(id, &mut more);
        (*attr).attr = more.attr;
        code(created)
    }
}

unsafe fn create(id: *mut rdma_cm_id, attr: *mut ibv_srq_init_attr_ex) -> Result<(), c_int> {
    // SAFETY: the program's identifier and attributes; all objects are alive.
    unsafe {
        let this = Id::of_argument(id)?;
        if (*attr).comp_mask & IBV_SRQ_INIT_ATTR_TYPE == 0 || (*id).verbs.is_null() {
            return Err(libc::EINVAL);
        }
        if (*attr).comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 || (*attr).pd.is_null() {
            (*attr).pd = (*id).pd;
            (*attr).comp_mask |= IBV_SRQ_INIT_ATTR_PD;
        }
        if (*attr).srq_type == IBV_SRQT_XRC {
            if (*attr).comp_mask & IBV_SRQ_INIT_ATTR_XRCD == 0 || (*attr).xrcd.is_null() {
                (*attr).xrcd = this.device()?.xrcd()?;
            }
            if (*attr).comp_mask & IBV_SRQ_INIT_ATTR_CQ == 0 || (*attr).cq.is_null() {
                cqs::create(id, 0, (*attr).attr.max_wr)?;
                (*attr).cq = (*id).recv_cq;
            }
            (*attr).comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
        }
        match made(ibv_create_srq_ex((*id).verbs, attr)) {
            Ok(srq) => {
                if (*id).pd.is_null() {
                    (*id).pd = (*attr).pd;
                }
                (*id).srq = srq;
                Ok(())
            }
            Err(errno) => {
                cqs::destroy(id);
                Err(errno)
            }
        }
    }
}

/// Destroys the identifier's shared receive queue, and the completion queues created for it.
pub unsafe extern "C" fn rdma_destroy_srq(id: *mut rdma_cm_id) {
    if id.is_null() {
        return;
    }
    // SAFETY: the program's identifier.
    unsafe {
        let srq = std::mem::replace(&mut (*id).srq, null_mut());
        if !srq.is_null() {
            ibv_destroy_srq(srq);
        }
        cqs::destroy(id);
    }
}
