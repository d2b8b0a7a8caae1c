//! The wrapped calls. Each looks whether the descriptor is an RDS socket, and passes to the C library otherwise.

use std::ffi::c_void;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};

use libc::{c_int, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use weft_rds::local::Operation;

use crate::address;
use crate::failure::{Failure, count, fail, status};
use crate::names::AF_RDS;
use crate::next;
use crate::options;
use crate::piece::Piece;
use crate::rdma::Control;
use crate::receiving::{self, Received};
use crate::sending;
use crate::service;
use crate::sockets::{self, Socket};

/// Bits of a socket's type that are flags.
const TYPE_FLAGS: c_int = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;

/// Returns the socket of a descriptor, with the descriptor.
fn find(fd: c_int) -> Option<(BorrowedFd<'static>, &'static Socket)> {
    let socket = sockets::find(fd)?;
    // SAFETY: the program keeps its descriptor open during the call.
    Some((unsafe { BorrowedFd::borrow_raw(fd) }, socket))
}

fn open(kind: c_int, protocol: c_int) -> Result<c_int, Failure> {
    if kind & !TYPE_FLAGS != libc::SOCK_SEQPACKET || protocol != 0 {
        return Err(Failure(libc::ESOCKTNOSUPPORT));
    }
    let socket = service::connect()?;
    if kind & libc::SOCK_NONBLOCK != 0 {
        rustix::io::ioctl_fionbio(&socket, true).map_err(std::io::Error::from)?;
    }
    if kind & libc::SOCK_CLOEXEC == 0 {
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::empty()).map_err(std::io::Error::from)?;
    }
    if !sockets::add(socket.as_raw_fd()) {
        return Err(Failure(libc::EMFILE));
    }
    Ok(socket.into_raw_fd())
}

/// socket(2).
#[unsafe(no_mangle)]
pub extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if domain == AF_RDS {
        return status(open(kind, protocol));
    }
    // SAFETY: numbers alone.
    unsafe { next::socket(domain, kind, protocol) }
}

/// close(2).
#[unsafe(no_mangle)]
pub extern "C" fn close(fd: c_int) -> c_int {
    sockets::remove(fd);
    // SAFETY: the program closes its own descriptor.
    unsafe { next::close(fd) }
}

/// dup(2).
#[unsafe(no_mangle)]
pub extern "C" fn dup(fd: c_int) -> c_int {
    // SAFETY: numbers alone.
    let to = unsafe { next::dup(fd) };
    sockets::copy(fd, to);
    to
}

/// dup2(2).
#[unsafe(no_mangle)]
pub extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    // SAFETY: the program gives its own descriptor up.
    let done = unsafe { next::dup2(fd, to) };
    sockets::copy(fd, done);
    done
}

/// dup3(2).
#[unsafe(no_mangle)]
pub extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: the program gives its own descriptor up.
    let done = unsafe { next::dup3(fd, to, flags) };
    sockets::copy(fd, done);
    done
}

fn bind_socket(fd: BorrowedFd<'_>, socket: &Socket, address: SocketAddrV4) -> Result<c_int, Failure> {
    let ip = address.ip();
    if ip.is_unspecified() || ip.is_broadcast() || ip.is_multicast() || socket.bound().is_some() {
        return Err(Failure(libc::EINVAL));
    }
    let (answer, _) = service::call(fd, Operation::Bind, address, 0)?;
    socket.set_bound(answer.address);
    Ok(0)
}

/// bind(2).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    let Some((fd, socket)) = find(fd) else {
        // SAFETY: the caller's promise.
        return unsafe { next::bind(fd, address, length) };
    };
    // SAFETY: the caller's promise.
    status(unsafe { address::read(address, length) }.and_then(|address| bind_socket(fd, socket, address)))
}

/// connect(2): datagrams that name no address go to this one.
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    let Some((_, socket)) = find(fd) else {
        // SAFETY: the caller's promise.
        return unsafe { next::connect(fd, address, length) };
    };
    // SAFETY: the caller's promise.
    match unsafe { address::read(address, length) } {
        Ok(address) if address.ip().is_unspecified() => fail(Failure(libc::EDESTADDRREQ)),
        Ok(address) => {
            socket.set_peer(address);
            0
        }
        Err(failure) => fail(failure),
    }
}

/// getsockname(2).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockname(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    let Some((_, socket)) = find(fd) else {
        // SAFETY: the caller's promise.
        return unsafe { next::getsockname(fd, address, length) };
    };
    // SAFETY: the caller's promise.
    unsafe { address::write(socket.bound().unwrap_or(service::NOWHERE), address, length) };
    0
}

/// getpeername(2).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpeername(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    let Some((_, socket)) = find(fd) else {
        // SAFETY: the caller's promise.
        return unsafe { next::getpeername(fd, address, length) };
    };
    let Some(peer) = socket.peer() else { return fail(Failure(libc::ENOTCONN)) };
    // SAFETY: the caller's promise.
    unsafe { address::write(peer, address, length) };
    0
}

/// send(2).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(fd: c_int, data: *const c_void, length: size_t, flags: c_int) -> ssize_t {
    match find(fd) {
        // SAFETY: the caller's promise.
        Some((fd, socket)) => unsafe { send_piece(fd, socket, None, data, length, flags) },
        // SAFETY: the caller's promise.
        None => unsafe { next::send(fd, data, length, flags) },
    }
}

/// write(2).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, data: *const c_void, length: size_t) -> ssize_t {
    match find(fd) {
        // SAFETY: the caller's promise.
        Some((fd, socket)) => unsafe { send_piece(fd, socket, None, data, length, 0) },
        // SAFETY: the caller's promise.
        None => unsafe { next::write(fd, data, length) },
    }
}

/// # Safety
/// There are `length` readable bytes at `data`.
unsafe fn send_piece(
    fd: BorrowedFd<'_>,
    socket: &Socket,
    to: Option<SocketAddrV4>,
    data: *const c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    count(unsafe { sending::send(fd, socket, to, &[Piece { address: data, length }], &Control::default(), flags) })
}

/// sendto(2).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    data: *const c_void,
    length: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_length: socklen_t,
) -> ssize_t {
    let Some((fd, socket)) = find(fd) else {
        // SAFETY: the caller's promise.
        return unsafe { next::sendto(fd, data, length, flags, to, to_length) };
    };
    // SAFETY: the caller's promise.
    match unsafe { optional_address(to, to_length) } {
        // SAFETY: the caller's promise.
        Ok(to) => unsafe { send_piece(fd, socket, to, data, length, flags) },
        Err(failure) => count(Err(failure)),
    }
}

/// # Safety
/// `address` is null, or there are `length` readable bytes.
unsafe fn optional_address(address: *const sockaddr, length: socklen_t) -> Result<Option<SocketAddrV4>, Failure> {
    if address.is_null() || length == 0 {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { address::read(address, length) }.map(Some)
}

/// sendmsg(2).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    let Some((fd, socket)) = find(fd) else {
        // SAFETY: the caller's promise.
        return unsafe { next::sendmsg(fd, message, flags) };
    };
    // SAFETY: the caller's promise.
    count(unsafe { send_message(fd, socket, &*message, flags) })
}

/// # Safety
/// The message is one for sendmsg(2).
unsafe fn send_message(fd: BorrowedFd<'_>, socket: &Socket, message: &msghdr, flags: c_int) -> Result<usize, Failure> {
    // SAFETY: the caller's promise.
    unsafe {
        let control = Control::of(message)?;
        let to = optional_address(message.msg_name.cast(), message.msg_namelen)?;
        let pieces: Vec<_> = buffers(message)
            .iter()
            .map(|piece| Piece { address: piece.iov_base.cast_const(), length: piece.iov_len })
            .collect();
        sending::send(fd, socket, to, &pieces, &control, flags)
    }
}

/// # Safety
/// The message's list of buffers is valid.
unsafe fn buffers(message: &msghdr) -> &[iovec] {
    if message.msg_iov.is_null() || message.msg_iovlen == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(message.msg_iov, message.msg_iovlen) }
}

/// # Safety
/// There are `length` writable bytes at `data`.
unsafe fn receive(fd: c_int, data: *mut c_void, length: size_t, flags: c_int) -> Result<Received, Failure> {
    // SAFETY: the caller's promise.
    unsafe { receiving::receive(fd, &receiving::buffer(data, length), flags) }
}

/// recv(2).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, data: *mut c_void, length: size_t, flags: c_int) -> ssize_t {
    match find(fd) {
        // SAFETY: the caller's promise.
        Some(_) => count(unsafe { receive(fd, data, length, flags) }.map(|received| received.count(flags))),
        // SAFETY: the caller's promise.
        None => unsafe { next::recv(fd, data, length, flags) },
    }
}

/// read(2).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, data: *mut c_void, length: size_t) -> ssize_t {
    match find(fd) {
        // SAFETY: the caller's promise.
        Some(_) => count(unsafe { receive(fd, data, length, 0) }.map(|received| received.copied)),
        // SAFETY: the caller's promise.
        None => unsafe { next::read(fd, data, length) },
    }
}

/// recvfrom(2).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    data: *mut c_void,
    length: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_length: *mut socklen_t,
) -> ssize_t {
    if find(fd).is_none() {
        // SAFETY: the caller's promise.
        return unsafe { next::recvfrom(fd, data, length, flags, from, from_length) };
    }
    // SAFETY: the caller's promise.
    let received = unsafe { receive(fd, data, length, flags) };
    if let Ok(received) = &received {
        // SAFETY: the caller's promise.
        unsafe { address::write_optional(received.from, from, from_length) };
    }
    count(received.map(|received| received.count(flags)))
}

/// recvmsg(2).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    if find(fd).is_none() {
        // SAFETY: the caller's promise.
        return unsafe { next::recvmsg(fd, message, flags) };
    }
    // SAFETY: the caller's promise.
    let message = unsafe { &mut *message };
    // SAFETY: the caller's promise.
    let received = unsafe { receiving::receive(fd, buffers(message), flags) };
    if let Ok(received) = &received {
        // SAFETY: the caller's promise.
        unsafe { address::write_optional(received.from, message.msg_name.cast(), &mut message.msg_namelen) };
        message.msg_flags = if received.copied < received.length { libc::MSG_TRUNC } else { 0 };
        // SAFETY: the caller's promise.
        unsafe { receiving::put_control(received.control, message) };
    }
    count(received.map(|received| received.count(flags)))
}

/// setsockopt(2).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    let own = match find(fd) {
        // SAFETY: the caller's promise.
        Some((fd, socket)) => unsafe { options::set(fd, socket, (level, name), value, length) },
        None => Ok(None),
    };
    match own {
        Ok(Some(done)) => done,
        // SAFETY: the caller's promise.
        Ok(None) => unsafe { next::setsockopt(fd, level, name, value, length) },
        Err(failure) => fail(failure),
    }
}

/// getsockopt(2).
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    let own = match find(fd) {
        // SAFETY: the caller's promise.
        Some((fd, socket)) => unsafe { options::get(fd, socket, (level, name), value, length) },
        None => Ok(None),
    };
    match own {
        Ok(Some(done)) => done,
        // SAFETY: the caller's promise.
        Ok(None) => unsafe { next::getsockopt(fd, level, name, value, length) },
        Err(failure) => fail(failure),
    }
}

/// recv(2) of programs that are compiled with _FORTIFY_SOURCE, with the size of the buffer.
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recv_chk(
    fd: c_int,
    data: *mut c_void,
    length: size_t,
    size: size_t,
    flags: c_int,
) -> ssize_t {
    match find(fd) {
        // SAFETY: the caller's promise; no more than the buffer's size is written.
        Some(_) => unsafe { recv(fd, data, length.min(size), flags) },
        // SAFETY: the caller's promise.
        None => unsafe { next::__recv_chk(fd, data, length, size, flags) },
    }
}

/// recvfrom(2), likewise.
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    data: *mut c_void,
    length: size_t,
    size: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_length: *mut socklen_t,
) -> ssize_t {
    match find(fd) {
        // SAFETY: the caller's promise; no more than the buffer's size is written.
        Some(_) => unsafe { recvfrom(fd, data, length.min(size), flags, from, from_length) },
        // SAFETY: the caller's promise.
        None => unsafe { next::__recvfrom_chk(fd, data, length, size, flags, from, from_length) },
    }
}

/// read(2), likewise.
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __read_chk(fd: c_int, data: *mut c_void, length: size_t, size: size_t) -> ssize_t {
    match find(fd) {
        // SAFETY: the caller's promise; no more than the buffer's size is written.
        Some(_) => unsafe { read(fd, data, length.min(size)) },
        // SAFETY: the caller's promise.
        None => unsafe { next::__read_chk(fd, data, length, size) },
    }
}
