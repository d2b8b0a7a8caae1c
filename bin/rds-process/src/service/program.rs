//! A program's socket: messages in, datagrams and answers out.

use std::fs::File;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::MemfdFlags;
use weft_rds::limits::MESSAGE_BYTES_MAX;
use weft_rds::local::{
    HEAD_LEN, INLINE_BYTES_MAX, Kind, LocalOperation, Message, OfferedRegion, Operation, SEND_BYTES_MAX,
};
use weft_rds::{Cookie, Datagram, Notification};
use weft_sys::epoll::Interest;
use weft_sys::unix::{self, Wait};

use super::memory::DeviceIndex;

/// Descriptors of a record: data and pages, or the socket for an answer and pages.
const FILES: usize = 2;

/// Message of a program.
#[derive(Debug)]
pub enum Request {
    /// Send a datagram.
    Send(SendRequest),
    /// Answer a call.
    Call(Call),
}

/// Datagram of a program.
#[derive(Debug)]
pub struct SendRequest {
    /// Address of the receiver.
    pub to: SocketAddrV4,
    /// Memory that the receiver may use.
    pub destination: Option<Cookie>,
    /// Operation before the datagram.
    pub operation: Option<OperationRequest>,
    /// Data.
    pub payload: Vec<u8>,
}

/// Operation of a program.
#[derive(Debug)]
pub struct OperationRequest {
    /// The operation.
    pub operation: LocalOperation,
    /// Data of a WRITE.
    pub data: Vec<u8>,
    /// File with the pages for the data of a READ.
    pub pages: Option<File>,
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
    /// Region to offer, with the file of its pages.
    pub region: Option<(OfferedRegion, File)>,
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
    /// Device of the socket's address.
    pub device: Option<DeviceIndex>,
}

impl Program {
    /// Wraps an accepted socket.
    pub fn new(socket: OwnedFd) -> Program {
        Program { socket, interest: Interest::READ, device: None }
    }

    /// Reads a message; `None`: none is there.
    ///
    /// # Errors
    /// The program has closed the socket, or does not speak the protocol.
    pub fn read(&self, scratch: &mut Vec<u8>) -> io::Result<Option<Request>> {
        scratch.resize(HEAD_LEN + INLINE_BYTES_MAX, 0);
        let received = match unix::recv(&self.socket, scratch, FILES, Wait::No) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            received => received?,
        };
        let bytes = scratch.get(..received.len).unwrap_or_default();
        let (message, data) = Message::parse(bytes).ok_or(io::ErrorKind::InvalidData)?;
        let files = received.fds.into_iter();
        match message.kind {
            Kind::Send => send_request(&message, data, files).map(Request::Send).map(Some),
            Kind::Call(operation) => call(operation, &message, data, files).map(Request::Call).map(Some),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Hands a datagram to the program. Returns whether it fitted into the socket.
    ///
    /// # Errors
    /// The program has closed the socket.
    pub fn deliver(&self, datagram: &Datagram) -> io::Result<bool> {
        let message = Message::with_data(Kind::Datagram, datagram.from, datagram.payload.len());
        let message = Message { value: Cookie::number(datagram.cookie), ..message };
        send(self.socket.as_fd(), message, &datagram.payload)
    }

    /// Hands the result of an operation to the program. Returns whether it fitted into the socket.
    ///
    /// # Errors
    /// The program has closed the socket.
    pub fn notify(&self, notification: Notification) -> io::Result<bool> {
        let Notification { token, status } = notification;
        let nowhere = SocketAddrV4::new(std::net::Ipv4Addr::UNSPECIFIED, 0);
        let message = Message { value: token, ..Message::with_data(Kind::Notification(status), nowhere, 0) };
        send(self.socket.as_fd(), message, &[])
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Reads a datagram, with its operation.
fn send_request(message: &Message, data: &[u8], mut files: impl Iterator<Item = OwnedFd>) -> io::Result<SendRequest> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let length_max = if message.has_operation { SEND_BYTES_MAX } else { MESSAGE_BYTES_MAX };
    let mut data = match message.is_in_file {
        true if message.length as usize > length_max => return Err(invalid()),
        true => read_file(&files.next().ok_or_else(invalid)?, message.length as usize)?,
        false => data.to_vec(),
    };
    let mut operation = None;
    if message.has_operation {
        let (wanted, written, payload) = LocalOperation::parse(&data).ok_or_else(invalid)?;
        let (written, payload, pages) = (written.to_vec(), payload.to_vec(), files.next().map(File::from));
        operation = Some(OperationRequest { operation: wanted, data: written, pages });
        data = payload;
    }
    if data.len() > MESSAGE_BYTES_MAX {
        return Err(invalid());
    }
    let destination = Cookie::of(message.value);
    Ok(SendRequest { to: message.address, destination, operation, payload: data })
}

/// Reads a call.
fn call(
    operation: Operation,
    message: &Message,
    data: &[u8],
    mut files: impl Iterator<Item = OwnedFd>,
) -> io::Result<Call> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let (answer, pages) = (files.next().ok_or_else(invalid)?, files.next());
    let region = match (operation, pages) {
        (Operation::Offer, Some(pages)) => Some((OfferedRegion::parse(data).ok_or_else(invalid)?, File::from(pages))),
        _ => None,
    };
    Ok(Call { operation, address: message.address, value: message.value, region, answer })
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
    use weft_rds::{Direction, RdmaOptions};

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
            let Some(Request::Send(request)) = program.read(&mut Vec::new()).unwrap() else { panic!("{length}") };
            assert!(request.to == address && request.payload == payload && request.operation.is_none(), "{length}");
        }
        assert!(program.read(&mut Vec::new()).unwrap().is_none());
        drop(peer);
        assert!(program.read(&mut Vec::new()).is_err());
    }

    #[test]
    fn an_operation_passes_with_its_data_and_the_datagram() {
        let (program, peer) = pair();
        let address = SocketAddrV4::new([10, 0, 0, 1].into(), 7);
        for length in [1, INLINE_BYTES_MAX, MESSAGE_BYTES_MAX] {
            let operation = LocalOperation {
                direction: Direction::Write,
                options: RdmaOptions::default(),
                key: 1,
                address: 2,
                token: 3,
                length: length as u32,
                pieces: Vec::new(),
            };
            let data = [&operation.to_bytes()[..], &vec![7; length], &vec![8; length]].concat();
            let message = Message { has_operation: true, ..Message::with_data(Kind::Send, address, data.len()) };
            assert!(send(peer.as_fd(), message, &data).unwrap());
            let Some(Request::Send(request)) = program.read(&mut Vec::new()).unwrap() else { panic!("{length}") };
            let found = request.operation.expect("an operation");
            assert!(found.operation == operation && found.data == vec![7; length] && found.pages.is_none());
            assert!(request.payload == vec![8; length]);
        }
        // Data that ends within the operation.
        let message = Message { has_operation: true, ..Message::with_data(Kind::Send, address, 8) };
        assert!(send(peer.as_fd(), message, &[0; 8]).unwrap());
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
