//! Datagrams in.

use std::mem::MaybeUninit;
use std::net::SocketAddrV4;
use std::os::fd::{FromRawFd, OwnedFd};

use libc::{c_int, c_void, iovec, msghdr};
use weft_rds::local::{HEAD_LEN, Kind, Message};

use crate::failure::{Failure, waited};
use crate::next;

/// Flags that the Unix socket gets.
const FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_PEEK | libc::MSG_WAITALL;
/// Bytes for a descriptor that accompanies a record.
const CONTROL_BYTES: usize = 64;

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Sender.
    pub from: SocketAddrV4,
    /// Bytes of the datagram.
    pub length: usize,
    /// Bytes in the program's buffers.
    pub copied: usize,
}

impl Received {
    /// Number that the call returns: with MSG_TRUNC the length of the datagram.
    pub fn count(&self, flags: c_int) -> usize {
        if flags & libc::MSG_TRUNC != 0 { self.length } else { self.copied }
    }
}

/// Room for a control message, aligned as the kernel writes it.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Receives a datagram into the program's buffers.
///
/// # Safety
/// The buffers are writable.
pub unsafe fn receive(fd: c_int, buffers: &[iovec], flags: c_int) -> Result<Received, Failure> {
    let mut head = [0_u8; HEAD_LEN];
    let mut pieces = vec![iovec { iov_base: head.as_mut_ptr().cast(), iov_len: HEAD_LEN }];
    pieces.extend_from_slice(buffers);
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: zeroes are a valid msghdr.
    let mut message: msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = pieces.as_mut_ptr();
    message.msg_iovlen = pieces.len();
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = CONTROL_BYTES;
    // SAFETY: the head and the control buffer live as long as the call, and the caller answers for the others.
    let count = unsafe { next::recvmsg(fd, &mut message, flags & FLAGS | libc::MSG_CMSG_CLOEXEC) };
    let Ok(count) = usize::try_from(count) else { return Err(waited(fd, flags, std::io::Error::last_os_error())) };
    // SAFETY: the kernel has filled the control buffer.
    let file = unsafe { descriptor(&message) };
    if count == 0 {
        return Err(Failure(libc::ENETDOWN));
    }
    let Some((datagram, _)) = Message::parse(&head).filter(|(m, _)| count >= HEAD_LEN && m.kind == Kind::Datagram)
    else {
        return Err(Failure(libc::EPROTO));
    };
    let length = datagram.length as usize;
    let copied = match file {
        // SAFETY: the caller's promise.
        Some(file) if datagram.is_in_file => unsafe { copy_file(&file, buffers, length)? },
        _ => count - HEAD_LEN,
    };
    Ok(Received { from: datagram.address, length, copied })
}

/// Returns the descriptor that accompanies a record.
///
/// # Safety
/// The kernel has filled the control buffer.
unsafe fn descriptor(message: &msghdr) -> Option<OwnedFd> {
    // SAFETY: the buffer holds whole control messages; a descriptor in it is ours.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        if header.is_null() || (*header).cmsg_level != libc::SOL_SOCKET || (*header).cmsg_type != libc::SCM_RIGHTS {
            return None;
        }
        let number = libc::CMSG_DATA(header).cast::<c_int>().read_unaligned();
        Some(OwnedFd::from_raw_fd(number))
    }
}

/// Copies a file's beginning into the program's buffers. Returns the number of bytes.
///
/// # Safety
/// The buffers are writable.
unsafe fn copy_file(file: &OwnedFd, buffers: &[iovec], length: usize) -> Result<usize, Failure> {
    let mut copied = 0;
    for buffer in buffers {
        let wanted = buffer.iov_len.min(length - copied);
        if wanted == 0 {
            continue;
        }
        // SAFETY: the caller's promise.
        let into =
            unsafe { std::slice::from_raw_parts_mut(buffer.iov_base.cast::<MaybeUninit<u8>>().cast::<u8>(), wanted) };
        let count = rustix::io::pread(file, into, copied as u64).map_err(std::io::Error::from)?;
        copied += count;
        if count < wanted {
            break;
        }
    }
    Ok(copied)
}

/// Returns one buffer as a list.
pub fn buffer(data: *mut c_void, length: usize) -> [iovec; 1] {
    [iovec { iov_base: data, iov_len: length }]
}
