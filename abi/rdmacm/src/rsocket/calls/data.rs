//! Sending and receiving.

use libc::{c_int, c_void, iovec, msghdr, sockaddr, socklen_t};
use std::ptr::null_mut;

use super::sized;
use crate::rsocket::address::Address;
use crate::rsocket::index::{self, Rsocket};

/// Maximum number of buffers in one call: the kernel's limit.
const BUFFERS_MAX: usize = 1024;

/// Returns the buffers of a call.
///
/// # Safety
/// `iov` has `count` entries.
unsafe fn buffers<'a>(iov: *const iovec, count: usize) -> Result<&'a [iovec], c_int> {
    match count {
        0 => Ok(&[]),
        1..=BUFFERS_MAX if !iov.is_null() => {
            // SAFETY: the caller upholds the contract.
            Ok(unsafe { std::slice::from_raw_parts(iov, count) })
        }
        _ => Err(libc::EINVAL),
    }
}

/// # Safety
/// The buffers have room for their bytes; the address has room for the stated length, or either is null.
unsafe fn receive(
    socket: c_int,
    buffers: &[iovec],
    flags: c_int,
    addr: *mut sockaddr,
    addrlen: *mut socklen_t,
) -> Result<usize, c_int> {
    // SAFETY: the caller upholds the contract.
    unsafe {
        match index::socket(socket)? {
            Rsocket::Stream(stream) => {
                let bytes = stream.receive(buffers, flags)?;
                if bytes > 0
                    && !addr.is_null()
                    && let Ok(peer) = stream.peer_address()
                {
                    peer.write(addr, addrlen);
                }
                Ok(bytes)
            }
            Rsocket::Datagram(datagram) => {
                let (bytes, source) = datagram.receive(buffers, flags)?;
                if !addr.is_null() {
                    Address::from(source).write(addr, addrlen);
                }
                Ok(bytes)
            }
            Rsocket::Interests(_) => Err(libc::EBADF),
        }
    }
}

/// # Safety
/// The buffers have their bytes.
unsafe fn send(socket: c_int, buffers: &[iovec], flags: c_int, to: Option<Address>) -> Result<usize, c_int> {
    // SAFETY: the caller upholds the contract.
    unsafe {
        match (index::socket(socket)?, to) {
            (Rsocket::Stream(_), Some(_)) => Err(libc::EISCONN),
            (Rsocket::Stream(stream), None) => stream.send(buffers, flags),
            (Rsocket::Datagram(datagram), None) => datagram.send(buffers, flags, None),
            (Rsocket::Datagram(datagram), Some(to)) => {
                datagram.send(buffers, flags, Some(to.ip().ok_or(libc::EAFNOSUPPORT)?))
            }
            (Rsocket::Interests(_), _) => Err(libc::EBADF),
        }
    }
}

fn one(buf: *const c_void, len: usize) -> [iovec; 1] {
    [iovec { iov_base: buf.cast_mut(), iov_len: len }]
}

/// recv(2).
pub unsafe extern "C" fn rrecv(socket: c_int, buf: *mut c_void, len: usize, flags: c_int) -> isize {
    // SAFETY: the caller's buffer.
    sized(unsafe { receive(socket, &one(buf, len), flags, null_mut(), null_mut()) })
}

/// recvfrom(2).
pub unsafe extern "C" fn rrecvfrom(
    socket: c_int,
    buf: *mut c_void,
    len: usize,
    flags: c_int,
    src_addr: *mut sockaddr,
    addrlen: *mut socklen_t,
) -> isize {
    // SAFETY: the caller's buffer, and its place for an address.
    sized(unsafe { receive(socket, &one(buf, len), flags, src_addr, addrlen) })
}

/// recvmsg(2), without control data.
pub unsafe extern "C" fn rrecvmsg(socket: c_int, msg: *mut msghdr, flags: c_int) -> isize {
    // SAFETY: the caller's message, with its buffers and its place for an address.
    unsafe {
        if !(*msg).msg_control.is_null() && (*msg).msg_controllen != 0 {
            return sized(Err(libc::ENOTSUP));
        }
        let (addr, mut addrlen) = ((*msg).msg_name.cast::<sockaddr>(), (*msg).msg_namelen);
        let received = buffers((*msg).msg_iov, (*msg).msg_iovlen as _)
            .and_then(|buffers| receive(socket, buffers, flags, addr, &mut addrlen));
        if received.is_ok() {
            (*msg).msg_flags = 0;
            (*msg).msg_namelen = if addr.is_null() { 0 } else { addrlen };
        }
        sized(received)
    }
}

/// read(2).
pub unsafe extern "C" fn rread(socket: c_int, buf: *mut c_void, count: usize) -> isize {
    // SAFETY: the caller's buffer.
    unsafe { rrecv(socket, buf, count, 0) }
}

/// readv(2).
pub unsafe extern "C" fn rreadv(socket: c_int, iov: *const iovec, iovcnt: c_int) -> isize {
    let count = usize::try_from(iovcnt).unwrap_or(usize::MAX);
    // SAFETY: the caller's buffers.
    let received =
        unsafe { buffers(iov, count).and_then(|buffers| receive(socket, buffers, 0, null_mut(), null_mut())) };
    sized(received)
}

/// send(2).
pub unsafe extern "C" fn rsend(socket: c_int, buf: *const c_void, len: usize, flags: c_int) -> isize {
    // SAFETY: the caller's buffer.
    sized(unsafe { send(socket, &one(buf, len), flags, None) })
}

/// sendto(2).
pub unsafe extern "C" fn rsendto(
    socket: c_int,
    buf: *const c_void,
    len: usize,
    flags: c_int,
    dest_addr: *const sockaddr,
    addrlen: socklen_t,
) -> isize {
    // SAFETY: the caller's buffer and address.
    let sent = unsafe {
        let to = if dest_addr.is_null() { Ok(None) } else { Address::read(dest_addr, addrlen).map(Some) };
        to.and_then(|to| send(socket, &one(buf, len), flags, to))
    };
    sized(sent)
}

/// sendmsg(2), without control data.
pub unsafe extern "C" fn rsendmsg(socket: c_int, msg: *const msghdr, flags: c_int) -> isize {
    // SAFETY: the caller's message, with its buffers and its address.
    let sent = unsafe {
        if !(*msg).msg_control.is_null() && (*msg).msg_controllen != 0 {
            return sized(Err(libc::ENOTSUP));
        }
        let name = (*msg).msg_name.cast::<sockaddr>();
        // A stream needs no address, but programs may pass one.
        let unneeded = name.is_null() || matches!(index::find(socket), Some(Rsocket::Stream(_)));
        let to = if unneeded { Ok(None) } else { Address::read(name, (*msg).msg_namelen).map(Some) };
        to.and_then(|to| send(socket, buffers((*msg).msg_iov, (*msg).msg_iovlen as _)?, flags, to))
    };
    sized(sent)
}

/// write(2).
pub unsafe extern "C" fn rwrite(socket: c_int, buf: *const c_void, count: usize) -> isize {
    // SAFETY: the caller's buffer.
    unsafe { rsend(socket, buf, count, 0) }
}

/// writev(2).
pub unsafe extern "C" fn rwritev(socket: c_int, iov: *const iovec, iovcnt: c_int) -> isize {
    let count = usize::try_from(iovcnt).unwrap_or(usize::MAX);
    // SAFETY: the caller's buffers.
    sized(unsafe { buffers(iov, count).and_then(|buffers| send(socket, buffers, 0, None)) })
}
