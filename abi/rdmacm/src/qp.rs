//! Queue pairs of identifiers, with completion queues for queue pairs without their own.

use libc::c_int;
use std::ptr::null_mut;
use weft_abi_types::inlines::ibv_create_qp_ex;
use weft_abi_types::{
    IBV_QP_INIT_ATTR_PD, IBV_QP_INIT_ATTR_XRCD, IBV_QPT_XRC_RECV, ibv_pd, ibv_qp, ibv_qp_init_attr,
    ibv_qp_init_attr_ex, rdma_cm_id,
};

use crate::cqs;
use crate::ece;
use crate::errors::{code, fail, made};
use crate::id::Id;
use crate::qp_state;
use crate::verbs::ibv_destroy_qp;

/// Creates the identifier's queue pair. The identifier supplies omitted attributes: its protection domain, its shared
/// receive queue, completion queues with a channel each.
pub unsafe extern "C" fn rdma_create_qp_ex(id: *mut rdma_cm_id, qp_init_attr: *mut ibv_qp_init_attr_ex) -> c_int {
    if qp_init_attr.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: as the caller promises.
    code(unsafe { create(id, qp_init_attr) })
}

/// As [`rdma_create_qp_ex`], with fewer attributes.
pub unsafe extern "C" fn rdma_create_qp(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    qp_init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    if id.is_null() || qp_init_attr.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: the program's identifier, and its attributes, which receive the granted values.
    unsafe {
        let given = *qp_init_attr;
        let mut attr: ibv_qp_init_attr_ex = std::mem::zeroed();
        attr.qp_context = given.qp_context;
        attr.send_cq = given.send_cq;
        attr.recv_cq = given.recv_cq;
        attr.srq = given.srq;
        attr.cap = given.cap;
        attr.qp_type = given.qp_type;
        attr.sq_sig_all = given.sq_sig_all;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD;
        attr.pd = if pd.is_null() { (*id).pd } else { pd };
        let created = create(id, &mut attr);
        (*qp_init_attr).send_cq = attr.send_cq;
        (*qp_init_attr).recv_cq = attr.recv_cq;
        (*qp_init_attr).srq = attr.srq;
        (*qp_init_attr).cap = attr.cap;
        code(created)
    }
}

unsafe fn create(id: *mut rdma_cm_id, attr: *mut ibv_qp_init_attr_ex) -> Result<(), c_int> {
    // SAFETY: the program's identifier and attributes; all objects are alive.
    unsafe {
        let this = Id::of_argument(id)?;
        if !(*id).qp.is_null() || (*id).verbs.is_null() {
            return Err(libc::EINVAL);
        }
        complete_attributes(this, attr)?;
        let queue = |given: bool, own: bool, size: u32| if given || own { 0 } else { size };
        let send = queue(!(*attr).send_cq.is_null(), !(*id).send_cq.is_null(), (*attr).cap.max_send_wr);
        let recv = queue(!(*attr).recv_cq.is_null(), !(*id).recv_cq.is_null(), (*attr).cap.max_recv_wr);
        cqs::create(id, send, recv)?;
        if (*attr).send_cq.is_null() {
            (*attr).send_cq = (*id).send_cq;
        }
        if (*attr).recv_cq.is_null() {
            (*attr).recv_cq = (*id).recv_cq;
        }
        if (*attr).srq.is_null() {
            (*attr).srq = (*id).srq;
        }
        let created = made(ibv_create_qp_ex((*id).verbs, attr)).and_then(|qp| match prepare(this, qp) {
            Ok(()) => Ok(qp),
            Err(errno) => {
                ibv_destroy_qp(qp);
                Err(errno)
            }
        });
        match created {
            Ok(qp) => {
                (*id).pd = (*qp).pd;
                (*id).qp = qp;
                this.state.lock().qp_num = (*qp).qp_num;
                Ok(())
            }
            Err(errno) => {
                cqs::destroy(id);
                Err(errno)
            }
        }
    }
}

/// Fills in the domains, and checks the attributes against the identifier.
unsafe fn complete_attributes(this: &Id, attr: *mut ibv_qp_init_attr_ex) -> Result<(), c_int> {
    let id = this.public();
    // SAFETY: as in `create`.
    unsafe {
        if (*attr).comp_mask & IBV_QP_INIT_ATTR_PD == 0 || (*attr).pd.is_null() {
            (*attr).comp_mask |= IBV_QP_INIT_ATTR_PD;
            (*attr).pd = (*id).pd;
        } else if (*(*attr).pd).context != (*id).verbs {
            return Err(libc::EINVAL);
        }
        let (own_recv, own_send) = ((*id).recv_cq, (*id).send_cq);
        if (!own_recv.is_null() && !(*attr).recv_cq.is_null() && own_recv != (*attr).recv_cq)
            || (!own_send.is_null() && !(*attr).send_cq.is_null() && own_send != (*attr).send_cq)
        {
            return Err(libc::EINVAL);
        }
        if (*id).qp_type == IBV_QPT_XRC_RECV
            && ((*attr).comp_mask & IBV_QP_INIT_ATTR_XRCD == 0 || (*attr).xrcd.is_null())
        {
            (*attr).xrcd = this.device()?.xrcd()?;
            (*attr).comp_mask |= IBV_QP_INIT_ATTR_XRCD;
        }
    }
    Ok(())
}

/// Sets the options and the first state of a new queue pair.
fn prepare(id: &Id, qp: *mut ibv_qp) -> Result<(), c_int> {
    ece::begin(id, qp)?;
    if id.is_ud() {
        qp_state::prepare_ud(id, qp)?
    } else {
        qp_state::prepare(id, qp)?
    }
    ece::settle(id, qp)
}

/// Destroys the identifier's queue pair, and the completion queues created for it.
pub unsafe extern "C" fn rdma_destroy_qp(id: *mut rdma_cm_id) {
    if id.is_null() {
        return;
    }
    // SAFETY: the program's identifier.
    unsafe {
        Id::of(id).state.lock().qp_num = 0;
        let qp = std::mem::replace(&mut (*id).qp, null_mut());
        if !qp.is_null() {
            ibv_destroy_qp(qp);
        }
        cqs::destroy(id);
    }
}
