//! `librdmacm.so.1`: loads wherever rdma-core's does, and answers as it does on a machine where the RDMA connection
//! manager is absent: no devices, no event channels, no rsockets.
//!
//! Calls that need an identifier, which nobody can obtain, are stubs; `rdmacm.sym` names them.

#![allow(clippy::missing_safety_doc, reason = "the contracts are those of the rdma_cm and rsocket manual pages")]

mod channel;
mod event;
mod exports;
mod rsocket;

/// Sets errno and returns -1.
fn fail(errno: libc::c_int) -> libc::c_int {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// Sets errno and returns null.
fn fail_null<T>(errno: libc::c_int) -> *mut T {
    fail(errno);
    std::ptr::null_mut()
}
