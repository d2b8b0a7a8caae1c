//! A program's socket: messages in, datagrams and answers out.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::MemfdFlags;
use weft_rds::Datagram;
use weft_rds::limits::MESSAGE_BYTES_MAX;
use weft_rds::local::{HEAD_LEN, INLINE_BYTES_MAX, Kind, Message, Operation};
use weft_sys::epoll::Interest;
use weft_sys::unix::{self, Wait};

/// Message of a program.
#[derive(Debug)]
pub enum Request {
    /// Send a datagram.
    Send(SocketAddrV4, Vec<u8>),
    /// Answer a call.
    Call(Call),
}

/// Call of a program, with the socket for its answer.
#[derive(Debug)]
pub struct Call {
    /// The operation.
    pub operation: Operation,
    /// Address that it concerns.
    pub address: SocketAddrV4,
    /// Value.
    pub value: u64,
    answer: OwnedFd,
}

impl Call {
    /// Answers with data. A program that does not wait for the answer gets none.
    pub fn answer(&self, errno: u16, address: SocketAddrV4, value: u64, data: &[u8]) {
        let message = Message { value, ..Message::with_data(Kind::Reply(errno), address, data.len()) };
        let _ = send(self.answer.as_fd(), message, data);
    }
}

/// The socket.
#[derive(Debug)]
pub struct Program {
    socket: OwnedFd,
    /// Events that the loop waits for.
    pub interest: Interest,
}

impl Program {
    /// Wraps an accepted socket.
    pub fn new(socket: OwnedFd) -> Program {
        Program { socket, interest: Interest::READ }
    }

    /// Reads a message; `None`: none is there.
    ///
    /// # Errors
    /// The program has closed the socket, or does not speak the protocol.
    pub fn read(&self, scratch: &mut Vec<u8>) -> io::Result<Option<Request>> {
        scratch.resize(HEAD_LEN + INLINE_BYTES_MAX, 0);
        let received = match unix::recv(&self.socket, scratch, 1, Wait::No) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            received => received?,
        };
        let bytes = scratch.get(..received.len).unwrap_or_default();
        let (message, data) = Message::parse(bytes).ok_or(io::ErrorKind::InvalidData)?;
        let file = received.fds.into_iter().next();
        match (message.kind, file) {
            (Kind::Send, None) => Ok(Some(Request::Send(message.address, data.to_vec()))),
            (Kind::Send, Some(file)) => {
                let length = message.length as usize;
                if length > MESSAGE_BYTES_MAX {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                Ok(Some(Request::Send(message.address, read_file(&file, length)?)))
            }
            (Kind::Call(operation), Some(answer)) => {
                let (address, value) = (message.address, message.value);
                Ok(Some(Request::Call(Call { operation, address, value, answer })))
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Hands a datagram to the program. Returns whether it fitted into the socket.
    ///
    /// # Errors
    /// The program has closed the socket.
    pub fn deliver(&self, datagram: &Datagram) -> io::Result<bool> {
        let message = Message::with_data(Kind::Datagram, datagram.from, datagram.payload.len());
        send(self.socket.as_fd(), message, &datagram.payload)
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends a message without waiting. Returns whether it fitted.
fn send(socket: BorrowedFd<'_>, message: Message, data: &[u8]) -> io::Result<bool> {
    let head = message.to_bytes();
    let sent = if message.is_in_file {
        let file = rustix::fs::memfd_create("weft-rds", MemfdFlags::CLOEXEC)?;
        write_file(&file, data)?;
        unix::send(socket, &head, &[file.as_fd()], Wait::No)
    } else {
        unix::send(socket, &[&head[..], data].concat(), &[], Wait::No)
    };
    match sent {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

fn write_file(file: &OwnedFd, mut data: &[u8]) -> io::Result<()> {
    let mut at = 0;
    while !data.is_empty() {
        let len = rustix::io::pwrite(file, data, at)?;
        at += len as u64;
        data = data.get(len..).unwrap_or_default();
    }
    Ok(())
}

/// Reads a file of a program, which may be shorter than the program says.
fn read_file(file: &OwnedFd, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut at = 0;
    while let Some(rest) = bytes.get_mut(at..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(file, rest, at as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            len => at += len,
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Program, OwnedFd) {
        let (ours, theirs) = unix::pair().unwrap();
        (Program::new(ours), theirs)
    }

    #[test]
    fn datagrams_of_all_sizes_pass() {
        let (program, peer) = pair();
        let address = SocketAddrV4::new([10, 0, 0, 1].into(), 7);
        for length in [0, 1, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1, MESSAGE_BYTES_MAX] {
            let payload = vec![length as u8; length];
            let message = Message::with_data(Kind::Send, address, length);
            assert!(send(peer.as_fd(), message, &payload).unwrap());
            let Some(Request::Send(to, data)) = program.read(&mut Vec::new()).unwrap() else { panic!("{length}") };
            assert!(to == address && data == payload, "{length}");
        }
        assert!(program.read(&mut Vec::new()).unwrap().is_none());
        drop(peer);
        assert!(program.read(&mut Vec::new()).is_err());
    }

    #[test]
    fn a_short_file_and_a_call_without_answer_are_errors() {
        let address = SocketAddrV4::new([10, 0, 0, 1].into(), 7);
        for (message, file_len) in [
            (Message::with_data(Kind::Send, address, 100_000), Some(10)),
            (Message::with_data(Kind::Send, address, MESSAGE_BYTES_MAX + 1), Some(10)),
            (Message::call(Operation::Bind, address, 0), None),
            (Message::with_data(Kind::Datagram, address, 0), None),
        ] {
            let (program, peer) = pair();
            let file = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
            write_file(&file, &vec![0; file_len.unwrap_or(0)]).unwrap();
            let fds: Vec<_> = file_len.map(|_| file.as_fd()).into_iter().collect();
            unix::send(&peer, &message.to_bytes(), &fds, Wait::No).unwrap();
            assert!(program.read(&mut Vec::new()).is_err(), "{message:?}");
        }
    }
}
