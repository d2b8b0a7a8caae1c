//! Parent domains: a protection domain with a thread domain.

use libc::c_int;
use weft_abi_types::{
    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS, IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT, ibv_context,
    ibv_parent_domain_init_attr, ibv_pd,
};

use crate::context::{contexts_of, of_one};
use crate::errors::pointer;
use crate::object::Object;
use crate::pd::Pd;
use crate::td::Td;

fn parent_domain(context: *mut ibv_context, attr: *mut ibv_parent_domain_init_attr) -> Result<*mut ibv_pd, c_int> {
    const KNOWN: u32 = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    if context.is_null() || attr.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's attributes.
    let attr = unsafe { &*attr };
    if attr.comp_mask & !KNOWN != 0 {
        return Err(libc::EINVAL);
    }
    // Objects in the domain allocate nothing for the program, so its allocators are never called; but half a pair is an
    // error.
    let allocators = attr.comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS != 0;
    if attr.pd.is_null() || (allocators && (attr.alloc.is_none() || attr.free.is_none())) {
        return Err(libc::EINVAL);
    }
    // SAFETY: a domain of ours, and a thread domain of ours or null.
    of_one(context, &unsafe { contexts_of!(attr.pd, attr.td) })?;
    // SAFETY: a domain of ours.
    let pd = unsafe { Pd::of(attr.pd) };
    pd.process().control(|hca, _| hca.hold_pd(pd.id))?;
    if !attr.td.is_null() {
        // SAFETY: a thread domain of ours.
        unsafe { Td::of(attr.td) }.hold();
    }
    Ok(Pd::make(context, pd.id, Some(attr.td)))
}

pub(crate) unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    pointer(parent_domain(context, attr))
}
