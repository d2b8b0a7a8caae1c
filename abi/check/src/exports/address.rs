//! Address handles.

use std::ptr::null_mut;

use libc::c_int;
use weft_abi_types::{api, ibv_ah, ibv_ah_attr, ibv_grh, ibv_pd, ibv_wc};
use weft_check::model::{Ah, Kind};

use crate::arguments::handle;
use crate::call::Call;
use crate::next::next;
use crate::{destruction, devices};

fn created(call: &Call, pd: *mut ibv_pd, ah: *mut ibv_ah) {
    if !ah.is_null() {
        // SAFETY: the library has just created it.
        let context = unsafe { handle((*ah).context) };
        let model = Ah { context, pd: handle(pd), is_cached: call.is_from_cache(), created: 0, serial: 0 };
        call.tell(|state, site| state.add_ah(handle(ah), model, site));
    }
}

/// ibv_create_ah(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    let Some(next) = next!(ibv_create_ah: api::fn_ibv_create_ah) else { return null_mut() };
    // SAFETY: the caller's promise.
    unsafe {
        // The library answers null arguments.
        let call = Call::enter("ibv_create_ah").filter(|_| !pd.is_null() && !attr.is_null());
        let Some(call) = call else { return next(pd, attr) };
        let route = &*attr;
        let (port, index) = (route.port_num, route.grh.sgid_index);
        let vector = devices::address_vector((*pd).context, port, route.is_global != 0, index);
        call.tell(|model, site| {
            model.check_alive(Kind::Pd, handle(pd), site);
            let name = model.name(Kind::Pd, handle(pd));
            model.check_address(name, Some(vector), site);
        });
        let ah = next(pd, attr);
        created(&call, pd, ah);
        ah
    }
}

/// ibv_create_ah_from_wc(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port: u8,
) -> *mut ibv_ah {
    let Some(next) = next!(ibv_create_ah_from_wc: api::fn_ibv_create_ah_from_wc) else { return null_mut() };
    let call = Call::enter("ibv_create_ah_from_wc");
    // SAFETY: the caller's promise.
    let ah = unsafe { next(pd, wc, grh, port) };
    if let Some(call) = call {
        created(&call, pd, ah);
    }
    ah
}

/// ibv_destroy_ah(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    let Some(next) = next!(ibv_destroy_ah: api::fn_ibv_destroy_ah) else { return libc::ENOSYS };
    let Some(call) = Call::enter("ibv_destroy_ah") else {
        // SAFETY: the caller's promise.
        return unsafe { next(ah) };
    };
    call.tell(|model, site| model.check_ah_unused(handle(ah), site));
    // SAFETY: the caller's promise.
    destruction::destroy(&call, Kind::Ah, handle(ah), || unsafe { next(ah) })
}
