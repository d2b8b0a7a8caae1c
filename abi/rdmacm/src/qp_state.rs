//! State changes of an identifier's queue pair, which follows its connection: INIT when it is created, RTR and RTS when
//! the peer is known, ERR when the connection ends.

use libc::c_int;
use weft_abi_types::{
    IBV_QP_SQ_PSN, IBV_QP_STATE, IBV_QPS_ERR, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, RDMA_MAX_INIT_DEPTH,
    RDMA_MAX_RESP_RES, ibv_qp, ibv_qp_attr, ibv_qp_state,
};

use crate::errors::verbs;
use crate::id::Id;
use crate::qp_attr;
use crate::verbs::ibv_modify_qp;

/// Returns the queue pair, or null: programs may keep it to themselves.
fn qp_of(id: &Id) -> *mut ibv_qp {
    // SAFETY: a plain read of a pointer that the program's own calls set.
    unsafe { (*id.public()).qp }
}

fn modify(qp: *mut ibv_qp, attr: &mut ibv_qp_attr, mask: c_int) -> Result<(), c_int> {
    // SAFETY: a queue pair of the identifier, which the program does not destroy during the call.
    verbs(unsafe { ibv_modify_qp(qp, attr, mask) })
}

/// Moves to a state, with the connection's attributes for it.
fn follow(id: &Id, qp: *mut ibv_qp, state: ibv_qp_state, adapt: impl FnOnce(&mut ibv_qp_attr)) -> Result<(), c_int> {
    let (mut attr, mask) = qp_attr::of_connection(id, state)?;
    adapt(&mut attr);
    modify(qp, &mut attr, mask)
}

/// Moves to RTR, by way of INIT, because the rights that the connection grants the peer may have changed.
pub(crate) fn to_rtr(id: &Id, responder_resources: u8) -> Result<(), c_int> {
    let qp = qp_of(id);
    if qp.is_null() {
        return Ok(());
    }
    follow(id, qp, IBV_QPS_INIT, |_| {})?;
    follow(id, qp, IBV_QPS_RTR, |attr| {
        if responder_resources != RDMA_MAX_RESP_RES {
            attr.max_dest_rd_atomic = responder_resources;
        }
    })
}

/// Moves to RTS.
pub(crate) fn to_rts(id: &Id, initiator_depth: u8) -> Result<(), c_int> {
    let qp = qp_of(id);
    if qp.is_null() {
        return Ok(());
    }
    follow(id, qp, IBV_QPS_RTS, |attr| {
        if initiator_depth != RDMA_MAX_INIT_DEPTH {
            attr.max_rd_atomic = initiator_depth;
        }
    })
}

/// Moves to ERR, which flushes all posted work requests.
pub(crate) fn to_error(id: &Id) -> Result<(), c_int> {
    let qp = qp_of(id);
    if qp.is_null() {
        return Ok(());
    }
    let mut attr = qp_attr::none();
    attr.qp_state = IBV_QPS_ERR;
    modify(qp, &mut attr, IBV_QP_STATE as c_int)
}

/// Prepares a new queue pair of a connection: receives may be posted.
pub(crate) fn prepare(id: &Id, qp: *mut ibv_qp) -> Result<(), c_int> {
    follow(id, qp, IBV_QPS_INIT, |_| {})
}

/// Prepares a new queue pair for datagrams, which needs no peer.
pub(crate) fn prepare_ud(id: &Id, qp: *mut ibv_qp) -> Result<(), c_int> {
    prepare(id, qp)?;
    let mut attr = qp_attr::none();
    attr.qp_state = IBV_QPS_RTR;
    modify(qp, &mut attr, IBV_QP_STATE as c_int)?;
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = 0;
    modify(qp, &mut attr, (IBV_QP_STATE | IBV_QP_SQ_PSN) as c_int)
}
