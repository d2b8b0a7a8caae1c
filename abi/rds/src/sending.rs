//! Datagrams out.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use libc::{c_int, c_void};
use rustix::fs::MemfdFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use weft_rds::limits::MESSAGE_BYTES_MAX;
use weft_rds::local::{Kind, Message};

use crate::failure::{Failure, waited};
use crate::sockets::Socket;

/// Flags that a program may pass.
const FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// Piece of a program's data.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Address of the bytes.
    pub address: *const c_void,
    /// Number of bytes.
    pub length: usize,
}

/// Sends a datagram; to the connected address, if `to` is none.
///
/// # Safety
/// The pieces are readable.
pub unsafe fn send(
    fd: BorrowedFd<'_>,
    socket: &Socket,
    to: Option<SocketAddrV4>,
    pieces: &[Piece],
    flags: c_int,
) -> Result<usize, Failure> {
    if flags & !FLAGS != 0 {
        return Err(Failure(libc::EOPNOTSUPP));
    }
    let to = to.or_else(|| socket.peer()).filter(|_| socket.bound().is_some()).ok_or(Failure(libc::ENOTCONN))?;
    let length = pieces.iter().try_fold(0_usize, |sum, piece| sum.checked_add(piece.length));
    let length = length.ok_or(Failure(libc::EMSGSIZE))?;
    if length > MESSAGE_BYTES_MAX.min(socket.send_buffer.load(Ordering::Relaxed) as usize) {
        return Err(Failure(libc::EMSGSIZE));
    }
    let message = Message::with_data(Kind::Send, to, length);
    let mut bytes = message.to_bytes().to_vec();
    let head = bytes.len();
    bytes.reserve(length);
    for piece in pieces.iter().filter(|piece| piece.length > 0) {
        // SAFETY: the caller's promise.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(piece.address.cast::<u8>(), piece.length) });
    }
    let wait = if flags & libc::MSG_DONTWAIT != 0 { SendFlags::DONTWAIT } else { SendFlags::empty() };
    let file = if message.is_in_file { Some(file_of(bytes.get(head..).unwrap_or_default())?) } else { None };
    if file.is_some() {
        bytes.truncate(head);
    }
    transmit(fd, &bytes, file.as_ref(), wait).map_err(|error| waited(fd.as_raw_fd(), flags, error))?;
    Ok(length)
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

/// Sends a record. A signal interrupts it as it interrupts sendmsg(2).
fn transmit(fd: BorrowedFd<'_>, bytes: &[u8], file: Option<&OwnedFd>, wait: SendFlags) -> io::Result<()> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = file.map(|file| [file.as_fd()]);
    if let Some(files) = &files {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let pieces = [io::IoSlice::new(bytes)];
    rustix::net::sendmsg(fd, &pieces, &mut control, SendFlags::NOSIGNAL | wait)?;
    Ok(())
}
