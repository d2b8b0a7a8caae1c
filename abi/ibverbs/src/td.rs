//! Thread domains. A thread domain promises that one thread uses the objects created with it;
//! nothing here is slower without the promise, so the library only records it.

use libc::c_int;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};
use weft_abi_types::{ibv_context, ibv_td, ibv_td_init_attr};

use crate::errors::{code, pointer};
use crate::object::{Object, zeroed};

/// A thread domain.
#[repr(C)]
pub(crate) struct Td {
    public: UnsafeCell<ibv_td>,
    /// Number of parent domains created with it.
    users: AtomicU32,
}

// SAFETY: repr(C), the public structure first.
unsafe impl Object for Td {
    type Public = ibv_td;
}

impl Td {
    /// Counts one parent domain more.
    pub(crate) fn hold(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one parent domain less.
    ///
    /// # Safety
    /// Null, or a live thread domain.
    pub(crate) unsafe fn release(td: *mut ibv_td) {
        if !td.is_null() {
            // SAFETY: by the contract.
            unsafe { Td::of(td) }.users.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn alloc(context: *mut ibv_context, attr: *mut ibv_td_init_attr) -> Result<*mut ibv_td, c_int> {
    if context.is_null() || attr.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's attributes.
    if unsafe { (*attr).comp_mask } != 0 {
        return Err(libc::EINVAL);
    }
    let mut public: ibv_td = zeroed();
    public.context = context;
    Ok(Td { public: UnsafeCell::new(public), users: AtomicU32::new(0) }.leak())
}

pub(crate) unsafe extern "C" fn alloc_td(context: *mut ibv_context, attr: *mut ibv_td_init_attr) -> *mut ibv_td {
    pointer(alloc(context, attr))
}

pub(crate) unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    if td.is_null() {
        return code(Err(libc::EINVAL));
    }
    // SAFETY: a thread domain of ours.
    if unsafe { Td::of(td) }.users.load(Ordering::Relaxed) > 0 {
        return code(Err(libc::EBUSY));
    }
    // SAFETY: the program gives it up.
    unsafe { Td::free(td) };
    0
}
