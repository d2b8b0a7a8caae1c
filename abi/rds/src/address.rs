//! Socket addresses of C.

use std::net::{Ipv4Addr, SocketAddrV4};

use libc::{sockaddr, sockaddr_in, socklen_t};

use crate::failure::Failure;

/// Reads an IPv4 address.
///
/// # Safety
/// There are `length` readable bytes at `address`.
pub unsafe fn read(address: *const sockaddr, length: socklen_t) -> Result<SocketAddrV4, Failure> {
    if address.is_null() || (length as usize) < size_of::<sockaddr_in>() {
        return Err(Failure(libc::EINVAL));
    }
    // SAFETY: the caller's promise; the structure has no invalid values, and may lie at any address.
    let raw = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
    if i32::from(raw.sin_family) != libc::AF_INET {
        return Err(Failure(libc::EINVAL));
    }
    Ok(SocketAddrV4::new(Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr)), u16::from_be(raw.sin_port)))
}

/// Writes an address as far as there is room, and its whole length.
///
/// # Safety
/// `length` is null, or points to the number of writable bytes at `address`.
pub unsafe fn write(address: SocketAddrV4, to: *mut sockaddr, length: *mut socklen_t) {
    if to.is_null() || length.is_null() {
        return;
    }
    let raw = sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
        sin_zero: [0; 8],
    };
    let whole = size_of::<sockaddr_in>();
    // SAFETY: the caller's promise; no more bytes are written than there is room for.
    unsafe {
        let room = (length.read() as usize).min(whole);
        std::ptr::copy_nonoverlapping((&raw const raw).cast::<u8>(), to.cast::<u8>(), room);
        length.write(whole as socklen_t);
    }
}

/// Writes an address, or the length 0 if there is none.
///
/// # Safety
/// `length` is null, or points to the number of writable bytes at `to`.
pub unsafe fn write_optional(address: Option<SocketAddrV4>, to: *mut sockaddr, length: *mut socklen_t) {
    // SAFETY: the caller's promise.
    unsafe {
        match address {
            Some(address) => write(address, to, length),
            None if to.is_null() || length.is_null() => {}
            None => length.write(0),
        }
    }
}
