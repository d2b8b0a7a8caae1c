//! Memory regions and memory windows.

use libc::{c_int, c_uint, c_void};

use crate::context::ibv_context;
use crate::dm::ibv_dmah;
use crate::pd::ibv_pd;

pub type ib_uverbs_advise_mr_advice = c_uint;
pub const IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH: ib_uverbs_advise_mr_advice = 0;
pub const IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE: ib_uverbs_advise_mr_advice = 1;
pub const IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT: ib_uverbs_advise_mr_advice = 2;

pub type ib_uverbs_advise_mr_flag = c_uint;
pub const IB_UVERBS_ADVISE_MR_FLAG_FLUSH: ib_uverbs_advise_mr_flag = 1;

pub type ibv_access_flags = c_uint;
pub const IBV_ACCESS_LOCAL_WRITE: ibv_access_flags = 1;
pub const IBV_ACCESS_REMOTE_WRITE: ibv_access_flags = 2;
pub const IBV_ACCESS_REMOTE_READ: ibv_access_flags = 4;
pub const IBV_ACCESS_REMOTE_ATOMIC: ibv_access_flags = 8;
pub const IBV_ACCESS_MW_BIND: ibv_access_flags = 16;
pub const IBV_ACCESS_ZERO_BASED: ibv_access_flags = 32;
pub const IBV_ACCESS_ON_DEMAND: ibv_access_flags = 64;
pub const IBV_ACCESS_HUGETLB: ibv_access_flags = 128;
pub const IBV_ACCESS_FLUSH_GLOBAL: ibv_access_flags = 256;
pub const IBV_ACCESS_FLUSH_PERSISTENT: ibv_access_flags = 512;
pub const IBV_ACCESS_RELAXED_ORDERING: ibv_access_flags = 1048576;

#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_mw_bind_info {
    pub mr: *mut ibv_mr,
    pub addr: u64,
    pub length: u64,
    pub mw_access_flags: c_uint,
}

#[repr(C)]
#[derive(Debug)]
pub struct ibv_buf {
    _private: [u8; 0],
}

pub type ibv_rereg_mr_flags = c_uint;
pub const IBV_REREG_MR_CHANGE_TRANSLATION: ibv_rereg_mr_flags = 1;
pub const IBV_REREG_MR_CHANGE_PD: ibv_rereg_mr_flags = 2;
pub const IBV_REREG_MR_CHANGE_ACCESS: ibv_rereg_mr_flags = 4;
pub const IBV_REREG_MR_FLAGS_SUPPORTED: ibv_rereg_mr_flags = 7;

#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_mr {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

pub type ibv_mr_init_attr_mask = c_uint;
pub const IBV_REG_MR_MASK_IOVA: ibv_mr_init_attr_mask = 1;
pub const IBV_REG_MR_MASK_ADDR: ibv_mr_init_attr_mask = 2;
pub const IBV_REG_MR_MASK_FD: ibv_mr_init_attr_mask = 4;
pub const IBV_REG_MR_MASK_FD_OFFSET: ibv_mr_init_attr_mask = 8;
pub const IBV_REG_MR_MASK_DMAH: ibv_mr_init_attr_mask = 16;
pub const IBV_REG_MR_MASK_BUF: ibv_mr_init_attr_mask = 32;

#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_mr_init_attr {
    pub length: usize,
    pub access: c_int,
    pub comp_mask: u64,
    pub iova: u64,
    pub addr: *mut c_void,
    pub fd: c_int,
    pub fd_offset: u64,
    pub dmah: *mut ibv_dmah,
    pub buf: *mut ibv_buf,
}

pub type ibv_mw_type = c_uint;
pub const IBV_MW_TYPE_1: ibv_mw_type = 1;
pub const IBV_MW_TYPE_2: ibv_mw_type = 2;

#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_mw {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub rkey: u32,
    pub handle: u32,
    pub type_: ibv_mw_type,
}

pub type ibv_rereg_mr_err_code = c_int;
pub const IBV_REREG_MR_ERR_INPUT: ibv_rereg_mr_err_code = -1;
pub const IBV_REREG_MR_ERR_DONT_FORK_NEW: ibv_rereg_mr_err_code = -2;
pub const IBV_REREG_MR_ERR_DO_FORK_OLD: ibv_rereg_mr_err_code = -3;
pub const IBV_REREG_MR_ERR_CMD: ibv_rereg_mr_err_code = -4;
pub const IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW: ibv_rereg_mr_err_code = -5;

pub const IBV_ADVISE_MR_ADVICE_PREFETCH: ib_uverbs_advise_mr_advice = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH;
pub const IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE: ib_uverbs_advise_mr_advice = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
pub const IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT: ib_uverbs_advise_mr_advice =
    IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
pub const IBV_ADVISE_MR_FLAG_FLUSH: ib_uverbs_advise_mr_flag = IB_UVERBS_ADVISE_MR_FLAG_FLUSH;

/// Access flags that a library may ignore if it does not know them: bits 20 to 29.
pub const IBV_ACCESS_OPTIONAL_RANGE: ibv_access_flags = ((1 << 30) - 1) & !((1 << 20) - 1);
