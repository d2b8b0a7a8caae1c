//! The peer's acceptance of a connection, which the queue pair follows.

use libc::c_int;
use weft_abi_types::{RDMA_MAX_INIT_DEPTH, RDMA_MAX_RESP_RES, ibv_ece};
use weft_cm::rdma_cm::{Command, Ece};

use crate::id::Id;
use crate::qp_state;
use crate::verbs::{ibv_query_ece, ibv_set_ece};

/// Handles the peer's acceptance: applies its options and parameters to the queue pair, and notifies the peer.
pub(crate) fn follow(id: &Id, offered: &Ece) -> Result<(), c_int> {
    let vendor_id = id.state.lock().local_ece.vendor_id;
    let mut ece = ibv_ece { vendor_id, options: 0, comp_mask: 0 };
    if offered.vendor_id != 0 {
        if offered.vendor_id != vendor_id {
            let _ = qp_state::to_error(id);
            return Err(libc::EINVAL);
        }
        ece.options = offered.attr_mod;
    }
    id.state.lock().remote_ece.vendor_id = offered.vendor_id;
    // SAFETY: the identifier's queue pair: it is not null here, and the program does not destroy it during the call.
    let qp = unsafe { (*id.public()).qp };
    // SAFETY: as above.
    tolerate(unsafe { ibv_set_ece(qp, &mut ece) })?;
    complete(id)?;
    // SAFETY: as above.
    let options = match unsafe { ibv_query_ece(qp, &mut ece) } {
        0 => ece.options,
        libc::EOPNOTSUPP => 0,
        errno => {
            let _ = qp_state::to_error(id);
            return Err(errno);
        }
    };
    id.state.lock().local_ece.options = options;
    Ok(())
}

/// Accepts a device without options.
fn tolerate(errno: c_int) -> Result<(), c_int> {
    if errno == 0 || errno == libc::EOPNOTSUPP { Ok(()) } else { Err(errno) }
}

/// Moves the queue pair, if there is one, to RTS, and notifies the peer.
pub(crate) fn complete(id: &Id) -> Result<(), c_int> {
    let told = qp_state::to_rtr(id, RDMA_MAX_RESP_RES)
        .and_then(|()| qp_state::to_rts(id, RDMA_MAX_INIT_DEPTH))
        .and_then(|()| {
            let ece = Ece::default();
            id.order(Command::Accept { id: id.number, cookie: 0, param: None, ece })
        });
    if told.is_err() {
        let _ = qp_state::to_error(id);
    }
    told
}
