//! TCP sockets of iWARP connections until they are negotiated, and the listeners that accept them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Instant;

use weft_cm::iw::ConnId;
use weft_sys::tcp_sockets;

/// Connections that wait in the kernel until the daemon accepts them.
const BACKLOG: i32 = 1024;
/// `EIO`, for errors without a number.
const EIO: i32 = 5;

/// A connection's socket.
#[derive(Debug)]
pub struct StreamSocket {
    /// The socket.
    pub fd: OwnedFd,
    /// TCP is still connecting.
    pub connects: bool,
}

/// A listener's socket.
#[derive(Debug)]
pub struct StreamListener {
    /// The socket.
    pub fd: OwnedFd,
    /// Number for the loop.
    pub number: u32,
    /// The loop watches it.
    pub watched: bool,
    /// Time before which the loop does not watch it.
    pub rests_until: Option<Instant>,
}

impl StreamListener {
    /// Returns whether the loop must begin to watch it.
    pub fn wants_watch(&self, now: Instant) -> bool {
        !self.watched && self.rests_until.is_none_or(|until| until <= now)
    }
}

/// The sockets of this network namespace's connections.
#[derive(Debug, Default)]
pub struct StreamSockets {
    listeners: BTreeMap<SocketAddr, StreamListener>,
    last: u32,
    connections: BTreeMap<ConnId, StreamSocket>,
    /// Sockets on their way to the processes that have the queue pairs.
    handed: RefCell<BTreeMap<ConnId, OwnedFd>>,
}

impl StreamSockets {
    /// Listens on these addresses, and on no others.
    ///
    /// # Errors
    /// The errno of the first address that cannot be had; the others are listened on.
    pub fn follow(&mut self, wanted: &BTreeSet<SocketAddr>) -> Result<(), i32> {
        self.listeners.retain(|addr, _| wanted.contains(addr));
        let mut result = Ok(());
        for addr in wanted {
            if self.listeners.contains_key(addr) {
                continue;
            }
            match tcp_sockets::listen_on(*addr, BACKLOG) {
                Ok(fd) => {
                    self.last += 1;
                    self.listeners
                        .insert(*addr, StreamListener { fd, number: self.last, watched: false, rests_until: None });
                }
                Err(error) => result = result.and(Err(errno_of(&error))),
            }
        }
        result
    }

    /// Returns the listeners.
    pub fn listeners_mut(&mut self) -> impl Iterator<Item = &mut StreamListener> {
        self.listeners.values_mut()
    }

    /// Returns when the first listener that rests must be watched again.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.listeners.values().filter(|listener| !listener.watched).filter_map(|listener| listener.rests_until).min()
    }

    /// Returns a listener's socket.
    pub fn listener(&self, number: u32) -> Option<&OwnedFd> {
        self.listeners.values().find(|listener| listener.number == number).map(|listener| &listener.fd)
    }

    /// Adds a connection's socket.
    pub fn insert(&mut self, conn: ConnId, fd: OwnedFd, connects: bool) {
        self.connections.insert(conn, StreamSocket { fd, connects });
    }

    /// Returns a connection's socket.
    pub fn get(&self, conn: ConnId) -> Option<&StreamSocket> {
        self.connections.get(&conn)
    }

    /// Notes that a socket is connected.
    pub fn set_connected(&mut self, conn: ConnId) {
        if let Some(socket) = self.connections.get_mut(&conn) {
            socket.connects = false;
        }
    }

    /// Takes a connection's socket away.
    pub fn remove(&mut self, conn: ConnId) -> Option<OwnedFd> {
        self.connections.remove(&conn).map(|socket| socket.fd)
    }

    /// Keeps a socket that goes out with a message.
    pub fn keep_handed(&self, conn: ConnId, fd: OwnedFd) {
        self.handed.borrow_mut().insert(conn, fd);
    }

    /// Takes a socket that goes out with a message.
    pub fn take_handed(&self, conn: ConnId) -> Option<OwnedFd> {
        self.handed.borrow_mut().remove(&conn)
    }
}

/// Returns the number of an error.
pub fn errno_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(EIO)
}
