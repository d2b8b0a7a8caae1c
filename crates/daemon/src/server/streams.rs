//! The loop's part of iWARP connections: TCP sockets, until they go to the processes with the queue pairs.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use weft_cm::iw::{ConnId, SocketRequest};
use weft_sys::epoll::{Interest, Ready};
use weft_sys::tcp_sockets;

use super::{Server, tokens};
use crate::cm_service::errno_of;
use crate::limits::CONNECTIONS_PER_TURN;

/// Errors of a connection that ended before it was accepted.
const PEER_GONE: [io::ErrorKind; 2] = [io::ErrorKind::ConnectionAborted, io::ErrorKind::NotConnected];
/// Rest of a listener that could not accept.
const REST: Duration = Duration::from_millis(100);

/// Bytes read from a connection at a time: a frame of MPA.
const READ_BYTES: usize = 1024;

impl Server {
    /// Executes what the connection manager wants of TCP, until that is nothing.
    pub(super) fn perform_for_streams(&mut self, now: Instant) {
        // A listener that a command needed was told of a failure; here an address may have come that another program has.
        if let Err(errno) = self.broker.cm_listens(&mut self.host) {
            self.log.note(format_args!("an iWARP listener misses an address: {}", io::Error::from_raw_os_error(errno)));
        }
        for listener in self.host.streams.listeners_mut().filter(|listener| listener.wants_watch(now)) {
            let token = tokens::STREAM_LISTENERS | u64::from(listener.number);
            listener.watched = self.epoll.add(&listener.fd, token, Interest::READ).is_ok();
        }
        while let Some(request) = self.broker.cm().poll_socket() {
            match request {
                SocketRequest::Connect { conn, local, peer } => {
                    match tcp_sockets::start_connect(local, peer) {
                        Ok(fd) => self.watch_stream(now, conn, fd, true),
                        Err(error) => self.broker.cm().handle_stream_closed(now, conn, Some(errno_of(&error))),
                    };
                }
                SocketRequest::Send { conn, bytes } => self.send_on_stream(now, conn, &bytes),
                SocketRequest::HandOver { conn, qp_num, params } => {
                    let Some(fd) = self.take_stream(conn) else {
                        self.broker.cm().handle_stream_ended(now, qp_num);
                        continue;
                    };
                    if self.broker.hand_over_stream(now, conn, qp_num, params) {
                        self.host.streams.keep_handed(conn, fd);
                    }
                }
                SocketRequest::Close { conn } => drop(self.take_stream(conn)),
                SocketRequest::CloseStream { qp_num } => self.broker.close_stream(now, qp_num),
            }
        }
        // A process must find its stream before its program reads ESTABLISHED, which the channels carry.
        self.perform_for_clients();
    }

    /// Accepts connections of peers.
    pub(super) fn on_stream_listener(&mut self, now: Instant, number: u32) {
        for _ in 0..CONNECTIONS_PER_TURN {
            let Some(listener) = self.host.streams.listener(number) else { return };
            match tcp_sockets::accept(listener) {
                Ok((fd, local, peer)) => {
                    if let Some(conn) = self.broker.cm().handle_stream_accepted(now, local, peer) {
                        self.watch_stream(now, conn, fd, false);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The peer is gone already.
                Err(error) if PEER_GONE.contains(&error.kind()) => {}
                Err(error) => {
                    // Out of descriptors or memory: the connections wait in the kernel for a while.
                    self.log.note(format_args!("cannot accept an iWARP connection: {error}"));
                    return self.rest_stream_listener(now, number);
                }
            }
        }
    }

    /// Takes a listener out of the loop for a while.
    fn rest_stream_listener(&mut self, now: Instant, number: u32) {
        for listener in self.host.streams.listeners_mut().filter(|listener| listener.number == number) {
            let _ = self.epoll.delete(&listener.fd);
            (listener.watched, listener.rests_until) = (false, Some(now + REST));
        }
    }

    /// Handles a connection's socket that is ready.
    pub(super) fn on_stream(&mut self, now: Instant, conn: ConnId, event: &Ready) {
        let Some(socket) = self.host.streams.get(conn) else { return };
        if socket.connects {
            return self.on_stream_connected(now, conn);
        }
        if !event.readable && !event.hung_up {
            return;
        }
        let mut buffer = [0; READ_BYTES];
        loop {
            let Some(socket) = self.host.streams.get(conn) else { return };
            let cm = self.broker.cm();
            let wanted = cm.wants_from_stream(conn).min(READ_BYTES);
            let Some(place) = buffer.get_mut(..wanted).filter(|place| !place.is_empty()) else { return };
            match tcp_sockets::receive(&socket.fd, place) {
                Ok(0) => return cm.handle_stream_closed(now, conn, None),
                Ok(len) => cm.handle_stream_bytes(now, conn, place.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return cm.handle_stream_closed(now, conn, Some(errno_of(&error))),
            }
        }
    }

    fn on_stream_connected(&mut self, now: Instant, conn: ConnId) {
        let Some(socket) = self.host.streams.get(conn) else { return };
        let connected = tcp_sockets::take_error(&socket.fd).and_then(|()| {
            self.epoll.modify(&socket.fd, tokens::STREAMS | conn.0, Interest::READ)?;
            tcp_sockets::local_address(&socket.fd)
        });
        match connected {
            Ok(local) => {
                self.host.streams.set_connected(conn);
                self.broker.cm().handle_stream_connected(now, conn, local);
            }
            Err(error) => self.broker.cm().handle_stream_closed(now, conn, Some(errno_of(&error))),
        }
    }

    fn watch_stream(&mut self, now: Instant, conn: ConnId, fd: OwnedFd, connects: bool) {
        let interest = if connects { Interest::WRITE } else { Interest::READ };
        let added = self.epoll.add(&fd, tokens::STREAMS | conn.0, interest);
        self.host.streams.insert(conn, fd, connects);
        if let Err(error) = added {
            self.broker.cm().handle_stream_closed(now, conn, Some(errno_of(&error)));
        }
    }

    fn send_on_stream(&mut self, now: Instant, conn: ConnId, bytes: &[u8]) {
        const ENOBUFS: i32 = 105;
        let Some(socket) = self.host.streams.get(conn) else { return };
        let failed = match tcp_sockets::send_bytes(&socket.fd, bytes) {
            Ok(len) if len == bytes.len() => return,
            // A frame fits the buffer of a connection that has sent nothing.
            Ok(_) => ENOBUFS,
            Err(error) => errno_of(&error),
        };
        self.broker.cm().handle_stream_closed(now, conn, Some(failed));
    }

    /// Takes a connection's socket out of the loop.
    fn take_stream(&mut self, conn: ConnId) -> Option<OwnedFd> {
        let fd = self.host.streams.remove(conn)?;
        let _ = self.epoll.delete(&fd);
        Some(fd)
    }
}
