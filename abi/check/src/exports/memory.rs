//! Memory regions.

use std::ptr::null_mut;

use libc::{c_int, c_uint, c_void};
use weft_abi_types::{
    IBV_REREG_MR_CHANGE_ACCESS, IBV_REREG_MR_CHANGE_PD, IBV_REREG_MR_CHANGE_TRANSLATION, api, ibv_mr, ibv_mr_init_attr,
    ibv_pd,
};
use weft_check::model::{Kind, Reregistration};

use crate::arguments::{self, handle};
use crate::bounds;
use crate::call::Call;
use crate::next::next;
use crate::{destruction, extended};

/// The arguments of a registration.
struct Registration {
    pd: *mut ibv_pd,
    address: Option<u64>,
    iova: u64,
    length: usize,
    access: u32,
}

/// Passes on a registration, and tells the model before and after it.
///
/// # Safety
/// The program's promise to the call.
unsafe fn register(name: &'static str, request: &Registration, next: impl FnOnce() -> *mut ibv_mr) -> *mut ibv_mr {
    let Some(call) = Call::enter(name) else { return next() };
    call.tell(|model, site| model.check_access(handle(request.pd), request.access, site));
    let mr = next();
    if !mr.is_null() {
        // SAFETY: the library has just registered it.
        let mut model = unsafe { arguments::mr(mr, request.address, request.iova, request.length, request.access) };
        model.is_cached = call.is_from_cache();
        call.tell(|state, site| state.add_mr(handle(mr), model, site));
        bounds::regions_changed();
    }
    mr
}

/// ibv_reg_mr(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    let Some(next) = next!(ibv_reg_mr: api::fn_ibv_reg_mr) else { return null_mut() };
    let at = handle(address);
    let request = Registration { pd, address: Some(at), iova: at, length, access: access.cast_unsigned() };
    // SAFETY: the caller's promise.
    unsafe { register("ibv_reg_mr", &request, || next(pd, address, length, access)) }
}

/// ibv_reg_mr_iova(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    let Some(next) = next!(ibv_reg_mr_iova: api::fn_ibv_reg_mr_iova) else { return null_mut() };
    let request = Registration { pd, address: Some(handle(address)), iova, length, access: access.cast_unsigned() };
    // SAFETY: the caller's promise.
    unsafe { register("ibv_reg_mr_iova", &request, || next(pd, address, length, iova, access)) }
}

/// The call behind the macros ibv_reg_mr and ibv_reg_mr_iova.
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    let Some(next) = next!(ibv_reg_mr_iova2: api::fn_ibv_reg_mr_iova2) else { return null_mut() };
    let request = Registration { pd, address: Some(handle(address)), iova, length, access };
    // SAFETY: the caller's promise.
    unsafe { register("ibv_reg_mr", &request, || next(pd, address, length, iova, access)) }
}

/// ibv_reg_dmabuf_mr(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> *mut ibv_mr {
    let Some(next) = next!(ibv_reg_dmabuf_mr: api::fn_ibv_reg_dmabuf_mr) else { return null_mut() };
    let request = Registration { pd, address: None, iova, length, access: access.cast_unsigned() };
    // SAFETY: the caller's promise.
    unsafe { register("ibv_reg_dmabuf_mr", &request, || next(pd, offset, length, iova, fd, access)) }
}

/// ibv_reg_mr_ex(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_ex(pd: *mut ibv_pd, attr: *mut ibv_mr_init_attr) -> *mut ibv_mr {
    let Some(next) = next!(ibv_reg_mr_ex: api::fn_ibv_reg_mr_ex) else { return null_mut() };
    // SAFETY: the caller's promise.
    unsafe {
        // The library answers null arguments.
        let call = Call::enter("ibv_reg_mr_ex").filter(|_| !attr.is_null());
        let Some(call) = call else { return next(pd, attr) };
        extended::register_ex(&call, pd, attr, || next(pd, attr))
    }
}

/// ibv_import_mr(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_mr(pd: *mut ibv_pd, mr_handle: u32) -> *mut ibv_mr {
    let Some(next) = next!(ibv_import_mr: api::fn_ibv_import_mr) else { return null_mut() };
    let call = Call::enter("ibv_import_mr");
    // SAFETY: the caller's promise.
    unsafe {
        let mr = next(pd, mr_handle);
        if let Some(call) = call
            && !mr.is_null()
        {
            // Another process has registered it: its range and access are not known.
            let model = arguments::mr(mr, None, 0, usize::MAX, !weft_abi_types::IBV_ACCESS_ZERO_BASED);
            call.tell(|state, site| state.add_mr(handle(mr), model, site));
        }
        mr
    }
}

/// ibv_rereg_mr(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let Some(next) = next!(ibv_rereg_mr: api::fn_ibv_rereg_mr) else { return -1 };
    let call = Call::enter("ibv_rereg_mr");
    // SAFETY: the caller's promise.
    unsafe {
        let result = next(mr, flags, pd, address, length, access);
        if let Some(call) = call
            && result == 0
        {
            let bits = flags.cast_unsigned();
            let has = |flag: c_uint| bits & flag != 0;
            let change = Reregistration {
                pd: has(IBV_REREG_MR_CHANGE_PD).then(|| handle(pd)),
                range: has(IBV_REREG_MR_CHANGE_TRANSLATION).then(|| (handle(address), length as u64)),
                access: has(IBV_REREG_MR_CHANGE_ACCESS).then_some(access.cast_unsigned()),
                lkey: (*mr).lkey,
            };
            call.tell(|model, site| model.reregistered(handle(mr), &change, site));
            bounds::regions_changed();
        }
        result
    }
}

/// ibv_dereg_mr(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    let Some(next) = next!(ibv_dereg_mr: api::fn_ibv_dereg_mr) else { return libc::ENOSYS };
    let Some(call) = Call::enter("ibv_dereg_mr") else {
        // SAFETY: the caller's promise.
        return unsafe { next(mr) };
    };
    call.tell(|model, site| model.check_region_unused(handle(mr), site));
    // SAFETY: the caller's promise.
    let result = destruction::destroy(&call, Kind::Mr, handle(mr), || unsafe { next(mr) });
    bounds::regions_changed();
    result
}
