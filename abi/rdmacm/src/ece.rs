//! Enhanced connection establishment: vendor options in connection requests and replies. Weft's devices have none; the
//! library still carries the options that programs set and peers send.

use libc::c_int;
use weft_abi_types::{ibv_ece, ibv_qp, rdma_cm_id};

use crate::errors::{code, fail};
use crate::id::{Id, NO_ECE};
use crate::verbs::{ibv_query_ece, ibv_set_ece};

/// Sets the options to offer, for a program that manages its own queue pair.
pub unsafe extern "C" fn rdma_set_local_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    // SAFETY: the program's identifier and options, or null.
    unsafe {
        if id.is_null() || ece.is_null() || !(*id).qp.is_null() || (*ece).vendor_id == 0 || (*ece).comp_mask != 0 {
            return fail(libc::EINVAL);
        }
        let mut state = Id::of(id).state.lock();
        state.local_ece.vendor_id = (*ece).vendor_id;
        state.local_ece.options = (*ece).options;
    }
    0
}

/// Returns the options that the peer offered, or replied with.
pub unsafe extern "C" fn rdma_get_remote_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    // SAFETY: the program's identifier, and its place for the options, or null.
    unsafe {
        if id.is_null() || ece.is_null() || !(*id).qp.is_null() {
            return fail(libc::EINVAL);
        }
        let state = Id::of(id).state.lock();
        *ece = ibv_ece { comp_mask: 0, ..state.remote_ece };
    }
    code(Ok(()))
}

/// Returns the options of the queue pair's device; `None` if it has no options.
fn query(qp: *mut ibv_qp) -> Result<Option<ibv_ece>, c_int> {
    let mut ece = NO_ECE;
    // SAFETY: a queue pair just made, and a place for the options.
    match unsafe { ibv_query_ece(qp, &mut ece) } {
        0 => Ok(Some(ece)),
        libc::EOPNOTSUPP => Ok(None),
        errno => Err(errno),
    }
}

/// Prepares a new queue pair: offers its options or, after a request, sets those common to both ends.
pub(crate) fn begin(id: &Id, qp: *mut ibv_qp) -> Result<(), c_int> {
    let own = query(qp)?.unwrap_or(NO_ECE);
    let mut state = id.state.lock();
    state.local_ece.vendor_id = own.vendor_id;
    state.local_ece.options = own.options;
    if state.remote_ece.vendor_id == 0 {
        return Ok(());
    }
    let same = state.remote_ece.vendor_id == own.vendor_id;
    let options = if same { state.remote_ece.options } else { 0 };
    drop(state);
    let mut ece = ibv_ece { vendor_id: own.vendor_id, options, comp_mask: 0 };
    // SAFETY: as in `query`.
    match unsafe { ibv_set_ece(qp, &mut ece) } {
        0 | libc::EOPNOTSUPP => Ok(()),
        errno => Err(errno),
    }
}

/// After a request: replies with the options that the device accepted.
pub(crate) fn settle(id: &Id, qp: *mut ibv_qp) -> Result<(), c_int> {
    if id.state.lock().remote_ece.vendor_id == 0 {
        return Ok(());
    }
    let own = query(qp)?.unwrap_or(NO_ECE);
    id.state.lock().local_ece.options = own.options;
    Ok(())
}
