//! Memory windows.

use libc::c_int;
use std::cell::UnsafeCell;
use weft_abi_types::{
    IBV_MW_TYPE_1, IBV_MW_TYPE_2, ibv_mw, ibv_mw_bind, ibv_mw_bind_info, ibv_mw_type, ibv_pd, ibv_qp,
};
use weft_verbs::{Access, MwBind, MwId, SendFlags, SendOp, SendWr, VerbsError};

use crate::errors::{code, fail, of_verbs, pointer};
use crate::mr::access_of;
use crate::object::{Object, zeroed};
use crate::owned::Owned;
use crate::pd::Pd;
use crate::process::Process;
use crate::qp::Qp;

/// A memory window.
#[repr(C)]
pub(crate) struct Mw {
    public: UnsafeCell<ibv_mw>,
    id: MwId,
    process: Process,
}

// SAFETY: repr(C), the public structure first.
unsafe impl Object for Mw {
    type Public = ibv_mw;
}

fn alloc(pd: *mut ibv_pd, kind: ibv_mw_type) -> Result<*mut ibv_mw, c_int> {
    if pd.is_null() || !(kind == IBV_MW_TYPE_1 || kind == IBV_MW_TYPE_2) {
        return Err(libc::EINVAL);
    }
    // SAFETY: a domain of ours.
    let this = unsafe { Pd::of(pd) };
    let keys = this.process().control(|hca, _| hca.alloc_mw(this.id, kind == IBV_MW_TYPE_2))?;
    this.context().own(Owned::Mw(keys.id));
    this.hold();
    let mut public: ibv_mw = zeroed();
    // SAFETY: as above.
    public.context = unsafe { (*pd).context };
    public.pd = pd;
    public.rkey = keys.rkey;
    public.handle = keys.id.index;
    public.type_ = kind;
    Ok(Mw { public: UnsafeCell::new(public), id: keys.id, process: this.process() }.leak())
}

pub(crate) unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, kind: ibv_mw_type) -> *mut ibv_mw {
    pointer(alloc(pd, kind))
}

pub(crate) unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    if mw.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: a window of ours.
    let this = unsafe { Mw::of(mw) };
    if let Err(errno) = this.process.control(|hca, _| hca.dealloc_mw(this.id)) {
        return fail(errno);
    }
    // SAFETY: the domain outlives its windows; the program gives the window up.
    unsafe {
        Pd::of((*mw).pd).context().disown(Owned::Mw(this.id));
        Pd::release((*mw).pd);
        Mw::free(mw);
    }
    0
}

/// Converts the parameters of a bind. The region may be null for an unbind.
///
/// # Safety
/// `mw` is a window, and `info` names a region or none.
pub(crate) unsafe fn bind_of(mw: *mut ibv_mw, new_rkey: u32, info: &ibv_mw_bind_info) -> Result<MwBind, VerbsError> {
    if info.mr.is_null() && info.length != 0 {
        return Err(VerbsError::Invalid("a bind names no region"));
    }
    // SAFETY: by the contract.
    unsafe {
        Ok(MwBind {
            mw_rkey: (*mw).rkey,
            new_rkey,
            mr_lkey: if info.mr.is_null() { 0 } else { (*info.mr).lkey },
            addr: info.addr,
            length: info.length,
            // Local rights have no effect on a window, which is for peers; programs pass them nevertheless.
            access: access_of(info.mw_access_flags).map_err(|_| VerbsError::Invalid("mw_access_flags"))?
                - Access::LOCAL_WRITE,
        })
    }
}

fn bind(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> Result<(), c_int> {
    if qp.is_null() || mw.is_null() || bind.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: a queue pair and a window of ours, and the caller's request.
    let (qp, this, bind) = unsafe { (Qp::of_plain(qp), Mw::of(mw), &*bind) };
    let flags = SendFlags::from_bits(bind.send_flags).ok_or(libc::EINVAL)?;
    let rkey = this.process.control(|hca, _| hca.next_type1_rkey(this.id))?;
    // SAFETY: as above; the caller promises that the region, if named, is valid.
    let request = unsafe { bind_of(mw, rkey, &bind.bind_info) }.map_err(of_verbs)?;
    let wr = SendWr { wr_id: bind.wr_id, flags, op: SendOp::BindMw(request), sges: &[], ud: None, xrc_srqn: None };
    qp.process.post_sends(qp.id, |poster| poster.post(&wr)).map_err(of_verbs)?;
    // SAFETY: the window's public part; the key is valid from now on, for work requests posted after the bind.
    unsafe { (*mw).rkey = rkey };
    Ok(())
}

pub(crate) unsafe extern "C" fn bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, request: *mut ibv_mw_bind) -> c_int {
    code(bind(qp, mw, request))
}
