//! A client's connection over TCP, and its connection over RDMA.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use weft_client::rdmacm::{Event, EventChannel, SockAddr};
use weft_rpcrdma::limits::{BACKCHANNEL_CREDITS, MESSAGE_MAX_BYTES};
use weft_rpcrdma::wire::{self, MessageType};
use weft_sys::epoll::Interest;
use weft_tool::errno;

use crate::caller::{Connection, Heard, Lost};
use crate::limits::{CALL_MEMORY_MAX, REPLY_MEMORY_MAX};
use crate::protocol::rpc::system_error;
use crate::tcp::{Outgoing, RecordStream};

/// Reason for the end of a session.
#[derive(Debug)]
pub enum End {
    /// The client disconnected, or its connection over TCP broke.
    Client(std::io::Error),
    /// The connection over RDMA ended, or was not made.
    Server(Lost),
    /// The client sent a record that is no RPC message.
    Record,
    /// The relay ends.
    Shutdown,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Client(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => f.write_str("disconnected"),
            End::Client(error) => write!(f, "{}", errno::text(error)),
            End::Server(lost) => write!(f, "the server: {lost}"),
            End::Record => f.write_str("the client sent no RPC message"),
            End::Shutdown => f.write_str("the relay ends"),
        }
    }
}

impl From<Lost> for End {
    fn from(lost: Lost) -> End {
        End::Server(lost)
    }
}

/// A client's session.
#[derive(Debug)]
pub struct Session {
    /// Address of the client.
    pub client: SocketAddr,
    /// Connection to the server.
    pub connection: Connection,
    stream: RecordStream,
    /// Events that the client's socket is watched for.
    pub watched: Interest,
    /// Bytes of replies that the client has not taken.
    unsent: usize,
    /// Callbacks that the client has not answered.
    callbacks: Vec<u32>,
    /// Replies that the client received.
    pub replies: u64,
}

impl Session {
    /// Begins to connect to the server for a client.
    pub fn new(
        socket: TcpStream,
        client: SocketAddr,
        channel: &EventChannel,
        server: &SockAddr,
        credits: u32,
    ) -> Result<Session, End> {
        let stream = RecordStream::accepted(socket, MESSAGE_MAX_BYTES).map_err(End::Client)?;
        let connection = Connection::start(channel, server, credits)?;
        let (watched, callbacks) = (Interest::NONE, Vec::new());
        Ok(Session { client, connection, stream, watched, unsent: 0, callbacks, replies: 0 })
    }

    /// Returns the events to wait for: calls are read once the server is there, and while those that wait for it are few.
    pub fn interest(&self) -> Interest {
        let Interest { readable, writable } = self.stream.interest();
        let is_open = self.connection.is_ready()
            && self.connection.waiting_bytes() < CALL_MEMORY_MAX
            && self.unsent < REPLY_MEMORY_MAX;
        Interest { readable: readable && is_open, writable }
    }

    /// Returns the time at which the session ends unless it is connected.
    pub fn deadline(&self) -> Option<Instant> {
        self.connection.deadline()
    }

    /// Handles an event of the connection manager. Returns whether the connection became ready.
    pub fn on_event(&mut self, event: &Event) -> Result<bool, End> {
        Ok(self.connection.on_event(event)?)
    }

    /// Handles completions. Returns whether there may be more.
    pub fn on_completions(&mut self) -> Result<bool, End> {
        let mut heard = Vec::new();
        let handled = self.connection.on_completions(&mut heard);
        for message in heard {
            let record = match message {
                Heard::Answer(answer) => answer.whole().ok_or(Lost::Reply)?,
                Heard::Refused(xid) => system_error(xid),
                Heard::Callback(call) => {
                    self.callbacks.extend(wire::xid(&call));
                    // The server has credits for this many; it does not wait for the answers to more.
                    let excess = self.callbacks.len().saturating_sub(BACKCHANNEL_CREDITS as usize);
                    self.callbacks.drain(..excess);
                    call
                }
            };
            self.replies += 1;
            self.send(record)?;
        }
        Ok(handled?)
    }

    fn send(&mut self, record: Vec<u8>) -> Result<(), End> {
        self.unsent += record.len();
        let mut sent = Vec::new();
        let result = self.stream.send(Outgoing::Bytes(record), &mut sent);
        self.count(&sent);
        result.map_err(End::Client)
    }

    fn count(&mut self, sent: &[Outgoing]) {
        let bytes: usize = sent.iter().map(Outgoing::len).sum();
        self.unsent = self.unsent.saturating_sub(bytes);
    }

    /// Handles events of the client's socket.
    pub fn on_client(&mut self, is_readable: bool, is_hung_up: bool) -> Result<(), End> {
        if is_hung_up && !self.connection.is_ready() {
            return Err(End::Client(std::io::ErrorKind::UnexpectedEof.into()));
        }
        let mut sent = Vec::new();
        let flushed = self.stream.flush(&mut sent);
        self.count(&sent);
        flushed.map_err(End::Client)?;
        if !(is_readable || is_hung_up) || !self.connection.is_ready() {
            return Ok(());
        }
        let mut records = Vec::new();
        let received = self.stream.receive(&mut records);
        for record in records {
            self.on_record(record)?;
        }
        received.map_err(End::Client)
    }

    fn on_record(&mut self, record: Vec<u8>) -> Result<(), End> {
        match (wire::message_type(&record), wire::xid(&record)) {
            (Some(MessageType::Call), Some(_)) => Ok(self.connection.call(Arc::new(record))?),
            (Some(MessageType::Reply), Some(xid)) => {
                // A reply to no callback is discarded.
                let Some(at) = self.callbacks.iter().position(|waiting| *waiting == xid) else { return Ok(()) };
                self.callbacks.swap_remove(at);
                Ok(self.connection.reply_back(&record)?)
            }
            _ => Err(End::Record),
        }
    }
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
