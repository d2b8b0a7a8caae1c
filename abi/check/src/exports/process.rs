//! Calls of the C library that take memory away.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_int, size_t};
use weft_check::model::Release;

use crate::arguments::handle;
use crate::call::Call;
use crate::next::{Next, next};
use crate::state;

/// Bounds of registered memory: calls outside them cost nothing.
static LOWEST: AtomicU64 = AtomicU64::new(u64::MAX);
static HIGHEST: AtomicU64 = AtomicU64::new(0);

/// Reads the bounds after a registration or deregistration.
pub fn regions_changed() {
    let (low, high) = state::with(|state| state.model.registered_bounds()).unwrap_or((u64::MAX, 0));
    LOWEST.store(low, Ordering::Relaxed);
    HIGHEST.store(high, Ordering::Relaxed);
}

fn may_be_registered(address: u64, length: u64) -> bool {
    address < HIGHEST.load(Ordering::Relaxed) && LOWEST.load(Ordering::Relaxed) < address.saturating_add(length)
}

fn release(name: &'static str, address: u64, length: u64, how: Release) {
    if may_be_registered(address, length)
        && let Some(call) = Call::enter_unnoted(name)
    {
        call.tell_briefly(|model, _, site| model.release_memory(address, length, how, site));
    }
}

type Munmap = unsafe extern "C" fn(*mut c_void, size_t) -> c_int;
type Realloc = unsafe extern "C" fn(*mut c_void, size_t) -> *mut c_void;
type Mremap = unsafe extern "C" fn(*mut c_void, size_t, size_t, c_int, ...) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);

/// munmap(2).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, length: size_t) -> c_int {
    release("munmap", handle(address), length as u64, Release::Unmap);
    match next!(munmap: Munmap) {
        // SAFETY: the caller's promise.
        Some(next) => unsafe { next(address, length) },
        None => -1,
    }
}

/// mremap(2). The fifth argument is read whether or not the flags ask for it, as in a system call.
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    address: *mut c_void,
    length: size_t,
    new_length: size_t,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    let Some(next) = next!(mremap: Mremap) else { return libc::MAP_FAILED };
    // SAFETY: the caller's promise.
    let moved = unsafe { next(address, length, new_length, flags, to) };
    if moved != libc::MAP_FAILED && (moved != address || new_length < length) {
        let kept = if moved == address { new_length } else { 0 };
        release("mremap", handle(address) + kept as u64, (length - kept) as u64, Release::Unmap);
    }
    moved
}

static FREE: Next = Next::new(c"free");

thread_local! {
    /// Whether this thread is looking up the allocator's call, which may itself free memory.
    static LOOKING_UP: Cell<bool> = const { Cell::new(false) };
}

/// free(3).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(pointer: *mut c_void) {
    if may_be_registered(handle(pointer), 1) && !pointer.is_null() {
        // SAFETY: the caller's promise: a block of the allocator.
        let length = unsafe { libc::malloc_usable_size(pointer) };
        release("free", handle(pointer), length as u64, Release::Free);
    }
    // Thread-local storage is out of bounds later on: the loader calls this function while it brings a thread's up to date.
    let mut next = FREE.known();
    if next.is_null() {
        if LOOKING_UP.try_with(|looking| looking.replace(true)).unwrap_or(false) {
            // A block that the loader frees while it looks up `free` is lost.
            return;
        }
        next = FREE.address();
        let _ = LOOKING_UP.try_with(|looking| looking.set(false));
    }
    // SAFETY: the symbol has this type in every library that defines it; null is `None`.
    if let Some(next) = unsafe { std::mem::transmute::<*mut c_void, Option<Free>>(next) } {
        // SAFETY: the caller's promise.
        unsafe { next(pointer) };
    }
}

/// realloc(3). A block that moves is freed at its old place.
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(pointer: *mut c_void, length: size_t) -> *mut c_void {
    let Some(next) = next!(realloc: Realloc) else { return std::ptr::null_mut() };
    if pointer.is_null() || !may_be_registered(handle(pointer), 1) {
        // SAFETY: the caller's promise.
        return unsafe { next(pointer, length) };
    }
    let old = handle(pointer);
    // SAFETY: the caller's promise: a block of the allocator.
    let (usable, moved) = unsafe { (libc::malloc_usable_size(pointer), next(pointer, length)) };
    if !moved.is_null() && handle(moved) != old {
        release("realloc", old, usable as u64, Release::Free);
    }
    moved
}
