//! Calls of the C library that take memory away.

use std::cell::Cell;
use std::ffi::c_void;

use libc::{c_int, size_t};
use weft_check::model::{Finding, Release};

use crate::arguments::handle;
use crate::bounds;
use crate::call::Call;
use crate::next::{Next, next};

/// Breaches of a call that takes memory away. They are looked for before the call, because another thread may get the memory
/// as soon as it is free, and reported if the call succeeds.
struct Releases {
    /// The breaches in each range. Their memory is freed before `call` ends: `free` would otherwise begin another one.
    findings: Vec<Vec<Finding>>,
    call: Call,
}

impl Releases {
    /// `None` if no range may be registered. A range is an address and a length.
    fn foresee(name: &'static str, ranges: &[(u64, u64)], how: Release) -> Option<Releases> {
        if !ranges.iter().any(|(address, length)| bounds::may_be_registered(*address, *length)) {
            return None;
        }
        let call = Call::enter_unnoted(name)?;
        let find = |(address, length): &(u64, u64)| {
            call.foresee(|model, site| model.release_memory(*address, *length, how, site))
        };
        let findings = ranges.iter().map(find).collect();
        Some(Releases { findings, call })
    }

    /// The call took this range away.
    fn report(&mut self, range: usize) {
        if let Some(findings) = self.findings.get_mut(range) {
            self.call.report(std::mem::take(findings));
        }
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
    let Some(next) = next!(munmap: Munmap) else { return -1 };
    let releases = Releases::foresee("munmap", &[(handle(address), length as u64)], Release::Unmap);
    // SAFETY: the caller's promise.
    let result = unsafe { next(address, length) };
    if let Some(mut releases) = releases.filter(|_| result == 0) {
        releases.report(0);
    }
    result
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
    let at = handle(address);
    let shrunk = (at.saturating_add(new_length as u64), length.saturating_sub(new_length) as u64);
    let target = (handle(to), if flags & libc::MREMAP_FIXED == 0 { 0 } else { new_length as u64 });
    let releases = Releases::foresee("mremap", &[(at, length as u64), shrunk, target], Release::Unmap);
    // SAFETY: the caller's promise.
    let moved = unsafe { next(address, length, new_length, flags, to) };
    if let Some(mut releases) = releases.filter(|_| moved != libc::MAP_FAILED) {
        releases.report(usize::from(moved == address));
        releases.report(2);
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
    if bounds::may_be_registered(handle(pointer), 1) && !pointer.is_null() {
        // SAFETY: the caller's promise: a block of the allocator.
        let length = unsafe { libc::malloc_usable_size(pointer) };
        // The call does not fail.
        if let Some(mut releases) = Releases::foresee("free", &[(handle(pointer), length as u64)], Release::Free) {
            releases.report(0);
        }
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
    if pointer.is_null() || !bounds::may_be_registered(handle(pointer), 1) {
        // SAFETY: the caller's promise.
        return unsafe { next(pointer, length) };
    }
    // SAFETY: the caller's promise: a block of the allocator.
    let usable = unsafe { libc::malloc_usable_size(pointer) };
    let old = handle(pointer);
    let releases = Releases::foresee("realloc", &[(old, usable as u64)], Release::Free);
    // SAFETY: the caller's promise.
    let moved = unsafe { next(pointer, length) };
    let is_freed = if moved.is_null() { length == 0 } else { handle(moved) != old };
    if let Some(mut releases) = releases.filter(|_| is_freed) {
        releases.report(0);
    }
    moved
}
