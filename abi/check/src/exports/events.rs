//! Completion events and asynchronous events.

use libc::{c_int, c_uint, c_void};
use weft_abi_types::{api, ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq};
use weft_check::model::Kind;

use crate::arguments::{self, handle};
use crate::call::Call;
use crate::errno;
use crate::next::next;
use crate::waiting::{self, Wait, Waiter};

/// ibv_get_cq_event(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    let Some(next) = next!(ibv_get_cq_event: api::fn_ibv_get_cq_event) else { return -1 };
    // SAFETY: the caller's promise.
    unsafe {
        // The library answers null arguments.
        let call = Call::enter("ibv_get_cq_event").filter(|_| !channel.is_null());
        let Some(call) = call else { return next(channel, cq, cq_context) };
        call.tell_briefly(|model, _, site| model.check_alive(Kind::Channel, handle(channel), site));
        let waiter = Waiter::new(channel);
        match waiting::before_event(&call, channel) {
            Wait::Library => {}
            Wait::Synthetic(queue) => {
                *cq = std::ptr::with_exposed_provenance_mut(usize::try_from(queue).unwrap_or(0));
                *cq_context = (**cq).cq_context;
                return 0;
            }
            Wait::Interrupted => {
                drop(waiter);
                errno::set(libc::EINTR);
                return -1;
            }
        }
        let result = next(channel, cq, cq_context);
        drop(waiter);
        if result == 0 {
            call.tell_briefly(|model, _, _| model.take_event(handle(*cq)));
        }
        result
    }
}

/// ibv_ack_cq_events(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, count: c_uint) {
    let Some(next) = next!(ibv_ack_cq_events: api::fn_ibv_ack_cq_events) else { return };
    let Some(call) = Call::enter("ibv_ack_cq_events") else {
        // SAFETY: the caller's promise.
        return unsafe { next(cq, count) };
    };
    call.tell_briefly(|model, _, site| model.acknowledge_events(handle(cq), count, site));
    // SAFETY: the caller's promise.
    unsafe { next(cq, waiting::known_events(handle(cq), count)) };
}

/// ibv_get_async_event(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int {
    let Some(next) = next!(ibv_get_async_event: api::fn_ibv_get_async_event) else { return -1 };
    let call = Call::enter("ibv_get_async_event");
    // SAFETY: the caller's promise.
    unsafe {
        let result = next(context, event);
        if let Some(call) = call
            && result == 0
        {
            let told = arguments::async_event(&*event);
            call.tell(|model, site| model.take_async_event(told, true, site));
        }
        result
    }
}

/// ibv_ack_async_event(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    let Some(next) = next!(ibv_ack_async_event: api::fn_ibv_ack_async_event) else { return };
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(call) = Call::enter("ibv_ack_async_event")
            && let Some(event) = event.as_ref()
        {
            let told = arguments::async_event(event);
            call.tell_briefly(|model, _, _| model.acknowledge_async_event(told));
        }
        next(event);
    }
}
