//! Completion events: waiting for them, and acknowledging them.

use libc::{c_int, c_uint, c_void};
use weft_abi_types::{ibv_comp_channel, ibv_cq};

use crate::channel::CHANNELS;
use crate::cq::Cq;
use crate::errors::fail_minus_one;
use crate::object::acknowledge;

/// Takes the next event, waiting for one unless the descriptor is O_NONBLOCK.
pub unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    if channel.is_null() || cq.is_null() || cq_context.is_null() {
        return fail_minus_one(libc::EINVAL);
    }
    // SAFETY: events of a queue are purged before it is freed, and this runs while the list is locked.
    let taken = |address: &usize| unsafe { Cq::at(*address) }.on_event_taken();
    match CHANNELS.find(channel.addr()).and_then(|events| events.pop_serving(taken)) {
        Err(errno) => fail_minus_one(errno),
        Ok(address) => {
            // SAFETY: the queue cannot be destroyed before the event is acknowledged; the caller's places.
            unsafe {
                let found = Cq::at(address).public_cq();
                *cq = found;
                *cq_context = (*found).cq_context;
            }
            0
        }
    }
}

/// Acknowledges events; a queue can only be destroyed once all its events are acknowledged.
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, nevents: c_uint) {
    if cq.is_null() {
        return;
    }
    // SAFETY: a queue of ours, alive while its events are not acknowledged.
    unsafe {
        acknowledge(&raw mut (*cq).mutex, &raw mut (*cq).cond, &raw mut (*cq).comp_events_completed, nevents);
    }
}
