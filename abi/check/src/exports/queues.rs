//! Completion channels, completion queues and shared receive queues.

use std::ptr::null_mut;

use libc::{c_int, c_void};
use weft_abi_types::{
    IBV_SRQ_MAX_WR, api, ibv_comp_channel, ibv_context, ibv_cq, ibv_pd, ibv_srq, ibv_srq_attr, ibv_srq_init_attr,
};
use weft_check::model::{Channel, Cq, Kind, Srq};

use crate::arguments::{handle, some};
use crate::call::Call;
use crate::next::next;
use crate::{destruction, extended, waiting};

/// ibv_create_comp_channel(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    let Some(next) = next!(ibv_create_comp_channel: api::fn_ibv_create_comp_channel) else { return null_mut() };
    let call = Call::enter("ibv_create_comp_channel");
    // SAFETY: the caller's promise.
    let channel = unsafe { next(context) };
    if let Some(call) = call
        && !channel.is_null()
    {
        let model = Channel { context: handle(context), created: 0, serial: 0 };
        call.tell(|state, site| state.add_channel(handle(channel), model, site));
        if call.is_from_connection_manager() {
            call.tell(|model, _| model.set_unowned(Kind::Channel, handle(channel)));
        }
        // SAFETY: the library has just created it.
        waiting::channel_created(unsafe { (*channel).fd }, handle(channel));
    }
    channel
}

/// ibv_destroy_comp_channel(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    let Some(next) = next!(ibv_destroy_comp_channel: api::fn_ibv_destroy_comp_channel) else { return libc::ENOSYS };
    match Call::enter("ibv_destroy_comp_channel") {
        Some(call) => {
            waiting::channel_destroyed(handle(channel));
            // SAFETY: the caller's promise.
            destruction::destroy(&call, Kind::Channel, handle(channel), || unsafe { next(channel) })
        }
        // SAFETY: the caller's promise.
        None => unsafe { next(channel) },
    }
}

/// ibv_create_cq(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    let Some(next) = next!(ibv_create_cq: api::fn_ibv_create_cq) else { return null_mut() };
    let call = Call::enter("ibv_create_cq");
    if let Some(call) = call.as_ref().filter(|_| !channel.is_null()) {
        call.tell(|model, site| model.check_alive(Kind::Channel, handle(channel), site));
    }
    // SAFETY: the caller's promise.
    let cq = unsafe { next(context, cqe, cq_context, channel, vector) };
    if let Some(call) = call
        && !cq.is_null()
    {
        waiting::queue_created(handle(cq));
        // SAFETY: the library has just created it.
        let capacity = unsafe { (*cq).cqe };
        let model = Cq::new(handle(context), some(channel), u32::try_from(capacity).unwrap_or(u32::MAX));
        call.tell(|state, site| state.add_cq(handle(cq), model, site));
        if call.is_from_connection_manager() {
            call.tell(|model, _| model.set_unowned(Kind::Cq, handle(cq)));
        }
    }
    cq
}

/// ibv_resize_cq(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    let Some(next) = next!(ibv_resize_cq: api::fn_ibv_resize_cq) else { return libc::ENOSYS };
    let call = Call::enter("ibv_resize_cq");
    // SAFETY: the caller's promise.
    unsafe {
        let result = next(cq, cqe);
        if let Some(call) = call {
            // The library answers null.
            let Some(cq) = cq.as_ref() else { return result };
            let capacity = u32::try_from(cq.cqe).unwrap_or(u32::MAX);
            call.tell(|model, _| model.resize_cq(handle(cq), capacity));
        }
        result
    }
}

/// ibv_destroy_cq(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    let Some(next) = next!(ibv_destroy_cq: api::fn_ibv_destroy_cq) else { return libc::ENOSYS };
    let Some(call) = Call::enter("ibv_destroy_cq") else {
        // SAFETY: the caller's promise.
        return unsafe { next(cq) };
    };
    let held = waiting::take_held(handle(cq));
    // SAFETY: the caller's promise.
    let next = || extended::destroying(handle(cq), || unsafe { next(cq) });
    let result = destruction::destroy(&call, Kind::Cq, handle(cq), next);
    if result != 0 {
        waiting::give_back(handle(cq), held);
    }
    result
}

/// ibv_create_srq(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    let Some(next) = next!(ibv_create_srq: api::fn_ibv_create_srq) else { return null_mut() };
    let call = Call::enter("ibv_create_srq");
    if let Some(call) = &call {
        call.tell(|model, site| model.check_alive(Kind::Pd, handle(pd), site));
    }
    // SAFETY: the caller's promise.
    unsafe {
        let srq = next(pd, attr);
        if let Some(call) = call
            && !srq.is_null()
        {
            let limits = (*attr).attr;
            let model = Srq::new(handle((*srq).context), handle(pd), limits.max_wr, limits.max_sge, false);
            call.tell(|state, site| state.add_srq(handle(srq), model, site));
        }
        srq
    }
}

/// ibv_modify_srq(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int {
    let Some(next) = next!(ibv_modify_srq: api::fn_ibv_modify_srq) else { return libc::ENOSYS };
    let call = Call::enter("ibv_modify_srq");
    // SAFETY: the caller's promise.
    unsafe {
        let result = next(srq, attr, mask);
        if let Some(call) = call
            && result == 0
            && mask.cast_unsigned() & IBV_SRQ_MAX_WR != 0
        {
            let query = next!(ibv_query_srq: api::fn_ibv_query_srq);
            let mut now = *attr;
            // The library may round up.
            let known = query.is_some_and(|query| query(srq, &mut now) == 0);
            let wr_max = if known { now.max_wr } else { (*attr).max_wr };
            call.tell(|model, _| model.resize_srq(handle(srq), wr_max));
        }
        result
    }
}

/// ibv_destroy_srq(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    let Some(next) = next!(ibv_destroy_srq: api::fn_ibv_destroy_srq) else { return libc::ENOSYS };
    match Call::enter("ibv_destroy_srq") {
        // SAFETY: the caller's promise.
        Some(call) => destruction::destroy(&call, Kind::Srq, handle(srq), || unsafe { next(srq) }),
        // SAFETY: the caller's promise.
        None => unsafe { next(srq) },
    }
}
