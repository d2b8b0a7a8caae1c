//! The inline calls of `<infiniband/verbs.h>`: they use function pointers in the objects, so no library exports them.
//!
//! # Safety
//! All take pointers that the library returned, alive and of the right kind, exactly as in C.

#![allow(clippy::missing_safety_doc, reason = "one rule for all of them, above")]

use libc::{EINVAL, EOPNOTSUPP, EPERM, c_int, c_uint};
use std::mem::{offset_of, size_of};
use std::ptr::null_mut;

use crate::*;

/// Value of `ibv_context::abi_compat` if a [`verbs_context`] precedes it.
pub const VERBS_ABI_IS_EXTENDED: usize = usize::MAX;

fn fail_null<T>(errno: c_int) -> *mut T {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = errno };
    null_mut()
}

/// Returns the extended context around `context`, or null if its library is too old to have one.
pub unsafe fn verbs_get_ctx(context: *mut ibv_context) -> *mut verbs_context {
    // SAFETY: by the contract above; the sentinel value means that a verbs_context surrounds the context.
    unsafe {
        if (*context).abi_compat as usize != VERBS_ABI_IS_EXTENDED {
            return null_mut();
        }
        context.byte_sub(offset_of!(verbs_context, context)).cast()
    }
}

/// Returns a call of the extended context; `None` if the library is too old or the slot is empty.
macro_rules! ctx_op {
    ($context:expr, $op:ident) => {{
        let v = verbs_get_ctx($context);
        if v.is_null() || (*v).sz < size_of::<verbs_context>() - offset_of!(verbs_context, $op) {
            None
        } else {
            (*v).$op
        }
    }};
}

/// Defines an inline that calls a slot of the extended context, and returns EOPNOTSUPP for an empty one.
macro_rules! ctx_inline {
    ($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) -> *mut $ret:ty, $context:expr, $op:ident) => {
        $(#[$doc])*
        pub unsafe fn $name($($arg: $ty),*) -> *mut $ret {
            // SAFETY: by the contract above.
            unsafe {
                match ctx_op!($context, $op) {
                    Some(op) => op($($arg),*),
                    None => fail_null(EOPNOTSUPP),
                }
            }
        }
    };
    ($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) -> c_int, $context:expr, $op:ident) => {
        $(#[$doc])*
        pub unsafe fn $name($($arg: $ty),*) -> c_int {
            // SAFETY: by the contract above.
            unsafe {
                match ctx_op!($context, $op) {
                    Some(op) => op($($arg),*),
                    None => EOPNOTSUPP,
                }
            }
        }
    };
}

ctx_inline!(ibv_open_xrcd(context: *mut ibv_context, attr: *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd, context, open_xrcd);
ctx_inline!(ibv_close_xrcd(xrcd: *mut ibv_xrcd) -> c_int, (*xrcd).context, close_xrcd);
ctx_inline!(ibv_create_cq_ex(context: *mut ibv_context, attr: *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex, context, create_cq_ex);
ctx_inline!(ibv_modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int, (*cq).context, modify_cq);
ctx_inline!(
    /// As in C, minus its detour through `ibv_create_qp` for plain requests.
    ibv_create_qp_ex(context: *mut ibv_context, attr: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp, context, create_qp_ex
);
ctx_inline!(
    /// As in C, minus its detour through `ibv_create_srq` for basic queues.
    ibv_create_srq_ex(context: *mut ibv_context, attr: *mut ibv_srq_init_attr_ex) -> *mut ibv_srq, context, create_srq_ex
);
ctx_inline!(ibv_get_srq_num(srq: *mut ibv_srq, srq_num: *mut u32) -> c_int, (*srq).context, get_srq_num);
ctx_inline!(ibv_open_qp(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp, context, open_qp);
ctx_inline!(ibv_alloc_td(context: *mut ibv_context, attr: *mut ibv_td_init_attr) -> *mut ibv_td, context, alloc_td);
ctx_inline!(ibv_dealloc_td(td: *mut ibv_td) -> c_int, (*td).context, dealloc_td);
ctx_inline!(ibv_alloc_parent_domain(context: *mut ibv_context, attr: *mut ibv_parent_domain_init_attr) -> *mut ibv_pd, context, alloc_parent_domain);
ctx_inline!(ibv_query_rt_values_ex(context: *mut ibv_context, values: *mut ibv_values_ex) -> c_int, context, query_rt_values);
ctx_inline!(ibv_alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr, (*pd).context, alloc_null_mr);
ctx_inline!(ibv_advise_mr(pd: *mut ibv_pd, advice: ib_uverbs_advise_mr_advice, flags: u32, sg_list: *mut ibv_sge, num_sge: u32) -> c_int, (*pd).context, advise_mr);
ctx_inline!(ibv_alloc_dm(context: *mut ibv_context, attr: *mut ibv_alloc_dm_attr) -> *mut ibv_dm, context, alloc_dm);
ctx_inline!(ibv_free_dm(dm: *mut ibv_dm) -> c_int, (*dm).context, free_dm);
ctx_inline!(ibv_reg_dm_mr(pd: *mut ibv_pd, dm: *mut ibv_dm, dm_offset: u64, length: usize, access: c_uint) -> *mut ibv_mr, (*pd).context, reg_dm_mr);
ctx_inline!(ibv_modify_qp_rate_limit(qp: *mut ibv_qp, attr: *mut ibv_qp_rate_limit_attr) -> c_int, (*qp).context, modify_qp_rate_limit);

/// Returns all attributes of a port. Falls back to `legacy` (the exported `ibv_query_port`) for an old library.
pub unsafe fn ibv_query_port(
    legacy: api::fn_ibv_query_port,
    context: *mut ibv_context,
    port_num: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    // SAFETY: by the contract above; zeroes are a valid ibv_port_attr, and the old call fills a prefix of it.
    unsafe {
        match ctx_op!(context, query_port) {
            Some(op) => op(context, port_num, attr, size_of::<ibv_port_attr>()),
            None => {
                attr.write_bytes(0, 1);
                legacy(context, port_num, attr.cast())
            }
        }
    }
}

/// Returns all attributes of a device. Falls back to `legacy` (the exported `ibv_query_device`) for an old library.
pub unsafe fn ibv_query_device_ex(
    legacy: api::fn_ibv_query_device,
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
) -> c_int {
    // SAFETY: by the contract above; zeroes are a valid ibv_device_attr_ex.
    unsafe {
        if let Some(op) = ctx_op!(context, query_device_ex) {
            let rc = op(context, input, attr, size_of::<ibv_device_attr_ex>());
            if rc != EOPNOTSUPP && rc != libc::ENOSYS {
                return rc;
            }
        }
        attr.write_bytes(0, 1);
        legacy(context, &raw mut (*attr).orig_attr)
    }
}

/// Defines an inline that calls a slot of `ibv_context_ops`.
macro_rules! ops_inline {
    ($name:ident($($arg:ident: $ty:ty),*) -> c_int, $context:expr, $op:ident) => {
        #[inline]
        pub unsafe fn $name($($arg: $ty),*) -> c_int {
            // SAFETY: by the contract above.
            unsafe {
                match (*$context).ops.$op {
                    Some(op) => op($($arg),*),
                    None => EOPNOTSUPP,
                }
            }
        }
    };
}

ops_inline!(ibv_req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int, (*cq).context, req_notify_cq);
ops_inline!(ibv_post_send(qp: *mut ibv_qp, wr: *mut ibv_send_wr, bad_wr: *mut *mut ibv_send_wr) -> c_int, (*qp).context, post_send);
ops_inline!(ibv_post_recv(qp: *mut ibv_qp, wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr) -> c_int, (*qp).context, post_recv);
ops_inline!(ibv_post_srq_recv(srq: *mut ibv_srq, wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr) -> c_int, (*srq).context, post_srq_recv);
ops_inline!(ibv_dealloc_mw(mw: *mut ibv_mw) -> c_int, (*mw).context, dealloc_mw);

/// Returns the number of completions written to `wc`, at most `num_entries`; negative for an error.
#[inline]
pub unsafe fn ibv_poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: by the contract above.
    unsafe {
        match (*(*cq).context).ops.poll_cq {
            Some(op) => op(cq, num_entries, wc),
            None => -EOPNOTSUPP,
        }
    }
}

/// Allocates a memory window; null with errno on failure.
pub unsafe fn ibv_alloc_mw(pd: *mut ibv_pd, kind: ibv_mw_type) -> *mut ibv_mw {
    // SAFETY: by the contract above.
    unsafe {
        match (*(*pd).context).ops.alloc_mw {
            Some(op) => op(pd, kind),
            None => fail_null(EOPNOTSUPP),
        }
    }
}

/// Binds a type 1 memory window through the send queue.
pub unsafe fn ibv_bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> c_int {
    // SAFETY: by the contract above.
    unsafe {
        let info = (*bind).bind_info;
        if (*mw).type_ != IBV_MW_TYPE_1 || (info.mr.is_null() && (info.addr != 0 || info.length != 0)) {
            return EINVAL;
        }
        if !info.mr.is_null() && (*mw).pd != (*info.mr).pd {
            return EPERM;
        }
        match (*(*mw).context).ops.bind_mw {
            Some(op) => op(qp, mw, bind),
            None => EOPNOTSUPP,
        }
    }
}

/// Returns the next R_Key of a type 2 memory window: its low eight bits increase.
pub fn ibv_inc_rkey(rkey: u32) -> u32 {
    (rkey & !0xff) | (rkey.wrapping_add(1) & 0xff)
}

/// Returns the UDP source port that RoCE v2 derives from a flow label.
pub fn ibv_flow_label_to_udp_sport(flow_label: u32) -> u16 {
    let low = (flow_label & 0x3fff) ^ ((flow_label & 0xf_c000) >> 14);
    (low | 0xc000) as u16
}

/// Defines calls through a pointer of an extended object. An empty slot means a broken library: no result is possible.
macro_rules! pointer_inline {
    ($obj:ident: $($name:ident = $slot:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;)*) => {$(
        #[inline]
        pub unsafe fn $name(object: *mut $obj $(, $arg: $ty)*) $(-> $ret)? {
            // SAFETY: by the contract above.
            unsafe {
                match (*object).$slot {
                    Some(f) => f(object $(, $arg)*),
                    None => panic!(concat!(stringify!($slot), ": the library left this call of the object empty")),
                }
            }
        }
    )*};
}

pointer_inline! { ibv_qp_ex:
    ibv_wr_start = wr_start();
    ibv_wr_complete = wr_complete() -> c_int;
    ibv_wr_abort = wr_abort();
    ibv_wr_send = wr_send();
    ibv_wr_send_imm = wr_send_imm(imm_data: be32);
    ibv_wr_send_inv = wr_send_inv(invalidate_rkey: u32);
    ibv_wr_rdma_read = wr_rdma_read(rkey: u32, remote_addr: u64);
    ibv_wr_rdma_write = wr_rdma_write(rkey: u32, remote_addr: u64);
    ibv_wr_rdma_write_imm = wr_rdma_write_imm(rkey: u32, remote_addr: u64, imm_data: be32);
    ibv_wr_atomic_cmp_swp = wr_atomic_cmp_swp(rkey: u32, remote_addr: u64, compare: u64, swap: u64);
    ibv_wr_atomic_fetch_add = wr_atomic_fetch_add(rkey: u32, remote_addr: u64, add: u64);
    ibv_wr_bind_mw = wr_bind_mw(mw: *mut ibv_mw, rkey: u32, bind_info: *const ibv_mw_bind_info);
    ibv_wr_local_inv = wr_local_inv(invalidate_rkey: u32);
    ibv_wr_set_ud_addr = wr_set_ud_addr(ah: *mut ibv_ah, remote_qpn: u32, remote_qkey: u32);
    ibv_wr_set_xrc_srqn = wr_set_xrc_srqn(remote_srqn: u32);
    ibv_wr_set_inline_data = wr_set_inline_data(addr: *mut libc::c_void, length: usize);
    ibv_wr_set_inline_data_list = wr_set_inline_data_list(num_buf: usize, buf_list: *const ibv_data_buf);
    ibv_wr_set_sge = wr_set_sge(lkey: u32, addr: u64, length: u32);
    ibv_wr_set_sge_list = wr_set_sge_list(num_sge: usize, sg_list: *const ibv_sge);
    ibv_wr_atomic_write = wr_atomic_write(rkey: u32, remote_addr: u64, atomic_wr: *const libc::c_void);
    ibv_wr_flush = wr_flush(rkey: u32, remote_addr: u64, len: usize, kind: u8, level: u8);
}

pointer_inline! { ibv_cq_ex:
    ibv_start_poll = start_poll(attr: *mut ibv_poll_cq_attr) -> c_int;
    ibv_next_poll = next_poll() -> c_int;
    ibv_end_poll = end_poll();
    ibv_wc_read_opcode = read_opcode() -> ibv_wc_opcode;
    ibv_wc_read_vendor_err = read_vendor_err() -> u32;
    ibv_wc_read_byte_len = read_byte_len() -> u32;
    ibv_wc_read_imm_data = read_imm_data() -> be32;
    ibv_wc_read_qp_num = read_qp_num() -> u32;
    ibv_wc_read_src_qp = read_src_qp() -> u32;
    ibv_wc_read_wc_flags = read_wc_flags() -> c_uint;
    ibv_wc_read_slid = read_slid() -> u32;
    ibv_wc_read_sl = read_sl() -> u8;
    ibv_wc_read_dlid_path_bits = read_dlid_path_bits() -> u8;
    ibv_wc_read_completion_ts = read_completion_ts() -> u64;
    ibv_wc_read_completion_wallclock_ns = read_completion_wallclock_ns() -> u64;
}
