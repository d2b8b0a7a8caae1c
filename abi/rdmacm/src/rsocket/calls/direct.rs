//! Direct data placement into buffers that one side maps for the other.

use libc::{c_int, c_void, iovec, off_t};
use std::sync::Arc;

use super::sized;
use crate::errors::{code, fail};
use crate::rsocket::index::{self, Rsocket};
use crate::rsocket::stream::Stream;

fn stream(socket: c_int) -> Result<Arc<Stream>, c_int> {
    match index::socket(socket)? {
        Rsocket::Stream(stream) => Ok(stream),
        _ => Err(libc::EOPNOTSUPP),
    }
}

/// Maps a buffer: with PROT_WRITE the peer may write it, at offsets from `offset` on, or from the buffer's own address
/// on if that is -1. Returns the first offset.
pub extern "C" fn riomap(
    socket: c_int,
    buf: *mut c_void,
    len: usize,
    prot: c_int,
    _flags: c_int,
    offset: off_t,
) -> off_t {
    let mapped = stream(socket).and_then(|stream| stream.map(buf, len, prot, offset));
    mapped.unwrap_or_else(|errno| fail(errno).into())
}

/// Removes a mapping.
pub extern "C" fn riounmap(socket: c_int, buf: *mut c_void, len: usize) -> c_int {
    code(stream(socket).and_then(|stream| stream.unmap(buf, len)))
}

/// Writes into buffers that the peer mapped; returns the number of bytes written.
pub unsafe extern "C" fn riowrite(
    socket: c_int,
    buf: *const c_void,
    count: usize,
    offset: off_t,
    flags: c_int,
) -> usize {
    let buffer = iovec { iov_base: buf.cast_mut(), iov_len: count };
    // SAFETY: the caller's buffer.
    let written = unsafe { stream(socket).and_then(|stream| stream.write_mapped(buffer, offset, flags)) };
    sized(written).cast_unsigned()
}
