//! Datagrams in.

use std::mem::MaybeUninit;
use std::net::SocketAddrV4;
use std::os::fd::{FromRawFd, OwnedFd};

use libc::{c_int, c_void, iovec, msghdr};
use weft_rds::local::{HEAD_LEN, Kind, Message};
use weft_rds::{Cookie, Notification};

use crate::failure::{Failure, waited};
use crate::names::SOL_RDS;
use crate::next;
use crate::rdma::{CMSG_RDMA_DEST, CMSG_RDMA_STATUS};

/// Flags that the Unix socket gets.
const FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_PEEK | libc::MSG_WAITALL;
/// Bytes for a descriptor that accompanies a record.
const CONTROL_BYTES: usize = 64;

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Sender; `None`: it is no datagram.
    pub from: Option<SocketAddrV4>,
    /// Bytes of the datagram.
    pub length: usize,
    /// Bytes in the program's buffers.
    pub copied: usize,
    /// Control message that comes with it.
    pub control: Option<ControlMessage>,
}

/// Control message for the program.
#[derive(Clone, Copy, Debug)]
pub enum ControlMessage {
    /// Memory that the program may use.
    Cookie(Cookie),
    /// Result of an operation; there is no datagram then.
    Result(Notification),
}

impl ControlMessage {
    /// Returns its type and its data (`rds_rdma_cookie_t`, `struct rds_rdma_notify`).
    pub fn to_bytes(self) -> (c_int, Vec<u8>) {
        match self {
            ControlMessage::Cookie(cookie) => (CMSG_RDMA_DEST, Cookie::number(Some(cookie)).to_ne_bytes().to_vec()),
            ControlMessage::Result(Notification { token, status }) => {
                (CMSG_RDMA_STATUS, [token.to_ne_bytes(), u64::to_ne_bytes(status as u64)].concat())
            }
        }
    }
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
    let (datagram, _) = Message::parse(&head).filter(|_| count >= HEAD_LEN).ok_or(Failure(libc::EPROTO))?;
    let control = match datagram.kind {
        Kind::Datagram => Cookie::of(datagram.value).map(ControlMessage::Cookie),
        Kind::Notification(status) => Some(ControlMessage::Result(Notification { token: datagram.value, status })),
        _ => return Err(Failure(libc::EPROTO)),
    };
    let length = datagram.length as usize;
    let copied = match file {
        // SAFETY: the caller's promise.
        Some(file) if datagram.is_in_file => unsafe { copy_file(&file, buffers, length)? },
        _ => count - HEAD_LEN,
    };
    let from = (datagram.kind == Kind::Datagram).then_some(datagram.address);
    Ok(Received { from, length, copied, control })
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

/// Hands a control message to the program, as far as there is room.
///
/// # Safety
/// The message's control buffer is writable.
pub unsafe fn put_control(control: Option<ControlMessage>, message: &mut msghdr) {
    let room = std::mem::take(&mut message.msg_controllen);
    let Some((kind, data)) = control.map(ControlMessage::to_bytes) else { return };
    // SAFETY: arithmetic alone.
    let (head, whole, space) = unsafe {
        let length = data.len() as u32;
        (libc::CMSG_LEN(0) as usize, libc::CMSG_LEN(length) as usize, libc::CMSG_SPACE(length) as usize)
    };
    if message.msg_control.is_null() || room < head {
        message.msg_flags |= libc::MSG_CTRUNC;
        return;
    }
    if room < whole {
        message.msg_flags |= libc::MSG_CTRUNC;
    }
    // SAFETY: zeroes are a valid cmsghdr.
    let mut header: libc::cmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.cmsg_len = whole.min(room);
    header.cmsg_level = SOL_RDS;
    header.cmsg_type = kind;
    let to = message.msg_control.cast::<u8>();
    // SAFETY: the caller's promise; no more is written than there is room for.
    unsafe {
        to.cast::<libc::cmsghdr>().write_unaligned(header);
        std::ptr::copy_nonoverlapping(data.as_ptr(), to.wrapping_add(head), whole.min(room) - head);
    }
    message.msg_controllen = space.min(room);
}
