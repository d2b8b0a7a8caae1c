//! Buffers that the library allocates: ordinary memory, page-aligned, that can be registered.

use libc::{c_int, c_void};
use weft_abi_types::{ibv_buf, ibv_pd};

use crate::errors::{errno, fail_minus_one, fail_null};

/// The object behind the opaque `ibv_buf`.
struct Buf {
    pd: *mut ibv_pd,
    addr: *mut c_void,
    size: usize,
}

/// Whether a range lies within a buffer of this domain.
pub(crate) fn holds(buf: *mut ibv_buf, pd: *mut ibv_pd, addr: *mut c_void, length: usize) -> bool {
    // SAFETY: null, or a buffer of ours.
    let Some(buf) = (unsafe { buf.cast::<Buf>().as_ref() }) else { return false };
    let Some(offset) = addr.addr().checked_sub(buf.addr.addr()) else { return false };
    buf.pd == pd && offset <= buf.size && length <= buf.size - offset
}

/// Allocates a buffer.
pub unsafe extern "C" fn ibv_alloc_buf(pd: *mut ibv_pd, size: usize, buf: *mut *mut ibv_buf) -> *mut c_void {
    if pd.is_null() || buf.is_null() || size == 0 {
        return fail_null(libc::EINVAL);
    }
    // SAFETY: a new mapping at an address of the kernel's choice.
    let addr = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if addr == libc::MAP_FAILED {
        return fail_null(errno());
    }
    // SAFETY: the caller's place for the handle.
    unsafe { *buf = Box::into_raw(Box::new(Buf { pd, addr, size })).cast() };
    addr
}

/// Frees a buffer.
pub unsafe extern "C" fn ibv_free_buf(buf: *mut ibv_buf) {
    if buf.is_null() {
        return;
    }
    // SAFETY: a buffer of ours, which the program gives up, with its mapping.
    unsafe {
        let buf = Box::from_raw(buf.cast::<Buf>());
        libc::munmap(buf.addr, buf.size);
    }
}

/// Fails: no buffer has a dma-buf.
pub extern "C" fn ibv_export_buf_dmabuf_fd(_buf: *mut ibv_buf) -> c_int {
    fail_minus_one(libc::ENODATA)
}
