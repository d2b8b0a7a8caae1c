//! Connection to the daemon, which owns connections: commands go over the process's one session, and each channel
//! carries its events. Errors are returned as errno values: ENODEV once the daemon of a channel is gone.
//!
//! A child of fork shares nothing of this: calls on the parent's identifiers return ENODEV there, and new channels
//! belong to a session of its own.

use libc::c_int;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::LazyLock;
use weft_cm::rdma_cm::{CmEvent, Command, Reply, RouteInfo};
use weft_ipc::{CM_EVENT_BYTES_MAX, CmClient, ConnectOptions, EventChannel, decode};

use crate::errors::errno;

static CLIENT: LazyLock<CmClient> = LazyLock::new(|| {
    let here = Events::open as fn() -> Result<Events, c_int>;
    let library = weft_sys::mapping::file_of_code(here as usize);
    let library_dir = library.and_then(|file| file.parent().map(ToOwned::to_owned));
    CmClient::new(ConnectOptions { library_dir, ..ConnectOptions::default() })
});

/// The daemon's end of an event channel, with the session for queries about it.
#[derive(Debug)]
pub(crate) struct Events(EventChannel);

/// A message from a channel.
pub(crate) enum Told {
    /// An event.
    Event(Box<CmEvent>),
    /// The daemon is gone, and its identifiers with it.
    Gone,
}

impl Events {
    /// Opens a new channel.
    pub(crate) fn open() -> Result<Events, c_int> {
        CLIENT.open_channel().map(Events).map_err(|error| error.errno())
    }

    /// Returns the descriptor, which is readable when an event waits, or when the daemon is gone.
    pub(crate) fn fd(&self) -> RawFd {
        self.0.fd().as_raw_fd()
    }

    /// Returns the channel's number in commands.
    pub(crate) fn number(&self) -> u32 {
        self.0.number()
    }

    /// Returns the next event. Blocks unless the descriptor is in non-blocking mode; EAGAIN then.
    pub(crate) fn next(&self) -> Result<Told, c_int> {
        let mut buffer = [0u8; CM_EVENT_BYTES_MAX];
        // The C library's call, because it is a cancellation point: programs cancel threads that wait here.
        // SAFETY: the descriptor is open as long as `self`, and the buffer has the stated length.
        let length = unsafe { libc::recv(self.fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        match usize::try_from(length) {
            Ok(0) => Ok(Told::Gone),
            Ok(length) => {
                let event = decode(buffer.get(..length).unwrap_or_default()).map_err(|_| libc::EPROTO)?;
                Ok(Told::Event(Box::new(event)))
            }
            Err(_) => match errno() {
                libc::ECONNRESET => Ok(Told::Gone),
                errno => Err(errno),
            },
        }
    }

    /// Sends a command to the channel's daemon and returns the reply.
    pub(crate) fn ask(&self, command: Command) -> Result<Reply, c_int> {
        self.0.call(command).map_err(|error| error.errno())
    }

    /// Sends a command whose reply carries no data.
    pub(crate) fn order(&self, command: Command) -> Result<(), c_int> {
        self.ask(command).map(|_| ())
    }

    /// Returns addresses and route of an identifier.
    pub(crate) fn query(&self, id: u32) -> Result<RouteInfo, c_int> {
        match self.ask(Command::Query { id })? {
            Reply::Route(route) => Ok(*route),
            _ => Err(libc::EPROTO),
        }
    }
}
