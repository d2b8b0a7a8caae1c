//! Private structures around public ones, which casts of programs and vendor libraries reach.

use libc::{c_int, c_void};

use crate::handles::ibv_device;
use crate::qp_ex::ibv_qp_ex;

/// A device in the view of rdma-core's own libraries. Vendor libraries (such as `mlx5dv_is_supported`) compare `ops`
/// with their own table, so it must be readable; it is never called.
#[repr(C)]
#[derive(Debug)]
pub struct verbs_device {
    pub device: ibv_device,
    pub ops: *const c_void,
    pub refcount: c_int,
    /// rdma-core keeps a list node and a pointer to its sysfs view here.
    pub reserved: [*mut c_void; 6],
}

/// A queue pair in the view of rdma-core's own libraries; `ibv_qp_to_qp_ex` casts to it.
#[repr(C)]
pub struct verbs_qp {
    pub qp_ex: ibv_qp_ex,
    pub comp_mask: u32,
    pub xrcd: *mut c_void,
}
