//! Memory regions.

use libc::{c_int, c_uint, c_void};
use std::cell::UnsafeCell;
use weft_abi_types::{
    IBV_ACCESS_OPTIONAL_RANGE, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
    IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, IBV_REG_MR_MASK_ADDR, IBV_REG_MR_MASK_BUF,
    IBV_REG_MR_MASK_IOVA, IBV_REREG_MR_CHANGE_ACCESS, IBV_REREG_MR_CHANGE_PD, IBV_REREG_MR_CHANGE_TRANSLATION,
    IBV_REREG_MR_ERR_CMD, IBV_REREG_MR_ERR_INPUT, IBV_REREG_MR_FLAGS_SUPPORTED, ib_uverbs_advise_mr_advice, ibv_buf,
    ibv_mr, ibv_mr_init_attr, ibv_pd, ibv_sge,
};
use weft_hca::MrKeys;
use weft_verbs::{Access, MrId};

use crate::buf;
use crate::context::{contexts_of, of_one};
use crate::errors::{code, fail, fail_null, pointer, set_errno};
use crate::object::{Object, zeroed};
use crate::owned::Owned;
use crate::pd::Pd;
use crate::process::Process;

/// The memory behind a region.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The program's memory.
    Memory,
    /// Device memory.
    Dm,
    /// Zeroes.
    Null,
}

/// A memory region.
#[repr(C)]
pub(crate) struct Mr {
    public: UnsafeCell<ibv_mr>,
    pub(crate) id: MrId,
    kind: Kind,
    process: Process,
}

// SAFETY: repr(C), the public structure first.
unsafe impl Object for Mr {
    type Public = ibv_mr;
}

/// Converts access flags to rights. Unknown optional flags are hints, and are dropped.
pub(crate) fn access_of(access: c_uint) -> Result<Access, c_int> {
    let known = Access::all().bits() | !IBV_ACCESS_OPTIONAL_RANGE;
    Access::from_bits(access & known).ok_or(libc::EINVAL)
}

/// Creates the object for a program.
pub(crate) fn make(pd: *mut ibv_pd, keys: MrKeys, kind: Kind, addr: *mut c_void, length: usize) -> *mut ibv_mr {
    // SAFETY: the domain in which the region was just registered.
    let this = unsafe { Pd::of(pd) };
    this.context().own(Owned::Mr(keys.id));
    this.hold();
    let mut public: ibv_mr = zeroed();
    // SAFETY: as above.
    public.context = unsafe { (*pd).context };
    public.pd = pd;
    public.addr = addr;
    public.length = length;
    public.handle = keys.id.index;
    public.lkey = keys.lkey;
    public.rkey = keys.rkey;
    Mr { public: UnsafeCell::new(public), id: keys.id, kind, process: this.process() }.leak()
}

fn register(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> Result<*mut ibv_mr, c_int> {
    if pd.is_null() {
        return Err(libc::EINVAL);
    }
    let access = access_of(access)?;
    // SAFETY: a domain of ours.
    let this = unsafe { Pd::of(pd) };
    let keys = this.process().reg_mr(this.id, addr.expose_provenance() as u64, length as u64, iova, access)?;
    Ok(make(pd, keys, Kind::Memory, addr, length))
}

/// Registers memory.
pub extern "C" fn ibv_reg_mr(pd: *mut ibv_pd, addr: *mut c_void, length: usize, access: c_int) -> *mut ibv_mr {
    pointer(register(pd, addr, length, addr.addr() as u64, access as c_uint))
}

/// Registers memory that keys address from `iova` on.
pub extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    pointer(register(pd, addr, length, iova, access as c_uint))
}

/// As [`ibv_reg_mr_iova`]; programs with optional access flags call this.
pub extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    pointer(register(pd, addr, length, iova, access))
}

/// Registers a part of a buffer.
pub extern "C" fn ibv_reg_buf_mr(
    pd: *mut ibv_pd,
    buf: *mut ibv_buf,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    if !buf::holds(buf, pd, addr, length) {
        return fail_null(libc::EINVAL);
    }
    ibv_reg_mr(pd, addr, length, access)
}

/// Registers the memory in the attributes: the program's own, or a buffer of `ibv_alloc_buf`.
pub unsafe extern "C" fn ibv_reg_mr_ex(pd: *mut ibv_pd, attr: *mut ibv_mr_init_attr) -> *mut ibv_mr {
    const KNOWN: u64 = (IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_IOVA | IBV_REG_MR_MASK_BUF) as u64;
    if attr.is_null() {
        return fail_null(libc::EINVAL);
    }
    // SAFETY: the caller's attributes.
    let attr = unsafe { &*attr };
    if attr.comp_mask & !KNOWN != 0 {
        return fail_null(libc::EOPNOTSUPP);
    }
    if attr.comp_mask & u64::from(IBV_REG_MR_MASK_ADDR) == 0 {
        return fail_null(libc::EINVAL);
    }
    if attr.comp_mask & u64::from(IBV_REG_MR_MASK_BUF) != 0 && !buf::holds(attr.buf, pd, attr.addr, attr.length) {
        return fail_null(libc::EINVAL);
    }
    let with_iova = attr.comp_mask & u64::from(IBV_REG_MR_MASK_IOVA) != 0;
    let iova = if with_iova { attr.iova } else { attr.addr.addr() as u64 };
    pointer(register(pd, attr.addr, attr.length, iova, attr.access as c_uint))
}

/// Fails: dma-buf memory belongs to devices, and a software adapter cannot reach it.
pub extern "C" fn ibv_reg_dmabuf_mr(
    _pd: *mut ibv_pd,
    _offset: u64,
    _length: usize,
    _iova: u64,
    _fd: c_int,
    _access: c_int,
) -> *mut ibv_mr {
    fail_null(libc::EOPNOTSUPP)
}

pub(crate) unsafe extern "C" fn alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr {
    if pd.is_null() {
        return fail_null(libc::EINVAL);
    }
    // SAFETY: a domain of ours.
    let this = unsafe { Pd::of(pd) };
    pointer(
        this.process()
            .control(|hca, _| hca.alloc_null_mr(this.id))
            .map(|keys| make(pd, keys, Kind::Null, std::ptr::null_mut(), usize::MAX)),
    )
}

/// Changes a region: its domain, its memory, its rights.
pub unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let input_error = |errno| {
        set_errno(errno);
        IBV_REREG_MR_ERR_INPUT
    };
    let flags = flags as c_uint;
    if mr.is_null() || flags & !IBV_REREG_MR_FLAGS_SUPPORTED != 0 {
        return input_error(libc::EINVAL);
    }
    // SAFETY: a region of ours.
    let this = unsafe { Mr::of(mr) };
    let change_pd = flags & IBV_REREG_MR_CHANGE_PD != 0;
    let change_translation = flags & IBV_REREG_MR_CHANGE_TRANSLATION != 0;
    let change_access = flags & IBV_REREG_MR_CHANGE_ACCESS != 0;
    if this.kind != Kind::Memory
        || (change_translation && (length == 0 || addr.is_null()))
        || (change_pd && pd.is_null())
        || (access != 0 && !change_access)
    {
        return input_error(libc::EINVAL);
    }
    let access = match access_of(access as c_uint) {
        Ok(access) => access,
        Err(errno) => return input_error(errno),
    };
    // SAFETY: our own public part, and a domain of ours if `change_pd` is set.
    if change_pd && of_one(unsafe { (*mr).context }, &unsafe { contexts_of!(pd) }).is_err() {
        return input_error(libc::EINVAL);
    }
    // SAFETY: as above.
    let new_pd = change_pd.then(|| unsafe { Pd::of(pd) });
    let va = addr.expose_provenance() as u64;
    let result = this.process.rereg_mr(
        this.id,
        new_pd.map(|pd| pd.id),
        change_translation.then_some((va, length as u64, va)),
        change_access.then_some(access),
    );
    let keys = match result {
        Ok(keys) => keys,
        Err(errno) => {
            set_errno(errno);
            // The region is unchanged: the manual page's code for refused arguments. Only a device that is gone makes
            // the region unusable.
            return if errno == libc::ENODEV { IBV_REREG_MR_ERR_CMD } else { IBV_REREG_MR_ERR_INPUT };
        }
    };
    // SAFETY: the region's public part, which the program does not use during this call.
    unsafe {
        if let Some(new_pd) = new_pd {
            new_pd.hold();
            Pd::release((*mr).pd);
            (*mr).pd = pd;
        }
        if change_translation {
            (*mr).addr = addr;
            (*mr).length = length;
        }
        (*mr).lkey = keys.lkey;
        (*mr).rkey = keys.rkey;
    }
    0
}

/// Deregisters a region.
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    if mr.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: a region of ours.
    let this = unsafe { Mr::of(mr) };
    if let Err(errno) = this.process.dereg_mr(this.id) {
        return fail(errno);
    }
    // SAFETY: the domain outlives its regions; the program gives the region up.
    unsafe {
        Pd::of((*mr).pd).context().disown(Owned::Mr(this.id));
        Pd::release((*mr).pd);
        Mr::free(mr);
    }
    0
}

/// Fails: regions cannot be shared between processes.
pub extern "C" fn ibv_import_mr(_pd: *mut ibv_pd, _mr_handle: u32) -> *mut ibv_mr {
    fail_null(libc::EOPNOTSUPP)
}

/// Does nothing: nothing can be imported.
pub extern "C" fn ibv_unimport_mr(_mr: *mut ibv_mr) {}

/// Handles advice to prefetch pages. Pages become present on first access, so the range only has to be within a region.
pub(crate) unsafe extern "C" fn advise_mr(
    pd: *mut ibv_pd,
    advice: ib_uverbs_advise_mr_advice,
    flags: u32,
    sg_list: *mut ibv_sge,
    num_sge: u32,
) -> c_int {
    let known =
        [IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT];
    if !known.contains(&advice) {
        return code(Err(libc::EOPNOTSUPP));
    }
    if pd.is_null() || flags & !IBV_ADVISE_MR_FLAG_FLUSH != 0 || (sg_list.is_null() && num_sge > 0) || num_sge == 0 {
        return code(Err(libc::EINVAL));
    }
    0
}
