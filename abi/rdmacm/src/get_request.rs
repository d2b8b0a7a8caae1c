//! Connection requests of listeners without a channel.

use libc::c_int;
use std::ptr::null_mut;
use weft_abi_types::{RDMA_CM_EVENT_CONNECT_REQUEST, rdma_cm_event, rdma_cm_id};

use crate::errors::{errno, fail};
use crate::event::{give_back, verdict};
use crate::get_event::rdma_get_cm_event;
use crate::id::Id;
use crate::qp::rdma_create_qp;

/// Returns the next connection request of a listener without a channel, with a queue pair if the listener has
/// attributes for one.
pub unsafe extern "C" fn rdma_get_request(listen: *mut rdma_cm_id, id: *mut *mut rdma_cm_id) -> c_int {
    if listen.is_null() || id.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: the program's listener, used by this call alone, and a place for the identifier.
    unsafe {
        let this = Id::of(listen);
        if !this.state.lock().sync {
            return fail(libc::EINVAL);
        }
        give_back(listen);
        let mut event: *mut rdma_cm_event = null_mut();
        if rdma_get_cm_event((*listen).channel, &mut event) != 0 {
            return -1;
        }
        match accept_request(this, event) {
            Ok(()) => {
                *id = (*event).id;
                (**id).event = event;
                0
            }
            Err(errno) => {
                (*listen).event = event;
                fail(errno)
            }
        }
    }
}

/// Checks that an event is a request, and gives its identifier the queue pair that the listener has attributes for.
unsafe fn accept_request(listener: &Id, event: *mut rdma_cm_event) -> Result<(), c_int> {
    // SAFETY: an event just fetched, whose identifier no other code knows yet.
    unsafe {
        verdict(event)?;
        if (*event).event != RDMA_CM_EVENT_CONNECT_REQUEST {
            return Err(libc::EINVAL);
        }
        let attr = listener.state.lock().qp_init_attr;
        let Some(mut attr) = attr else { return Ok(()) };
        let pd = (*listener.public()).pd;
        match rdma_create_qp((*event).id, pd, &mut attr) {
            0 => Ok(()),
            _ => Err(errno()),
        }
    }
}
