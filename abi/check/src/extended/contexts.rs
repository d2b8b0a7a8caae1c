//! Calls of the extended context that create objects.

use std::ptr::null_mut;

use libc::c_uint;
use weft_abi_types::{
    IBV_ACCESS_LOCAL_WRITE, IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN, IBV_REG_MR_MASK_ADDR,
    IBV_REG_MR_MASK_IOVA, IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_BASIC, IBV_WC_EX_WITH_QP_NUM, ibv_context, ibv_cq_ex,
    ibv_cq_init_attr_ex, ibv_dm, ibv_mr, ibv_mr_init_attr, ibv_parent_domain_init_attr, ibv_pd, ibv_qp, ibv_qp_cap,
    ibv_qp_init_attr_ex, ibv_qp_open_attr, ibv_srq, ibv_srq_init_attr_ex,
};
use weft_check::model::{Cq, Kind, Pd, Srq};

use crate::arguments::{self, handle, some};
use crate::bounds;
use crate::call::Call;
use crate::extended::{completion_queue, queue_pair};
use crate::table::{self, ExtendedCalls};

/// Takes an original call of the extended context.
macro_rules! original {
    ($context:expr, $op:ident) => {
        match table::find($context).and_then(|originals| originals.extended?.$op) {
            Some(op) => op,
            None => return null_mut(),
        }
    };
}

/// The wrappers.
pub fn wrappers() -> ExtendedCalls {
    ExtendedCalls {
        create_qp_ex: Some(create_qp_ex),
        open_qp: Some(open_qp),
        create_cq_ex: Some(create_cq_ex),
        create_srq_ex: Some(create_srq_ex),
        reg_dm_mr: Some(reg_dm_mr),
        alloc_null_mr: Some(alloc_null_mr),
        reg_mr_ex: Some(reg_mr_ex),
        alloc_parent_domain: Some(alloc_parent_domain),
    }
}

unsafe extern "C" fn create_qp_ex(context: *mut ibv_context, attr: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp {
    // SAFETY: the program's promise to ibv_create_qp_ex.
    unsafe {
        let next = original!(context, create_qp_ex);
        // The library answers null arguments.
        let call = Call::enter("ibv_create_qp_ex").filter(|_| !attr.is_null());
        let Some(call) = call else { return next(context, attr) };
        let wanted = (*attr).cap;
        let qp = next(context, attr);
        if qp.is_null() {
            call.tell(|model, site| model.creation_refused(handle(context), arguments::cap(&wanted), site));
            return qp;
        }
        let model = arguments::qp(qp, &(*attr).cap, (*attr).sq_sig_all != 0);
        call.tell(|state, site| state.add_qp(handle(qp), model, site));
        queue_pair::wrap(qp, &*attr);
        qp
    }
}

unsafe extern "C" fn open_qp(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp {
    // SAFETY: the program's promise to ibv_open_qp.
    unsafe {
        let next = original!(context, open_qp);
        let Some(call) = Call::enter("ibv_open_qp") else { return next(context, attr) };
        let qp = next(context, attr);
        if !qp.is_null() {
            let unlimited = ibv_qp_cap {
                max_send_wr: u32::MAX,
                max_recv_wr: u32::MAX,
                max_send_sge: u32::MAX,
                max_recv_sge: u32::MAX,
                max_inline_data: u32::MAX,
            };
            let model = arguments::qp(qp, &unlimited, false);
            call.tell(|state, site| state.add_qp(handle(qp), model, site));
        }
        qp
    }
}

unsafe extern "C" fn create_cq_ex(context: *mut ibv_context, attr: *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex {
    // SAFETY: the program's promise to ibv_create_cq_ex.
    unsafe {
        let next = original!(context, create_cq_ex);
        // The library answers null arguments.
        let call = Call::enter("ibv_create_cq_ex").filter(|_| !attr.is_null());
        let Some(call) = call else { return next(context, attr) };
        let mut with_number = *attr;
        // The model finds a completion's queue pair by its number.
        with_number.wc_flags |= u64::from(IBV_WC_EX_WITH_QP_NUM);
        let mut cq = next(context, &mut with_number);
        let is_number_refused = cq.is_null() && with_number.wc_flags != (*attr).wc_flags;
        if is_number_refused {
            cq = next(context, attr);
        }
        if !cq.is_null() {
            let has_flags = (*attr).comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0;
            let capacity = u32::try_from((*cq).cqe).unwrap_or(u32::MAX);
            let mut model = Cq::new(handle(context), some((*attr).channel), capacity);
            model.ignores_overrun = has_flags && (*attr).flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN != 0;
            model.is_extended = true;
            model.hides_qp_numbers = is_number_refused;
            call.tell(|state, site| state.add_cq(handle(cq), model, site));
            completion_queue::wrap(cq);
        }
        cq
    }
}

unsafe extern "C" fn create_srq_ex(context: *mut ibv_context, attr: *mut ibv_srq_init_attr_ex) -> *mut ibv_srq {
    // SAFETY: the program's promise to ibv_create_srq_ex.
    unsafe {
        let next = original!(context, create_srq_ex);
        let Some(call) = Call::enter("ibv_create_srq_ex") else { return next(context, attr) };
        let srq = next(context, attr);
        if !srq.is_null() {
            let (limits, pd) = ((*attr).attr, handle((*srq).pd));
            let has_type = (*attr).comp_mask & IBV_SRQ_INIT_ATTR_TYPE != 0;
            let is_untracked = has_type && (*attr).srq_type != IBV_SRQT_BASIC;
            let model = Srq::new(handle(context), pd, limits.max_wr, limits.max_sge, is_untracked);
            call.tell(|state, site| state.add_srq(handle(srq), model, site));
        }
        srq
    }
}

unsafe extern "C" fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
    access: c_uint,
) -> *mut ibv_mr {
    // SAFETY: the program's promise to ibv_reg_dm_mr.
    unsafe {
        let next = original!((*pd).context, reg_dm_mr);
        let Some(call) = Call::enter("ibv_reg_dm_mr") else { return next(pd, dm, offset, length, access) };
        call.tell(|model, site| model.check_access(handle(pd), access, site));
        let mr = next(pd, dm, offset, length, access);
        if !mr.is_null() {
            // Requests address device memory from 0 on.
            let model = arguments::mr(mr, None, 0, length, access);
            call.tell(|state, site| state.add_mr(handle(mr), model, site));
        }
        mr
    }
}

unsafe extern "C" fn alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr {
    // SAFETY: the program's promise to ibv_alloc_null_mr.
    unsafe {
        let next = original!((*pd).context, alloc_null_mr);
        let Some(call) = Call::enter("ibv_alloc_null_mr") else { return next(pd) };
        call.tell(|model, site| model.check_alive(Kind::Pd, handle(pd), site));
        let mr = next(pd);
        if !mr.is_null() {
            let model = arguments::mr(mr, None, 0, usize::MAX, IBV_ACCESS_LOCAL_WRITE);
            call.tell(|state, site| state.add_mr(handle(mr), model, site));
        }
        mr
    }
}

unsafe extern "C" fn reg_mr_ex(pd: *mut ibv_pd, attr: *mut ibv_mr_init_attr) -> *mut ibv_mr {
    // SAFETY: the program's promise to ibv_reg_mr_ex.
    unsafe {
        let next = original!((*pd).context, reg_mr_ex);
        // The library answers null arguments.
        let call = Call::enter("ibv_reg_mr_ex").filter(|_| !attr.is_null());
        let Some(call) = call else { return next(pd, attr) };
        register_ex(&call, pd, attr, || next(pd, attr))
    }
}

/// Passes on `ibv_reg_mr_ex`, which exists as an exported call and in the context.
///
/// # Safety
/// The program's promise to ibv_reg_mr_ex.
pub unsafe fn register_ex(
    call: &Call,
    pd: *mut ibv_pd,
    attr: *mut ibv_mr_init_attr,
    next: impl FnOnce() -> *mut ibv_mr,
) -> *mut ibv_mr {
    // SAFETY: the caller's promise.
    let attr = unsafe { *attr };
    call.tell(|model, site| model.check_access(handle(pd), attr.access.cast_unsigned(), site));
    let mr = next();
    if !mr.is_null() {
        let address = (attr.comp_mask & u64::from(IBV_REG_MR_MASK_ADDR) != 0).then(|| handle(attr.addr));
        let has_iova = attr.comp_mask & u64::from(IBV_REG_MR_MASK_IOVA) != 0;
        let iova = if has_iova { attr.iova } else { address.unwrap_or(0) };
        // SAFETY: the library has just registered it.
        let mut model = unsafe { arguments::mr(mr, address, iova, attr.length, attr.access.cast_unsigned()) };
        model.is_cached = call.is_from_cache();
        call.tell(|state, site| state.add_mr(handle(mr), model, site));
        bounds::regions_changed();
    }
    mr
}

unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    // SAFETY: the program's promise to ibv_alloc_parent_domain.
    unsafe {
        let next = original!(context, alloc_parent_domain);
        let Some(call) = Call::enter("ibv_alloc_parent_domain") else { return next(context, attr) };
        let pd = next(context, attr);
        if !pd.is_null() {
            let model = Pd { context: handle(context), parent: some((*attr).pd), created: 0, serial: 0 };
            call.tell(|state, site| state.add_pd(handle(pd), model, site));
        }
        pd
    }
}
