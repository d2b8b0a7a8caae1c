//! Protection domains. A parent domain looks like one and represents the domain from which it was created.

use libc::c_int;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};
use weft_abi_types::{ibv_context, ibv_pd, ibv_td};
use weft_verbs::PdId;

use crate::context::Context;
use crate::errors::{code, fail_null, pointer};
use crate::object::{Object, zeroed};
use crate::owned::Owned;
use crate::process::Process;
use crate::td::Td;

/// A protection domain.
#[repr(C)]
pub(crate) struct Pd {
    public: UnsafeCell<ibv_pd>,
    pub(crate) id: PdId,
    /// Set for a parent domain; its thread domain may be null.
    parent: Option<*mut ibv_td>,
    /// Number of objects created on this very pointer, which show it to the program as their domain.
    users: AtomicU32,
}

// SAFETY: repr(C), the public structure first.
unsafe impl Object for Pd {
    type Public = ibv_pd;
}

impl Pd {
    /// Creates the object for a program. `parent` is as in the field.
    pub(crate) fn make(context: *mut ibv_context, id: PdId, parent: Option<*mut ibv_td>) -> *mut ibv_pd {
        let mut public: ibv_pd = zeroed();
        public.context = context;
        public.handle = id.index;
        Pd { public: UnsafeCell::new(public), id, parent, users: AtomicU32::new(0) }.leak()
    }

    /// Returns the context.
    pub(crate) fn context(&self) -> &Context {
        // SAFETY: contexts outlive their objects, and the program does not write the pointer.
        unsafe { Context::of((*self.public()).context) }
    }

    /// Returns the engine in which it lives.
    pub(crate) fn process(&self) -> Process {
        self.context().process
    }

    /// Counts an object that shows this domain as its own.
    pub(crate) fn hold(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// Reverses [`Pd::hold`], for the domain behind a pointer that may be null (XRC targets have none).
    ///
    /// # Safety
    /// Null, or a live domain.
    pub(crate) unsafe fn release(pd: *mut ibv_pd) {
        if !pd.is_null() {
            // SAFETY: by the contract.
            unsafe { Pd::of(pd) }.users.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn alloc(context: *mut ibv_context) -> Result<*mut ibv_pd, c_int> {
    if context.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: a context of ours.
    let this = unsafe { Context::of(context) };
    let id = this.process.control(|hca, _| hca.alloc_pd(this.device, 0))?;
    this.own(Owned::Pd(id));
    Ok(Pd::make(context, id, None))
}

/// Creates a protection domain.
pub extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    pointer(alloc(context))
}

fn dealloc(pd: *mut ibv_pd) -> Result<(), c_int> {
    if pd.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: a domain of ours.
    let this = unsafe { Pd::of(pd) };
    if this.users.load(Ordering::Relaxed) > 0 {
        return Err(libc::EBUSY);
    }
    match this.parent {
        Some(td) => {
            this.process().control(|hca, _| {
                hca.release_pd(this.id);
                Ok(())
            })?;
            // SAFETY: null, or the thread domain that the parent domain has been holding.
            unsafe { Td::release(td) };
        }
        None => {
            this.process().control(|hca, _| hca.dealloc_pd(this.id))?;
            this.context().disown(Owned::Pd(this.id));
        }
    }
    // SAFETY: the program gives the domain up.
    unsafe { Pd::free(pd) };
    Ok(())
}

/// Deallocates a protection domain or a parent domain.
pub extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    code(dealloc(pd))
}

/// Fails: protection domains cannot be shared between processes.
pub extern "C" fn ibv_import_pd(_context: *mut ibv_context, _pd_handle: u32) -> *mut ibv_pd {
    fail_null(libc::EOPNOTSUPP)
}

/// Does nothing: nothing can be imported.
pub extern "C" fn ibv_unimport_pd(_pd: *mut ibv_pd) {}
