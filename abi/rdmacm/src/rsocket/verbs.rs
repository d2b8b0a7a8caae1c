//! The calls of `libibverbs.so.1` that rsockets make in addition to those of the connection manager.

use libc::{c_int, c_uint, c_void};
use weft_abi_types::{
    _compat_ibv_port_attr, ibv_ah, ibv_ah_attr, ibv_comp_channel, ibv_context, ibv_cq, ibv_gid_entry, ibv_mr, ibv_pd,
};

#[link(name = "ibverbs", kind = "dylib")]
unsafe extern "C" {
    pub(crate) fn ibv_reg_mr(pd: *mut ibv_pd, addr: *mut c_void, length: usize, access: c_int) -> *mut ibv_mr;
    pub(crate) fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int;
    pub(crate) fn ibv_get_cq_event(
        channel: *mut ibv_comp_channel,
        cq: *mut *mut ibv_cq,
        cq_context: *mut *mut c_void,
    ) -> c_int;
    pub(crate) fn ibv_ack_cq_events(cq: *mut ibv_cq, count: c_uint);
    pub(crate) fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah;
    pub(crate) fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int;
    pub(crate) fn ibv_query_port(context: *mut ibv_context, port: u8, attr: *mut _compat_ibv_port_attr) -> c_int;
    pub(crate) fn _ibv_query_gid_ex(
        context: *mut ibv_context,
        port: u32,
        index: u32,
        entry: *mut ibv_gid_entry,
        flags: u32,
        entry_size: usize,
    ) -> c_int;
}
