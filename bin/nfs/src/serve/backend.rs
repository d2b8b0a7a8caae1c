//! Connection of one client to the NFS server behind `--backend`: calls go there as they are, and replies are matched to
//! calls by their transactions. It lives and dies with the client's: a client whose connection breaks repeats its calls on
//! the next one, which is the only repetition that is safe in all versions of NFS.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use weft_rpcrdma::CallId;
use weft_rpcrdma::limits::MESSAGE_MAX_BYTES;
use weft_sys::epoll::Interest;

use crate::limits::BACKEND_CONNECTS_WITHIN;
use crate::tcp::{Outgoing, RecordStream};

/// The connection, and the calls on it.
#[derive(Debug)]
pub struct Backend {
    stream: RecordStream,
    /// Calls without a reply, by transaction. A client may use a number twice.
    calls: BTreeMap<u32, VecDeque<CallId>>,
    /// Calls to the client that wait for a credit.
    pub callbacks: VecDeque<Vec<u8>>,
    /// Events that the socket is watched for.
    pub watched: Interest,
    deadline: Instant,
}

impl Backend {
    /// Begins to connect.
    pub fn connect(to: SocketAddr) -> io::Result<Backend> {
        Ok(Backend {
            stream: RecordStream::connect(to, MESSAGE_MAX_BYTES)?,
            calls: BTreeMap::new(),
            callbacks: VecDeque::new(),
            watched: Interest::BOTH,
            deadline: Instant::now() + BACKEND_CONNECTS_WITHIN,
        })
    }

    /// Returns the time at which an unfinished connection is given up.
    pub fn deadline(&self) -> Option<Instant> {
        (!self.stream.is_connected()).then_some(self.deadline)
    }

    /// Whether the connection is established.
    pub fn is_connected(&self) -> bool {
        self.stream.is_connected()
    }

    /// Returns the events to wait for; `is_full`: the client has not taken the replies that are here.
    pub fn interest(&self, is_full: bool) -> Interest {
        let Interest { readable, writable } = self.stream.interest();
        Interest { readable: readable && !is_full, writable }
    }

    /// Notes that the socket became writable while it connects.
    pub fn finish_connecting(&mut self) -> io::Result<()> {
        self.stream.finish_connecting()
    }

    /// Sends a call. Appends the messages that left the memory.
    pub fn call(&mut self, xid: u32, id: CallId, message: Outgoing, done: &mut Vec<Outgoing>) -> io::Result<()> {
        self.calls.entry(xid).or_default().push_back(id);
        self.stream.send(message, done)
    }

    /// Sends a reply to one of the backend's calls.
    pub fn reply(&mut self, message: Vec<u8>, done: &mut Vec<Outgoing>) -> io::Result<()> {
        self.stream.send(Outgoing::Bytes(message), done)
    }

    /// Goes on sending.
    pub fn flush(&mut self, done: &mut Vec<Outgoing>) -> io::Result<()> {
        self.stream.flush(done)
    }

    /// Receives messages.
    pub fn receive(&mut self, records: &mut Vec<Vec<u8>>) -> io::Result<()> {
        self.stream.receive(records)
    }

    /// Returns the call that a reply answers.
    pub fn answered(&mut self, xid: u32) -> Option<CallId> {
        let calls = self.calls.get_mut(&xid)?;
        let id = calls.pop_front();
        if calls.is_empty() {
            self.calls.remove(&xid);
        }
        id
    }
}

impl AsFd for Backend {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
