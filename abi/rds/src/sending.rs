//! Datagrams out.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use libc::c_int;
use rustix::fs::MemfdFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use weft_rds::Cookie;
use weft_rds::limits::MESSAGE_BYTES_MAX;
use weft_rds::local::{Kind, LocalOperation, Message};

use crate::failure::{Failure, waited};
use crate::piece::Piece;
use crate::rdma::{Control, Extras};
use crate::sockets::Socket;

/// Flags that a program may pass.
const FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// Sends a datagram; to the connected address, if `to` is none.
///
/// # Safety
/// The pieces and the memory that the control messages name are readable.
pub unsafe fn send(
    fd: BorrowedFd<'_>,
    socket: &Socket,
    to: Option<SocketAddrV4>,
    pieces: &[Piece],
    control: &Control,
    flags: c_int,
) -> Result<usize, Failure> {
    if flags & !FLAGS != 0 {
        return Err(Failure(libc::EOPNOTSUPP));
    }
    let to = to.or_else(|| socket.peer()).filter(|_| socket.bound().is_some()).ok_or(Failure(libc::ENOTCONN))?;
    let length = total(pieces)?;
    if length > MESSAGE_BYTES_MAX.min(socket.send_buffer.load(Ordering::Relaxed) as usize) {
        return Err(Failure(libc::EMSGSIZE));
    }
    let extras = control.prepare(fd, socket)?;
    // SAFETY: the caller's promise.
    let sent = unsafe { send_with(fd, to, pieces, &extras, flags) };
    if sent.is_err() {
        extras.abandon(fd);
    }
    sent.map(|()| length)
}

fn total(pieces: &[Piece]) -> Result<usize, Failure> {
    let length = pieces.iter().try_fold(0_usize, |sum, piece| sum.checked_add(piece.length));
    length.ok_or(Failure(libc::EMSGSIZE))
}

/// # Safety
/// The pieces and those of the operation are readable.
unsafe fn send_with(
    fd: BorrowedFd<'_>,
    to: SocketAddrV4,
    pieces: &[Piece],
    extras: &Extras,
    flags: c_int,
) -> Result<(), Failure> {
    let operation = extras.operation.as_ref().map(LocalOperation::to_bytes).unwrap_or_default();
    let length = operation.len() + total(&extras.data)? + total(pieces)?;
    let message = Message {
        has_operation: extras.operation.is_some(),
        value: Cookie::number(extras.destination),
        ..Message::with_data(Kind::Send, to, length)
    };
    let mut bytes = message.to_bytes().to_vec();
    let head = bytes.len();
    bytes.reserve(length);
    bytes.extend(operation);
    for piece in extras.data.iter().chain(pieces).filter(|piece| piece.length > 0) {
        // SAFETY: the caller's promise.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(piece.address.cast::<u8>(), piece.length) });
    }
    let wait = if flags & libc::MSG_DONTWAIT != 0 { SendFlags::DONTWAIT } else { SendFlags::empty() };
    let file = if message.is_in_file { Some(file_of(bytes.get(head..).unwrap_or_default())?) } else { None };
    if file.is_some() {
        bytes.truncate(head);
    }
    let files: Vec<_> = file.iter().map(AsFd::as_fd).chain(extras.pages.map(AsFd::as_fd)).collect();
    transmit(fd, &bytes, &files, wait).map_err(|error| waited(fd.as_raw_fd(), flags, error))
}

fn file_of(mut data: &[u8]) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("weft-rds", MemfdFlags::CLOEXEC)?;
    let mut at = 0;
    while !data.is_empty() {
        let len = rustix::io::pwrite(&file, data, at)?;
        at += len as u64;
        data = data.get(len..).unwrap_or_default();
    }
    Ok(file)
}

/// Sends a record with at most two files. A signal interrupts it as it interrupts sendmsg(2).
fn transmit(fd: BorrowedFd<'_>, bytes: &[u8], files: &[BorrowedFd<'_>], wait: SendFlags) -> io::Result<()> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let pieces = [io::IoSlice::new(bytes)];
    rustix::net::sendmsg(fd, &pieces, &mut control, SendFlags::NOSIGNAL | wait)?;
    Ok(())
}
