//! Connection of one client: its socket and the protocol's state machine.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::net::SendFlags;
use weft_nbd::limits::RECEIVE_BYTES;
use weft_nbd::{Connection, Event, Export, Request, Transmit};
use weft_sys::epoll::Interest;

use crate::read_data::ReadData;

/// Pieces that one client receives in a turn.
const RECEIVES_PER_TURN: usize = 16;

/// A client.
#[derive(Debug)]
pub struct Client {
    socket: UnixStream,
    /// The protocol.
    pub connection: Connection<ReadData>,
    /// Requests for which the socket is watched now.
    pub interest: Interest,
    is_ending: bool,
}

impl Client {
    /// Begins with a socket that was accepted.
    pub fn new(socket: UnixStream, exports: Arc<[Export]>) -> io::Result<Client> {
        socket.set_nonblocking(true)?;
        Ok(Client { socket, connection: Connection::new(exports), interest: Interest::NONE, is_ending: false })
    }

    /// Receives, and appends the requests. Returns whether there may be more to receive now.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn receive(&mut self, scratch: &mut Vec<u8>, requests: &mut Vec<Request>) -> io::Result<bool> {
        scratch.resize(RECEIVE_BYTES, 0);
        for _ in 0..RECEIVES_PER_TURN {
            self.take_events(requests);
            if self.is_ending || !self.connection.wants_input() {
                return Ok(false);
            }
            let received = match self.connection.payload() {
                Some(data) => rustix::io::read(&self.socket, spare_capacity(data)).map_err(io::Error::from),
                None => self.socket.read(scratch).inspect(|len| {
                    self.connection.receive(scratch.get(..*len).unwrap_or_default());
                }),
            };
            match received {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.take_events(requests);
        Ok(true)
    }

    /// Appends the requests in what was received before.
    pub fn take_events(&mut self, requests: &mut Vec<Request>) {
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Request(request) => requests.push(request),
                Event::End => self.is_ending = true,
            }
        }
    }

    /// Sends what waits.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn send(&mut self) -> io::Result<()> {
        while let Some(next) = self.connection.transmit() {
            let sent = match next {
                Transmit::Bytes(bytes) => {
                    rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL).map_err(io::Error::from)
                }
                Transmit::Data(data, from) => data.send(&self.socket, from),
            };
            match sent {
                Ok(count) => self.connection.sent(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.is_ending { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// Returns what the socket has to be watched for.
    pub fn wanted(&self) -> Interest {
        let readable = !self.is_ending && self.connection.wants_input();
        Interest { readable, writable: self.connection.transmit().is_some() }
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
