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

/// Bytes, and calls, after which the other clients have their turn.
const BYTES_PER_TURN: usize = 4 << 20;
const CALLS_PER_TURN: usize = 64;

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

    /// Receives, and appends the requests.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn receive(&mut self, scratch: &mut Vec<u8>, requests: &mut Vec<Request>) -> io::Result<()> {
        scratch.resize(RECEIVE_BYTES, 0);
        let mut bytes = 0;
        for _ in 0..CALLS_PER_TURN {
            self.take_events(requests);
            if bytes >= BYTES_PER_TURN {
                break;
            }
            if self.is_ending || !self.connection.wants_input() {
                return Ok(());
            }
            let received = match self.connection.payload() {
                Some(data) => rustix::io::read(&self.socket, spare_capacity(data)).map_err(io::Error::from),
                None => self.socket.read(scratch).inspect(|len| {
                    self.connection.receive(scratch.get(..*len).unwrap_or_default());
                }),
            };
            match received {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => bytes += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.take_events(requests);
        Ok(())
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

    /// Sends what waits, and appends requests that waited for that.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn exchange(&mut self, requests: &mut Vec<Request>) -> io::Result<()> {
        loop {
            self.send()?;
            let is_blocked = self.connection.transmit().is_some();
            self.take_events(requests);
            // Answers to options that were received before.
            if is_blocked || self.connection.transmit().is_none() && !self.is_ending {
                return Ok(());
            }
        }
    }

    fn send(&mut self) -> io::Result<()> {
        while let Some(next) = self.connection.transmit() {
            let sent = match next {
                Transmit::Bytes(bytes) => {
                    rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL).map_err(io::Error::from)
                }
                Transmit::Data(data, from) => data.send(&self.socket, from),
            };
            match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
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
