//! Calls on identifiers without a channel: each waits for the event that completes it.

use libc::c_int;
use std::ptr::null_mut;
use weft_abi_types::{rdma_cm_event, rdma_cm_id};

use crate::event::{give_back, verdict};
use crate::get_event::rdma_get_cm_event;
use crate::id::Id;

/// Waits, for an identifier without a channel, for the event that completes a call, and returns its result.
pub(crate) unsafe fn complete(id: *mut rdma_cm_id) -> Result<(), c_int> {
    // SAFETY: the caller passes an identifier of ours; its event belongs to the current call.
    unsafe {
        if !Id::of(id).state.lock().sync {
            return Ok(());
        }
        give_back(id);
        let mut event: *mut rdma_cm_event = null_mut();
        if rdma_get_cm_event((*id).channel, &mut event) != 0 {
            return Err(crate::errors::errno());
        }
        (*id).event = event;
        verdict(event)
    }
}
