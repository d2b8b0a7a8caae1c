//! The original calls of each context, by its address. Readers take no lock: a wrapper that a library calls while this
//! thread holds the model's lock must find them, too.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use weft_abi_types::{ibv_context, ibv_context_ops, verbs_context};

/// Contexts that can be open at a time. Later ones stay unchecked.
const CONTEXTS_MAX: usize = 1024;
/// Marks the place of a closed context, which a search must pass.
const CLOSED: usize = 1;

/// A context's calls as its library set them.
pub struct Originals {
    /// Calls of the context.
    pub ops: ibv_context_ops,
    /// Whether a `verbs_context` surrounds it, and its calls. Its `context` and `priv_` are not used.
    pub extended: Option<ExtendedCalls>,
}

/// Defines the calls of a `verbs_context` that are wrapped.
macro_rules! extended_calls {
    ($($field:ident: fn($($arg:ty),*) -> $ret:ty;)*) => {
        /// Calls of a `verbs_context`. A call that the library lacks is `None`.
        #[derive(Clone, Copy, Default)]
        pub struct ExtendedCalls {
            $(pub $field: Option<unsafe extern "C" fn($($arg),*) -> $ret>,)*
        }

        impl ExtendedCalls {
            /// Reads the calls of a context.
            ///
            /// # Safety
            /// The context is alive, and its size field right.
            pub unsafe fn read(context: *mut verbs_context) -> ExtendedCalls {
                let mut calls = ExtendedCalls::default();
                $(
                    // SAFETY: the size says that the field exists.
                    unsafe {
                        if (*context).sz >= size_of::<verbs_context>() - std::mem::offset_of!(verbs_context, $field) {
                            calls.$field = (*context).$field;
                        }
                    }
                )*
                calls
            }

            /// Replaces the calls that the library has.
            ///
            /// # Safety
            /// As [`ExtendedCalls::read`], and no other thread uses the context yet.
            pub unsafe fn replace(&self, context: *mut verbs_context, by: &ExtendedCalls) {
                $(
                    if self.$field.is_some() && by.$field.is_some() {
                        // SAFETY: the field exists, because a call was read from it.
                        unsafe { (*context).$field = by.$field };
                    }
                )*
            }
        }
    };
}

use libc::c_uint;
use weft_abi_types::{
    ibv_cq_ex, ibv_cq_init_attr_ex, ibv_dm, ibv_mr, ibv_mr_init_attr, ibv_parent_domain_init_attr, ibv_pd, ibv_qp,
    ibv_qp_init_attr_ex, ibv_qp_open_attr, ibv_srq, ibv_srq_init_attr_ex,
};

extended_calls! {
    create_qp_ex: fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp;
    open_qp: fn(*mut ibv_context, *mut ibv_qp_open_attr) -> *mut ibv_qp;
    create_cq_ex: fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex;
    create_srq_ex: fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq;
    reg_dm_mr: fn(*mut ibv_pd, *mut ibv_dm, u64, usize, c_uint) -> *mut ibv_mr;
    alloc_null_mr: fn(*mut ibv_pd) -> *mut ibv_mr;
    reg_mr_ex: fn(*mut ibv_pd, *mut ibv_mr_init_attr) -> *mut ibv_mr;
    alloc_parent_domain: fn(*mut ibv_context, *mut ibv_parent_domain_init_attr) -> *mut ibv_pd;
}

struct Slot {
    context: AtomicUsize,
    originals: AtomicPtr<Originals>,
}

static TABLE: [Slot; CONTEXTS_MAX] =
    [const { Slot { context: AtomicUsize::new(0), originals: AtomicPtr::new(std::ptr::null_mut()) } }; CONTEXTS_MAX];

fn places(context: usize) -> impl Iterator<Item = &'static Slot> {
    let start = (context >> 4).wrapping_mul(0x9e37_79b9) % CONTEXTS_MAX;
    TABLE[start..].iter().chain(&TABLE[..start])
}

/// Stores a context's calls; false if the table is full. The model's lock is held.
pub fn insert(context: *mut ibv_context, originals: Originals) -> bool {
    let key = context.addr();
    let Some(slot) = places(key).find(|slot| slot.context.load(Ordering::Relaxed) <= CLOSED) else { return false };
    // Never freed: another thread may still be reading. Their number is that of the contexts opened.
    slot.originals.store(Box::into_raw(Box::new(originals)), Ordering::Release);
    slot.context.store(key, Ordering::Release);
    true
}

/// Takes a context out that is about to be closed. The model's lock is held.
pub fn take(context: *mut ibv_context) -> *mut Originals {
    let Some(slot) = places(context.addr()).find(|slot| slot.context.load(Ordering::Relaxed) == context.addr()) else {
        return std::ptr::null_mut();
    };
    slot.context.store(CLOSED, Ordering::Release);
    slot.originals.load(Ordering::Relaxed)
}

/// Puts a context back that could not be closed. The model's lock is held.
pub fn give_back(context: *mut ibv_context, originals: *mut Originals) {
    let place = places(context.addr()).find(|slot| slot.context.load(Ordering::Relaxed) <= CLOSED);
    if let Some(slot) = place.filter(|_| !originals.is_null()) {
        slot.originals.store(originals, Ordering::Release);
        slot.context.store(context.addr(), Ordering::Release);
    }
}

/// Returns a context's calls.
pub fn find(context: *mut ibv_context) -> Option<&'static Originals> {
    let key = context.addr();
    let mut taken = places(key).take_while(|slot| slot.context.load(Ordering::Acquire) != 0);
    let slot = taken.find(|slot| slot.context.load(Ordering::Acquire) == key)?;
    // SAFETY: stored before the key, and never freed.
    unsafe { slot.originals.load(Ordering::Acquire).as_ref() }
}
