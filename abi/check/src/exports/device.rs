//! Devices and protection domains.

use std::ptr::null_mut;

use libc::c_int;
use weft_abi_types::{IBV_FORK_DISABLED, api, ibv_context, ibv_device, ibv_pd};
use weft_check::model::{Kind, Pd};

use crate::arguments::handle;
use crate::call::Call;
use crate::next::next;
use crate::{destruction, devices, state, table};

/// Whether forks do no harm to registered memory; `None` if the library cannot tell.
pub fn fork_is_protected() -> Option<bool> {
    // SAFETY: no arguments.
    let status = next!(ibv_is_fork_initialized: api::fn_ibv_is_fork_initialized).map(|call| unsafe { call() })?;
    Some(status != IBV_FORK_DISABLED)
}

/// ibv_open_device(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    let Some(next) = next!(ibv_open_device: api::fn_ibv_open_device) else { return null_mut() };
    let call = Call::enter("ibv_open_device");
    // SAFETY: the caller's promise.
    unsafe {
        let context = next(device);
        if let Some(call) = &call {
            devices::opened(call, context);
        }
        context
    }
}

/// ibv_import_device(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_device(cmd_fd: c_int) -> *mut ibv_context {
    let Some(next) = next!(ibv_import_device: api::fn_ibv_import_device) else { return null_mut() };
    // Objects of the exporting process can be imported, and the model does not know them: the context stays unchecked.
    // SAFETY: the caller's promise.
    unsafe { next(cmd_fd) }
}

/// ibv_close_device(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    let Some(next) = next!(ibv_close_device: api::fn_ibv_close_device) else { return -1 };
    let Some(call) = Call::enter("ibv_close_device") else {
        // SAFETY: the caller's promise.
        return unsafe { next(context) };
    };
    // SAFETY: the caller's promise.
    unsafe {
        if state::with(|state| state.model.is_open(handle(context))) {
            devices::read_events(&call, handle(context));
        }
        // The calls stay in the table until the library has closed the context, unless another thread gets its address.
        let originals = state::with(|_| table::take(context));
        let result = destruction::destroy(&call, Kind::Context, handle(context), || next(context));
        if result != 0 {
            state::with(|_| table::give_back(context, originals));
        }
        result
    }
}

/// ibv_alloc_pd(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    let Some(next) = next!(ibv_alloc_pd: api::fn_ibv_alloc_pd) else { return null_mut() };
    let call = Call::enter("ibv_alloc_pd");
    // SAFETY: the caller's promise.
    let pd = unsafe { next(context) };
    if let Some(call) = call
        && !pd.is_null()
    {
        let model = Pd { context: handle(context), parent: None, created: 0, serial: 0 };
        call.tell(|state, site| state.add_pd(handle(pd), model, site));
        if call.is_from_connection_manager() {
            call.tell(|model, _| model.set_unowned(Kind::Pd, handle(pd)));
        }
    }
    pd
}

/// ibv_dealloc_pd(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    let Some(next) = next!(ibv_dealloc_pd: api::fn_ibv_dealloc_pd) else { return libc::ENOSYS };
    match Call::enter("ibv_dealloc_pd") {
        // SAFETY: the caller's promise.
        Some(call) => destruction::destroy(&call, Kind::Pd, handle(pd), || unsafe { next(pd) }),
        // SAFETY: the caller's promise.
        None => unsafe { next(pd) },
    }
}
