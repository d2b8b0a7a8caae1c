//! Open devices: their calls are replaced when they are opened.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::mem::MaybeUninit;

use libc::c_int;
use weft_abi_types::inlines::{self, verbs_get_ctx};
use weft_abi_types::{
    IBV_TRANSPORT_IWARP, api, ibv_async_event, ibv_context, ibv_device_attr, ibv_gid, ibv_mtu, ibv_port_attr,
};
use weft_check::model::{AddressVector, Context, DeviceLimits, Handle, Kind};

use crate::arguments::{self, handle};
use crate::call::Call;
use crate::extended;
use crate::next::next;
use crate::table::{self, ExtendedCalls, Originals};
use crate::{posting, reporter, state};

/// Devices whose vendor's library has calls of its own (`mlx5dv_*`, `efadv_*`) that make queue pairs and keys.
const DIRECT_VERBS: [&str; 5] = ["mlx5", "mlx4", "efa", "hns", "mana"];

/// A device was opened: replaces its calls, and tells the model.
///
/// # Safety
/// A context that no other thread uses yet.
pub unsafe fn opened(call: &Call, context: *mut ibv_context) {
    // SAFETY: the caller's promise.
    unsafe {
        if context.is_null() || posting::is_wrapped(context) {
            return;
        }
        let extended = verbs_get_ctx(context);
        let originals =
            Originals { ops: (*context).ops, extended: (!extended.is_null()).then(|| ExtendedCalls::read(extended)) };
        let calls = originals.extended;
        reporter::open();
        if !state::with(|_| table::insert(context, originals)) {
            return;
        }
        let device = CStr::from_ptr((*(*context).device).name.as_ptr()).to_string_lossy().into_owned();
        let is_complete = !DIRECT_VERBS.iter().any(|vendor| device.starts_with(vendor));
        let is_iwarp = (*(*context).device).transport_type == IBV_TRANSPORT_IWARP;
        let limits = limits(context);
        let model = Context { device, limits, is_complete, is_iwarp, ports: BTreeMap::new(), created: 0 };
        call.tell(|state, site| state.add_context(handle(context), model, site));
        if call.is_from_connection_manager() {
            call.tell(|model, _| model.set_unowned(Kind::Context, handle(context)));
        }
        posting::wrap(context);
        if let Some(calls) = calls {
            calls.replace(extended, &extended::wrappers());
        }
    }
}

unsafe fn limits(context: *mut ibv_context) -> DeviceLimits {
    let mut attr = MaybeUninit::<ibv_device_attr>::zeroed();
    // SAFETY: the library fills in the structure; zeroes are a valid one.
    let attr = unsafe {
        if let Some(query) = next!(ibv_query_device: api::fn_ibv_query_device) {
            query(context, attr.as_mut_ptr());
        }
        attr.assume_init()
    };
    let number = |value: c_int| u32::try_from(value).unwrap_or(0);
    DeviceLimits { qp_wr_max: number(attr.max_qp_wr), sge_max: number(attr.max_sge) }
}

/// Active MTU of a port in bytes.
///
/// # Safety
/// An open context.
pub unsafe fn port_mtu_bytes(context: *mut ibv_context, port: u8) -> Option<u32> {
    let legacy = next!(ibv_query_port: api::fn_ibv_query_port)?;
    let mut attr = MaybeUninit::<ibv_port_attr>::zeroed();
    // SAFETY: the caller's promise; the library fills in the structure, of which zeroes are a valid one.
    let attr = unsafe {
        if inlines::ibv_query_port(legacy, context, port, attr.as_mut_ptr()) != 0 {
            return None;
        }
        attr.assume_init()
    };
    mtu_bytes(attr.active_mtu)
}

/// Bytes of `enum ibv_mtu`.
pub fn mtu_bytes(mtu: ibv_mtu) -> Option<u32> {
    (1..=5).contains(&mtu).then(|| 128 << mtu)
}

/// Looks up the source GID of an address vector with a global route.
///
/// # Safety
/// An open context.
pub unsafe fn address_vector(context: *mut ibv_context, port: u8, is_global: bool, gid_index: u8) -> AddressVector {
    let mut gid = MaybeUninit::<ibv_gid>::zeroed();
    let query = next!(ibv_query_gid: api::fn_ibv_query_gid).filter(|_| is_global);
    let gid_is_empty = query.and_then(|query| {
        // SAFETY: the caller's promise; the library fills in the GID, of which zeroes are a valid one.
        unsafe {
            let known = query(context, port, gid_index.into(), gid.as_mut_ptr()) == 0;
            known.then(|| gid.assume_init().raw == [0; 16])
        }
    });
    AddressVector { gid_index, gid_is_empty }
}

/// Reads the events that the program has left in a device, at its end: a completion queue may have overrun.
pub fn read_last_events(call: &Call) {
    for context in state::with(|state| state.model.open_contexts()) {
        // SAFETY: the program has not closed it.
        unsafe { read_events(call, context) };
    }
}

/// # Safety
/// `context` is open.
pub unsafe fn read_events(call: &Call, context: Handle) {
    const EVENTS_MAX: u32 = 64;
    let Ok(address) = usize::try_from(context) else { return };
    let context: *mut ibv_context = std::ptr::with_exposed_provenance_mut(address);
    let (Some(read), Some(acknowledge)) = (
        next!(ibv_get_async_event: api::fn_ibv_get_async_event),
        next!(ibv_ack_async_event: api::fn_ibv_ack_async_event),
    ) else {
        return;
    };
    // SAFETY: the caller's promise; an event is used only if the library has filled it in.
    unsafe {
        let fd = (*context).async_fd;
        let flags = libc::fcntl(fd, libc::F_GETFL);
        // Another thread may take the last event first: the call must not wait for the next.
        if flags < 0 || libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) != 0 {
            return;
        }
        for _ in 0..EVENTS_MAX {
            let mut event = MaybeUninit::<ibv_async_event>::zeroed();
            if read(context, event.as_mut_ptr()) != 0 {
                break;
            }
            let mut event = event.assume_init();
            let told = arguments::async_event(&event);
            call.tell(|model, site| model.take_async_event(told, false, site));
            acknowledge(&mut event);
        }
        libc::fcntl(fd, libc::F_SETFL, flags);
    }
}
