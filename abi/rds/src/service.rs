//! The RDS service of this user: connects sockets to it, starts it on demand, and makes calls.

use std::env;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Command;

use weft_rds::local::{
    HEAD_LEN, INFO_BYTES_MAX, INLINE_BYTES_MAX, Kind, Message, OfferedRegion, Operation, service_name,
};
use weft_sys::unix::{self, Wait};

use crate::failure::Failure;

/// Variable with the path of Weft's command; `weft run --rds` sets it.
const COMMAND_VARIABLE: &str = "WEFT_BIN";
/// Address of calls that concern none.
pub const NOWHERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

/// Connects a new socket to the service, and starts it if none runs.
pub fn connect() -> Result<OwnedFd, Failure> {
    match attempt() {
        Err(Failure(libc::ECONNREFUSED)) => {
            start()?;
            attempt()
        }
        result => result,
    }
}

fn attempt() -> Result<OwnedFd, Failure> {
    let user = weft_sys::process::euid();
    let socket = unix::connect_abstract(&service_name(user))?;
    // The name is free to everyone.
    if unix::peer_credentials(&socket)?.uid != user {
        return Err(Failure(libc::EACCES));
    }
    Ok(socket)
}

fn start() -> Result<(), Failure> {
    let program = env::var_os(COMMAND_VARIABLE).ok_or(Failure(libc::EAFNOSUPPORT))?;
    let mut command = Command::new(program);
    command.args(["rds", "start", "--on-demand"]).env_remove("LD_PRELOAD");
    // A program that waits for its children may have taken the status.
    match command.status() {
        Ok(status) if !status.success() => Err(Failure(libc::ENETDOWN)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Failure(libc::EAFNOSUPPORT)),
        _ => Ok(()),
    }
}

/// Makes a call about a socket. Returns the answer with its data.
pub fn call(
    socket: BorrowedFd<'_>,
    operation: Operation,
    address: SocketAddrV4,
    value: u64,
) -> Result<(Message, Vec<u8>), Failure> {
    exchange(socket, Message::call(operation, address, value), &[], None)
}

/// Offers memory to peers. Returns its key.
pub fn offer(socket: BorrowedFd<'_>, region: &OfferedRegion, pages: BorrowedFd<'_>) -> Result<u32, Failure> {
    let message = Message::call(Operation::Offer, NOWHERE, 0);
    exchange(socket, message, &region.to_bytes(), Some(pages)).map(|(answer, _)| answer.value as u32)
}

fn exchange(
    socket: BorrowedFd<'_>,
    message: Message,
    data: &[u8],
    file: Option<BorrowedFd<'_>>,
) -> Result<(Message, Vec<u8>), Failure> {
    let (ours, theirs) = unix::pair()?;
    let files: Vec<_> = std::iter::once(theirs.as_fd()).chain(file).collect();
    unix::send(socket, &[&message.to_bytes()[..], data].concat(), &files, Wait::Block)?;
    drop(theirs);
    let mut reply = vec![0; HEAD_LEN + INLINE_BYTES_MAX];
    let received = unix::recv(&ours, &mut reply, 1, Wait::Block)?;
    reply.truncate(received.len);
    let (message, data) = Message::parse(&reply).ok_or(Failure(libc::ENETDOWN))?;
    match message.kind {
        Kind::Reply(0) => {}
        Kind::Reply(errno) => return Err(Failure(errno.into())),
        _ => return Err(Failure(libc::EPROTO)),
    }
    let data = match received.fds.first() {
        Some(file) if message.is_in_file => {
            let mut bytes = vec![0; INFO_BYTES_MAX.min(message.length as usize)];
            let len = rustix::io::pread(file, &mut bytes, 0).map_err(io::Error::from)?;
            bytes.truncate(len);
            bytes
        }
        _ => data.to_vec(),
    };
    Ok((message, data))
}
