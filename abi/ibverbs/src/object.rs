//! Objects that programs hold pointers to: the public C structure first, then the private part.
//!
//! The public part is in an `UnsafeCell`, since programs read and write it at any time.

use libc::{pthread_cond_t, pthread_mutex_t};
use std::cell::UnsafeCell;

/// An object behind a public pointer.
///
/// # Safety
/// The type is `repr(C)` and begins with `UnsafeCell<Self::Public>`.
pub(crate) unsafe trait Object: Sized {
    /// The C structure.
    type Public;

    /// Returns the object behind a pointer from the program.
    ///
    /// # Safety
    /// The pointer came from [`Object::leak`] of this type and was not freed.
    unsafe fn of<'a>(public: *mut Self::Public) -> &'a Self {
        // SAFETY: by the contract of the trait and of this function.
        unsafe { &*public.cast::<Self>() }
    }

    /// Returns the public pointer.
    fn public(&self) -> *mut Self::Public {
        std::ptr::from_ref(self).cast::<UnsafeCell<Self::Public>>().cast_mut().cast()
    }

    /// Hands the object to the program.
    fn leak(self) -> *mut Self::Public {
        Box::into_raw(Box::new(self)).cast()
    }

    /// Takes the object back and frees it.
    ///
    /// # Safety
    /// The pointer came from [`Object::leak`] of this type, and no code uses it any more.
    unsafe fn free(public: *mut Self::Public) {
        // SAFETY: by the contract.
        drop(unsafe { Box::from_raw(public.cast::<Self>()) });
    }
}

/// Returns a C structure with all bytes zero.
pub(crate) fn zeroed<T: Plain>() -> T {
    // SAFETY: Plain types are valid as zeroes.
    unsafe { std::mem::zeroed() }
}

/// C structures for which all zeroes are a valid value: integers, raw pointers, `Option`s of function pointers.
///
/// # Safety
/// All zero bytes are a valid value of the type.
pub(crate) unsafe trait Plain {}

macro_rules! plain {
    ($($ty:ident)*) => {$(
        // SAFETY: made of integers, raw pointers, optional function pointers and pthread objects.
        unsafe impl Plain for weft_abi_types::$ty {}
    )*};
}
plain! {
    ibv_ah ibv_async_event ibv_comp_channel ibv_cq_ex ibv_device_attr ibv_device_attr_ex ibv_dm ibv_gid_entry ibv_mr
    ibv_mw ibv_pd ibv_port_attr ibv_qp_attr ibv_qp_init_attr ibv_srq ibv_td ibv_wc ibv_xrcd verbs_context
    verbs_device verbs_qp ibv_ah_attr
}

/// Initialises the mutex and condition in a public structure. Programs may lock them, so they are real ones.
///
/// # Safety
/// Both point into an object that no other code uses yet.
pub(crate) unsafe fn init_sync(mutex: *mut pthread_mutex_t, cond: *mut pthread_cond_t) {
    // SAFETY: by the contract.
    unsafe {
        libc::pthread_mutex_init(mutex, std::ptr::null());
        libc::pthread_cond_init(cond, std::ptr::null());
    }
}

/// Adds acknowledged events to the count, and wakes the threads that wait to destroy the object.
///
/// # Safety
/// All three point into a live object with an initialised mutex and condition.
pub(crate) unsafe fn acknowledge(mutex: *mut pthread_mutex_t, cond: *mut pthread_cond_t, count: *mut u32, events: u32) {
    // SAFETY: by the contract.
    unsafe {
        libc::pthread_mutex_lock(mutex);
        *count = (*count).wrapping_add(events);
        libc::pthread_cond_broadcast(cond);
        libc::pthread_mutex_unlock(mutex);
    }
}

/// Waits until the number of acknowledged events equals the number reported.
///
/// # Safety
/// As for [`acknowledge`].
pub(crate) unsafe fn wait_acknowledged(
    mutex: *mut pthread_mutex_t,
    cond: *mut pthread_cond_t,
    count: *const u32,
    reported: u32,
) {
    // SAFETY: by the contract.
    unsafe {
        libc::pthread_mutex_lock(mutex);
        // acknowledge() changes the count under the mutex, which the wait releases.
        while count.read_volatile() != reported {
            libc::pthread_cond_wait(cond, mutex);
        }
        libc::pthread_mutex_unlock(mutex);
    }
}
