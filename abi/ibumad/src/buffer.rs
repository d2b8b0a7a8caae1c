//! The buffer that carries a MAD: `struct ib_user_mad` with the destination or source address, then the MAD.

use libc::{c_int, c_void};
use weft_abi_types::{ib_mad_addr, ib_user_mad};

/// Returns the size of the header.
pub extern "C" fn umad_size() -> usize {
    size_of::<ib_user_mad>()
}

/// Returns the MAD in the buffer.
pub extern "C" fn umad_get_mad(umad: *mut c_void) -> *mut c_void {
    umad.wrapping_byte_add(size_of::<ib_user_mad>())
}

/// Returns the address in the buffer.
pub unsafe extern "C" fn umad_get_mad_addr(umad: *mut c_void) -> *mut ib_mad_addr {
    // SAFETY: the caller passes a umad buffer; only the address of a field of it is taken.
    unsafe { &raw mut (*umad.cast::<ib_user_mad>()).addr }
}

/// Returns the result of the transaction: 0, or an errno value.
pub unsafe extern "C" fn umad_status(umad: *mut c_void) -> c_int {
    // SAFETY: the caller passes a umad buffer.
    unsafe { (*umad.cast::<ib_user_mad>()).status as c_int }
}

/// Sets the address from values in host order.
pub unsafe extern "C" fn umad_set_addr(umad: *mut c_void, dlid: c_int, dqp: c_int, sl: c_int, qkey: c_int) -> c_int {
    // SAFETY: as for umad_set_addr_net.
    unsafe { umad_set_addr_net(umad, (dlid as u16).to_be(), (dqp as u32).to_be(), sl, (qkey as u32).to_be()) }
}

/// Sets the address from values in network order.
pub unsafe extern "C" fn umad_set_addr_net(umad: *mut c_void, dlid: u16, dqp: u32, sl: c_int, qkey: u32) -> c_int {
    // SAFETY: the caller passes a umad buffer.
    let addr = unsafe { &mut (*umad.cast::<ib_user_mad>()).addr };
    addr.qpn = dqp;
    addr.lid = dlid;
    addr.qkey = qkey;
    addr.sl = sl as u8;
    0
}

/// Sets the global route from an address whose flow label is in host order; null removes it.
pub unsafe extern "C" fn umad_set_grh(umad: *mut c_void, mad_addr: *mut c_void) -> c_int {
    // SAFETY: the caller passes a umad buffer, and null or an address.
    let addr = unsafe { &mut (*umad.cast::<ib_user_mad>()).addr };
    // SAFETY: as above.
    let Some(from) = (unsafe { mad_addr.cast::<ib_mad_addr>().as_ref() }) else {
        addr.grh_present = 0;
        return 0;
    };
    addr.grh_present = 1;
    addr.gid = from.gid;
    addr.flow_label = from.flow_label.to_be();
    addr.hop_limit = from.hop_limit;
    addr.traffic_class = from.traffic_class;
    0
}

/// Sets the P_Key index.
pub unsafe extern "C" fn umad_set_pkey(umad: *mut c_void, pkey_index: c_int) -> c_int {
    // SAFETY: the caller passes a umad buffer.
    unsafe { (*umad.cast::<ib_user_mad>()).addr.pkey_index = pkey_index as u16 };
    0
}

/// Returns the P_Key index.
pub unsafe extern "C" fn umad_get_pkey(umad: *mut c_void) -> c_int {
    // SAFETY: the caller passes a umad buffer.
    unsafe { c_int::from((*umad.cast::<ib_user_mad>()).addr.pkey_index) }
}
