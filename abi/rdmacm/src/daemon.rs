//! The way to the daemon, which owns connections: requests go over one session of the process, events come through a
//! channel each. Errors come out as errno values: ENODEV once the daemon is gone.

use libc::c_int;
use std::os::fd::RawFd;
use weft_cm::rdma_cm::{CmEvent, Command, Reply, RouteInfo};

/// The daemon's end of an event channel.
pub(crate) struct Events {
    _private: (),
}

/// What came through a channel.
pub(crate) enum Told {
    /// Something happened.
    Event(Box<CmEvent>),
    /// The daemon is gone, and its identifiers with it.
    Gone,
}

impl Events {
    /// A new channel.
    pub(crate) fn open() -> Result<Events, c_int> {
        Err(libc::ENODEV)
    }

    /// Readable when an event waits, or when the daemon is gone.
    pub(crate) fn fd(&self) -> RawFd {
        -1
    }

    /// What requests call it.
    pub(crate) fn number(&self) -> u32 {
        0
    }

    /// The next event. Blocks unless the descriptor is in non-blocking mode; EAGAIN then.
    pub(crate) fn next(&self) -> Result<Told, c_int> {
        Err(libc::ENODEV)
    }
}

/// Asks the daemon.
pub(crate) fn ask(_command: Command) -> Result<Reply, c_int> {
    Err(libc::ENODEV)
}

/// Asks for what has no answer but that it is done.
pub(crate) fn order(command: Command) -> Result<(), c_int> {
    ask(command).map(|_| ())
}

/// Addresses and route of an identifier.
pub(crate) fn query(id: u32) -> Result<RouteInfo, c_int> {
    match ask(Command::Query { id })? {
        Reply::Route(route) => Ok(*route),
        _ => Err(libc::EPROTO),
    }
}
