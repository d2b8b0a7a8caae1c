//! Options of RDS sockets (`<linux/rds.h>`).

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use libc::{c_int, socklen_t};
use weft_rds::local::Operation;

use crate::address;
use crate::failure::Failure;
use crate::names::{
    AF_RDS, CANCEL_SENT_TO, CONG_MONITOR, FREE_MR, GET_MR, GET_MR_FOR_DEST, INFO_FIRST, INFO_LAST, RECVERR,
    SO_RDS_TRANSPORT, SOL_RDS, TRANS_IB, TRANS_NONE,
};
use crate::rdma;
use crate::service::{self, NOWHERE};
use crate::sockets::Socket;

/// Result of an option: the value that the call returns; `None`: the C library has the option.
pub type Answer = Result<Option<c_int>, Failure>;

/// # Safety
/// There are `length` readable bytes at `value`.
unsafe fn number(value: *const c_void, length: socklen_t) -> Result<c_int, Failure> {
    if value.is_null() || (length as usize) < size_of::<c_int>() {
        return Err(Failure(libc::EINVAL));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { value.cast::<c_int>().read_unaligned() })
}

/// Sets an option.
///
/// # Safety
/// There are `length` readable bytes at `value`.
pub unsafe fn set(
    fd: BorrowedFd<'_>,
    socket: &Socket,
    (level, name): (c_int, c_int),
    value: *const c_void,
    length: socklen_t,
) -> Answer {
    // SAFETY: the caller's promise.
    let number = || unsafe { number(value, length) };
    let call = |operation, address, value| service::call(fd, operation, address, value).map(|(message, _)| message);
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => {
            let size = call(Operation::SendBuffer, NOWHERE, number()?.max(0) as u64)?.value;
            socket.send_buffer.store(size as u32, Ordering::Relaxed);
        }
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => {
            let size = call(Operation::ReceiveBuffer, NOWHERE, number()?.max(0) as u64)?.value;
            socket.receive_buffer.store(size as u32, Ordering::Relaxed);
        }
        (SOL_RDS, CANCEL_SENT_TO) => {
            // SAFETY: the caller's promise.
            let to = unsafe { address::read(value.cast(), length) }?;
            call(Operation::Cancel, to, 0)?;
        }
        (SOL_RDS, RECVERR | CONG_MONITOR) => {
            // Congestion is never reported: a datagram to a congested port waits.
            let bit = 1 << name;
            if number()? != 0 {
                socket.switches.fetch_or(bit, Ordering::Relaxed);
            } else {
                socket.switches.fetch_and(!bit, Ordering::Relaxed);
            }
        }
        // SAFETY: the caller's promise.
        (SOL_RDS, GET_MR) => unsafe { rdma::offer(fd, socket, value, length) }?,
        // SAFETY: the caller's promise.
        (SOL_RDS, GET_MR_FOR_DEST) => unsafe { rdma::offer_for(fd, socket, value, length) }?,
        // SAFETY: the caller's promise.
        (SOL_RDS, FREE_MR) => unsafe { rdma::withdraw(fd, socket, value, length) }?,
        (SOL_RDS, SO_RDS_TRANSPORT) => {
            if socket.bound().is_some() || number()? != TRANS_IB {
                return Err(Failure(libc::EOPNOTSUPP));
            }
        }
        (SOL_RDS, _) => return Err(Failure(libc::EOPNOTSUPP)),
        _ => return Ok(None),
    }
    Ok(Some(0))
}

/// Returns an option.
///
/// # Safety
/// `length` points to the number of writable bytes at `value`.
pub unsafe fn get(
    fd: BorrowedFd<'_>,
    socket: &Socket,
    (level, name): (c_int, c_int),
    value: *mut c_void,
    length: *mut socklen_t,
) -> Answer {
    let doubled = |size: u32| (size as c_int).saturating_mul(2);
    let number = match (level, name) {
        (SOL_RDS, INFO_FIRST..=INFO_LAST) => {
            // SAFETY: the caller's promise.
            return unsafe { info(fd, name, value, length) }.map(Some);
        }
        // The kernel's sizes count its own overhead, too.
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => doubled(socket.send_buffer.load(Ordering::Relaxed)),
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => doubled(socket.receive_buffer.load(Ordering::Relaxed)),
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => AF_RDS,
        (SOL_RDS, RECVERR | CONG_MONITOR) => c_int::from(socket.switches.load(Ordering::Relaxed) & (1 << name) != 0),
        (SOL_RDS, SO_RDS_TRANSPORT) => match socket.bound() {
            Some(_) => TRANS_IB,
            None => TRANS_NONE,
        },
        (SOL_RDS, _) => return Err(Failure(libc::ENOPROTOOPT)),
        _ => return Ok(None),
    };
    let whole = size_of::<c_int>();
    // SAFETY: the caller's promise; no more is written than there is room for.
    unsafe {
        if value.is_null() || length.is_null() || (length.read() as usize) < whole {
            return Err(Failure(libc::EINVAL));
        }
        value.cast::<c_int>().write_unaligned(number);
        length.write(whole as socklen_t);
    }
    Ok(Some(0))
}

/// Returns a list for rds-info, and the bytes of one entry.
///
/// # Safety
/// `length` points to the number of writable bytes at `value`.
unsafe fn info(fd: BorrowedFd<'_>, name: c_int, value: *mut c_void, length: *mut socklen_t) -> Result<c_int, Failure> {
    let (message, bytes) = service::call(fd, Operation::Info, NOWHERE, name as u64)?;
    if length.is_null() {
        return Err(Failure(libc::EFAULT));
    }
    // SAFETY: the caller's promise; the list is written only if it fits.
    unsafe {
        let room = length.read() as usize;
        length.write(bytes.len() as socklen_t);
        if room < bytes.len() {
            return Err(Failure(libc::ENOSPC));
        }
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast::<u8>(), bytes.len());
    }
    Ok(message.value as c_int)
}
