//! The library's client of the RDMA connection manager in the daemon. Commands of all threads share one session of the
//! process, one after another. Every event channel has a socket of its own, so that its descriptor is readable exactly
//! when an event waits. When the daemon dies, its ids die with it: channels end, and commands about those ids fail. A
//! channel opened after that belongs to the next daemon.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_cm::rdma_cm::{CmEvent, Command, Reply};
use weft_sys::channel;

use crate::codec::decode;
use crate::limits::CM_EVENT_BYTES_MAX;
use crate::process::{ProcessClient, Session};
use crate::{ConnectError, ConnectOptions, Request, RequestError, Response};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CmError {
    /// No daemon could be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The daemon refused, or died.
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl CmError {
    /// Returns the errno value that a C function reports.
    pub fn errno(&self) -> i32 {
        match self {
            CmError::Connect(error) => error.errno(),
            CmError::Request(error) => error.errno(),
        }
    }
}

/// A process's client of the connection manager. It connects on the first call, and again when a channel is opened
/// after the daemon died. Any thread may use it.
#[derive(Debug)]
pub struct CmClient(ProcessClient);

/// An event channel.
#[derive(Debug)]
pub struct EventChannel {
    session: Arc<Session>,
    reader: Arc<Reader>,
    number: u32,
}

/// The receiving end. A thread that waits here keeps it open while another thread closes the channel.
#[derive(Debug)]
struct Reader {
    fd: OwnedFd,
    closed: AtomicBool,
}

impl CmClient {
    /// Makes a client that is not connected yet.
    pub fn new(options: ConnectOptions) -> CmClient {
        CmClient(ProcessClient::new(options))
    }

    /// Sends a command and waits for the answer. A command about an id must reach the daemon that made the id: use
    /// [`EventChannel::call`] for those.
    pub fn call(&self, command: Command) -> Result<Reply, CmError> {
        Ok(call(&*self.0.session()?, command)?)
    }

    /// Opens a channel.
    pub fn open_channel(&self) -> Result<EventChannel, CmError> {
        let session = self.0.session()?;
        let (response, mut fds) = session.client()?.request_with_descriptors(Request::OpenCmChannel, 1)?;
        match (response, fds.pop()) {
            (Response::CmChannel { channel }, Some(fd)) => {
                let reader = Arc::new(Reader { fd, closed: AtomicBool::new(false) });
                Ok(EventChannel { session, reader, number: channel })
            }
            _ => Err(RequestError::Protocol.into()),
        }
    }
}

fn call(session: &Session, command: Command) -> Result<Reply, RequestError> {
    match session.request(Request::Cm(command))? {
        Response::Cm(reply) => Ok(reply),
        _ => Err(RequestError::Protocol),
    }
}

impl EventChannel {
    /// Returns the number that commands name it by.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns a descriptor that is readable when an event waits or the daemon is gone. Programs may poll it and make
    /// it non-blocking.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.reader.fd.as_fd()
    }

    /// Sends a command to the daemon of this channel, about ids of this or another channel of the process.
    pub fn call(&self, command: Command) -> Result<Reply, RequestError> {
        call(&self.session, command)
    }

    /// Returns the next event. Sleeps unless the descriptor is non-blocking (`WouldBlock` then); a signal may interrupt
    /// it (`Interrupted`). [`RequestError::Disconnected`] means that the daemon is gone, and its ids with it.
    ///
    /// If another thread closes the channel, a thread that sleeps here sleeps forever, as on Linux: programs leave such
    /// a thread behind when they end, and would take an error for a connection error.
    pub fn recv(&self) -> Result<CmEvent, RequestError> {
        let reader = self.reader.clone();
        let mut buffer = [0; CM_EVENT_BYTES_MAX];
        let length = match channel::receive(&reader.fd, &mut buffer) {
            Ok(0) => return reader.ended(),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return reader.ended(),
            result => result?,
        };
        decode(buffer.get(..length).unwrap_or_default()).map_err(|_| RequestError::Protocol)
    }
}

impl Reader {
    fn ended(&self) -> Result<CmEvent, RequestError> {
        while self.closed.load(Ordering::Acquire) {
            std::thread::park();
        }
        Err(RequestError::Disconnected)
    }
}

impl Drop for EventChannel {
    fn drop(&mut self) {
        self.reader.closed.store(true, Ordering::Release);
        // The daemon holds a duplicate of this end, so it does not see the close.
        if let Ok(mut client) = self.session.client() {
            let _ = client.request(Request::CloseCmChannel { channel: self.number });
        }
    }
}
