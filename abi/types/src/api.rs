//! A `libibverbs` loaded at run time: ours or the system's, depending on the path.
//!
//! Calls that every rdma-core has are plain function pointers; newer ones are `Option`s. `fn_NAME` is the type of the
//! call NAME.

use libc::{c_char, c_int, c_uint, c_void};
use std::ffi::CString;
use std::io;

use crate::*;

macro_rules! verbs_api {
    (required { $($name:ident: $alias:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;)* }
     optional { $($oname:ident: $oalias:ident($($oarg:ident: $oty:ty),*) $(-> $oret:ty)?;)* }) => {
        $(pub type $alias = unsafe extern "C" fn($($arg: $ty),*) $(-> $ret)?;)*
        $(pub type $oalias = unsafe extern "C" fn($($oarg: $oty),*) $(-> $oret)?;)*

        /// The exported calls of one loaded library.
        #[derive(Clone, Copy)]
        pub struct Verbs {
            $(pub $name: $alias,)*
            $(pub $oname: Option<$oalias>,)*
        }

        impl Verbs {
            /// Loads `path` (a file, or a bare name such as `libibverbs.so.1` for the loader's search path). The
            /// library stays loaded for good: it has threads, and rdma-core's own cannot be unloaded either.
            pub fn load(path: &str) -> io::Result<Verbs> {
                let library = Library::open(path)?;
                // SAFETY: the symbols have these types in every library that calls itself libibverbs.
                unsafe {
                    Ok(Verbs {
                        $($name: std::mem::transmute::<*mut c_void, $alias>(library.symbol(stringify!($name))?),)*
                        $($oname: library.symbol(stringify!($oname)).ok().map(|s| {
                            std::mem::transmute::<*mut c_void, $oalias>(s)
                        }),)*
                    })
                }
            }
        }
    };
}

struct Library {
    handle: *mut c_void,
    path: String,
}

impl Library {
    fn open(path: &str) -> io::Result<Library> {
        let c_path = CString::new(path)?;
        // SAFETY: a valid C string; loading runs the library's constructors, which the caller accepts.
        let handle = unsafe { libc::dlopen(c_path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NODELETE) };
        if handle.is_null() {
            return Err(io::Error::other(format!("cannot load {path}: {}", last_error())));
        }
        Ok(Library { handle, path: path.to_owned() })
    }

    fn symbol(&self, name: &str) -> io::Result<*mut c_void> {
        let c_name = CString::new(name)?;
        // SAFETY: the handle is open and the name a valid C string.
        let symbol = unsafe { libc::dlsym(self.handle, c_name.as_ptr()) };
        if symbol.is_null() {
            return Err(io::Error::other(format!("{} has no {name}: is it a libibverbs?", self.path)));
        }
        Ok(symbol)
    }
}

fn last_error() -> String {
    // SAFETY: dlerror returns null or a C string that is valid until this thread's next dl call.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            return "no reason given".to_owned();
        }
        std::ffi::CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

verbs_api! {
required {
    ibv_wc_status_str: fn_ibv_wc_status_str(status: ibv_wc_status) -> *const c_char;
    ibv_rate_to_mult: fn_ibv_rate_to_mult(rate: ibv_rate) -> c_int;
    mult_to_ibv_rate: fn_mult_to_ibv_rate(mult: c_int) -> ibv_rate;
    ibv_rate_to_mbps: fn_ibv_rate_to_mbps(rate: ibv_rate) -> c_int;
    mbps_to_ibv_rate: fn_mbps_to_ibv_rate(mbps: c_int) -> ibv_rate;
    ibv_get_device_list: fn_ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device;
    ibv_free_device_list: fn_ibv_free_device_list(list: *mut *mut ibv_device);
    ibv_get_device_name: fn_ibv_get_device_name(device: *mut ibv_device) -> *const c_char;
    ibv_get_device_guid: fn_ibv_get_device_guid(device: *mut ibv_device) -> be64;
    ibv_open_device: fn_ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
    ibv_close_device: fn_ibv_close_device(context: *mut ibv_context) -> c_int;
    ibv_get_async_event: fn_ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int;
    ibv_ack_async_event: fn_ibv_ack_async_event(event: *mut ibv_async_event);
    ibv_query_device: fn_ibv_query_device(context: *mut ibv_context, device_attr: *mut ibv_device_attr) -> c_int;
    ibv_query_port: fn_ibv_query_port(context: *mut ibv_context, port_num: u8, port_attr: *mut _compat_ibv_port_attr) -> c_int;
    ibv_query_gid: fn_ibv_query_gid(context: *mut ibv_context, port_num: u8, index: c_int, gid: *mut ibv_gid) -> c_int;
    ibv_query_pkey: fn_ibv_query_pkey(context: *mut ibv_context, port_num: u8, index: c_int, pkey: *mut be16) -> c_int;
    ibv_alloc_pd: fn_ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
    ibv_dealloc_pd: fn_ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int;
    ibv_reg_mr: fn_ibv_reg_mr(pd: *mut ibv_pd, addr: *mut c_void, length: usize, access: c_int) -> *mut ibv_mr;
    ibv_rereg_mr: fn_ibv_rereg_mr(mr: *mut ibv_mr, flags: c_int, pd: *mut ibv_pd, addr: *mut c_void, length: usize, access: c_int) -> c_int;
    ibv_dereg_mr: fn_ibv_dereg_mr(mr: *mut ibv_mr) -> c_int;
    ibv_create_comp_channel: fn_ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel;
    ibv_destroy_comp_channel: fn_ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int;
    ibv_create_cq: fn_ibv_create_cq(context: *mut ibv_context, cqe: c_int, cq_context: *mut c_void, channel: *mut ibv_comp_channel, comp_vector: c_int) -> *mut ibv_cq;
    ibv_resize_cq: fn_ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int;
    ibv_destroy_cq: fn_ibv_destroy_cq(cq: *mut ibv_cq) -> c_int;
    ibv_get_cq_event: fn_ibv_get_cq_event(channel: *mut ibv_comp_channel, cq: *mut *mut ibv_cq, cq_context: *mut *mut c_void) -> c_int;
    ibv_ack_cq_events: fn_ibv_ack_cq_events(cq: *mut ibv_cq, nevents: c_uint);
    ibv_create_srq: fn_ibv_create_srq(pd: *mut ibv_pd, srq_init_attr: *mut ibv_srq_init_attr) -> *mut ibv_srq;
    ibv_modify_srq: fn_ibv_modify_srq(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr, srq_attr_mask: c_int) -> c_int;
    ibv_query_srq: fn_ibv_query_srq(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr) -> c_int;
    ibv_destroy_srq: fn_ibv_destroy_srq(srq: *mut ibv_srq) -> c_int;
    ibv_create_qp: fn_ibv_create_qp(pd: *mut ibv_pd, qp_init_attr: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    ibv_modify_qp: fn_ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, attr_mask: c_int) -> c_int;
    ibv_query_qp: fn_ibv_query_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, attr_mask: c_int, init_attr: *mut ibv_qp_init_attr) -> c_int;
    ibv_destroy_qp: fn_ibv_destroy_qp(qp: *mut ibv_qp) -> c_int;
    ibv_create_ah: fn_ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah;
    ibv_init_ah_from_wc: fn_ibv_init_ah_from_wc(context: *mut ibv_context, port_num: u8, wc: *mut ibv_wc, grh: *mut ibv_grh, ah_attr: *mut ibv_ah_attr) -> c_int;
    ibv_create_ah_from_wc: fn_ibv_create_ah_from_wc(pd: *mut ibv_pd, wc: *mut ibv_wc, grh: *mut ibv_grh, port_num: u8) -> *mut ibv_ah;
    ibv_destroy_ah: fn_ibv_destroy_ah(ah: *mut ibv_ah) -> c_int;
    ibv_attach_mcast: fn_ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    ibv_detach_mcast: fn_ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    ibv_fork_init: fn_ibv_fork_init() -> c_int;
    ibv_node_type_str: fn_ibv_node_type_str(node_type: ibv_node_type) -> *const c_char;
    ibv_port_state_str: fn_ibv_port_state_str(port_state: ibv_port_state) -> *const c_char;
    ibv_event_type_str: fn_ibv_event_type_str(event: ibv_event_type) -> *const c_char;
}
optional {
    ibv_wr_opcode_str: fn_ibv_wr_opcode_str(opcode: ibv_wr_opcode) -> *const c_char;
    ibv_qp_to_qp_ex: fn_ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex;
    ibv_get_device_index: fn_ibv_get_device_index(device: *mut ibv_device) -> c_int;
    ibv_import_device: fn_ibv_import_device(cmd_fd: c_int) -> *mut ibv_context;
    ibv_import_pd: fn_ibv_import_pd(context: *mut ibv_context, pd_handle: u32) -> *mut ibv_pd;
    ibv_unimport_pd: fn_ibv_unimport_pd(pd: *mut ibv_pd);
    ibv_import_mr: fn_ibv_import_mr(pd: *mut ibv_pd, mr_handle: u32) -> *mut ibv_mr;
    ibv_unimport_mr: fn_ibv_unimport_mr(mr: *mut ibv_mr);
    ibv_import_dm: fn_ibv_import_dm(context: *mut ibv_context, dm_handle: u32) -> *mut ibv_dm;
    ibv_unimport_dm: fn_ibv_unimport_dm(dm: *mut ibv_dm);
    ibv_query_port_speed: fn_ibv_query_port_speed(context: *mut ibv_context, port_num: u32, port_speed: *mut u64) -> c_int;
    _ibv_query_gid_ex: fn__ibv_query_gid_ex(context: *mut ibv_context, port_num: u32, gid_index: u32, entry: *mut ibv_gid_entry, flags: u32, entry_size: usize) -> c_int;
    _ibv_query_gid_table: fn__ibv_query_gid_table(context: *mut ibv_context, entries: *mut ibv_gid_entry, max_entries: usize, flags: u32, entry_size: usize) -> isize;
    ibv_get_pkey_index: fn_ibv_get_pkey_index(context: *mut ibv_context, port_num: u8, pkey: be16) -> c_int;
    ibv_reg_mr_iova2: fn_ibv_reg_mr_iova2(pd: *mut ibv_pd, addr: *mut c_void, length: usize, iova: u64, access: c_uint) -> *mut ibv_mr;
    ibv_reg_mr_iova: fn_ibv_reg_mr_iova(pd: *mut ibv_pd, addr: *mut c_void, length: usize, iova: u64, access: c_int) -> *mut ibv_mr;
    ibv_reg_dmabuf_mr: fn_ibv_reg_dmabuf_mr(pd: *mut ibv_pd, offset: u64, length: usize, iova: u64, fd: c_int, access: c_int) -> *mut ibv_mr;
    ibv_reg_mr_ex: fn_ibv_reg_mr_ex(pd: *mut ibv_pd, mr_init_attr: *mut ibv_mr_init_attr) -> *mut ibv_mr;
    ibv_dm_export_dmabuf_fd: fn_ibv_dm_export_dmabuf_fd(dm: *mut ibv_dm) -> c_int;
    _ibv_query_comp_cntr_caps: fn__ibv_query_comp_cntr_caps(context: *mut ibv_context, caps: *mut ibv_comp_cntr_caps, caps_size: usize) -> c_int;
    ibv_create_comp_cntr: fn_ibv_create_comp_cntr(context: *mut ibv_context, cc_attr: *mut ibv_comp_cntr_init_attr) -> *mut ibv_comp_cntr;
    ibv_destroy_comp_cntr: fn_ibv_destroy_comp_cntr(comp_cntr: *mut ibv_comp_cntr) -> c_int;
    ibv_set_comp_cntr: fn_ibv_set_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: u64) -> c_int;
    ibv_set_err_comp_cntr: fn_ibv_set_err_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: u64) -> c_int;
    ibv_inc_comp_cntr: fn_ibv_inc_comp_cntr(comp_cntr: *mut ibv_comp_cntr, amount: u64) -> c_int;
    ibv_inc_err_comp_cntr: fn_ibv_inc_err_comp_cntr(comp_cntr: *mut ibv_comp_cntr, amount: u64) -> c_int;
    ibv_read_comp_cntr: fn_ibv_read_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: *mut u64) -> c_int;
    ibv_read_err_comp_cntr: fn_ibv_read_err_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: *mut u64) -> c_int;
    ibv_alloc_buf: fn_ibv_alloc_buf(pd: *mut ibv_pd, size: usize, buf: *mut *mut ibv_buf) -> *mut c_void;
    ibv_export_buf_dmabuf_fd: fn_ibv_export_buf_dmabuf_fd(buf: *mut ibv_buf) -> c_int;
    ibv_free_buf: fn_ibv_free_buf(buf: *mut ibv_buf);
    ibv_reg_buf_mr: fn_ibv_reg_buf_mr(pd: *mut ibv_pd, buf: *mut ibv_buf, addr: *mut c_void, length: usize, access: c_int) -> *mut ibv_mr;
    ibv_alloc_dmah: fn_ibv_alloc_dmah(context: *mut ibv_context, attr: *mut ibv_dmah_init_attr) -> *mut ibv_dmah;
    ibv_dealloc_dmah: fn_ibv_dealloc_dmah(dmah: *mut ibv_dmah) -> c_int;
    ibv_qp_attach_comp_cntr: fn_ibv_qp_attach_comp_cntr(qp: *mut ibv_qp, comp_cntr: *mut ibv_comp_cntr, attr: *mut ibv_qp_attach_comp_cntr_attr) -> c_int;
    ibv_query_qp_data_in_order: fn_ibv_query_qp_data_in_order(qp: *mut ibv_qp, op: ibv_wr_opcode, flags: u32) -> c_int;
    ibv_is_fork_initialized: fn_ibv_is_fork_initialized() -> ibv_fork_status;
    ibv_resolve_eth_l2_from_gid: fn_ibv_resolve_eth_l2_from_gid(context: *mut ibv_context, attr: *mut ibv_ah_attr, eth_mac: *mut u8, vid: *mut u16) -> c_int;
    ibv_set_ece: fn_ibv_set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int;
    ibv_query_ece: fn_ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int;
}
}
