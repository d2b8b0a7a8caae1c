//! iWARP connections: the service's calls, in the daemon's time.

use std::net::SocketAddr;
use std::time::Instant;

use weft_cm::iw::{ConnId, SocketRequest};

use super::CmService;
use crate::host::Host;
use crate::slots::ClientId;

impl CmService {
    /// Returns the next request for the sockets of connections.
    pub fn poll_socket(&mut self) -> Option<SocketRequest> {
        self.service.poll_socket()
    }

    /// Listens where the ids listen, if that may have changed.
    ///
    /// # Errors
    /// The errno of an address that cannot be had.
    pub fn follow_stream_listeners(&mut self, host: &mut impl Host) -> Result<(), i32> {
        if !std::mem::take(&mut self.listeners_changed) {
            return Ok(());
        }
        host.listen_for_streams(&self.service.stream_listeners())
    }

    /// Notes that TCP connected.
    pub fn handle_stream_connected(&mut self, now: Instant, conn: ConnId, local: SocketAddr) {
        let time = self.time(now);
        self.service.handle_stream_connected(time, conn, local);
    }

    /// Takes a TCP connection; `None` if the caller should close it.
    pub fn handle_stream_accepted(&mut self, now: Instant, local: SocketAddr, peer: SocketAddr) -> Option<ConnId> {
        let time = self.time(now);
        self.service.handle_stream_accepted(time, local, peer)
    }

    /// Returns how many bytes of a connection to read at most.
    pub fn wants_from_stream(&self, conn: ConnId) -> usize {
        self.service.wants_from_stream(conn)
    }

    /// Handles bytes of a connection.
    pub fn handle_stream_bytes(&mut self, now: Instant, conn: ConnId, bytes: &[u8]) {
        let time = self.time(now);
        self.service.handle_stream_bytes(time, conn, bytes);
    }

    /// Handles the end of a connection, or the errno with which it failed.
    pub fn handle_stream_closed(&mut self, now: Instant, conn: ConnId, errno: Option<i32>) {
        let time = self.time(now);
        self.service.handle_stream_closed(time, conn, errno);
    }

    /// Handles the end of a queue pair's stream.
    pub fn handle_stream_ended(&mut self, now: Instant, qp_num: u32) {
        let time = self.time(now);
        self.service.handle_stream_ended(time, qp_num);
    }

    /// Handles the end of a process that had this slot's queue pairs.
    pub fn handle_slot_gone(&mut self, now: Instant, slot: u32) {
        let time = self.time(now);
        self.service.handle_streams_gone(time, |qp_num| weft_verbs::slot_of_qpn(qp_num) == slot);
    }

    /// Returns the number of the peer's queue pair, if both ends of a connection exchange data without the stream.
    pub fn stream_peer(&self, conn: ConnId) -> Option<u32> {
        self.service.streams().peer_qp(conn)
    }

    /// Returns the other end of a connection that a peer made, and the number of its queue pair, if it is in this network
    /// namespace.
    pub fn stream_twin(&self, conn: ConnId) -> Option<(ConnId, u32)> {
        self.service.streams().twin(conn)
    }

    /// Records that both ends of a connection exchange data without the stream.
    pub fn pair_streams(&mut self, conn: ConnId, twin: ConnId) {
        self.service.pair_streams(conn, twin);
    }

    /// Returns the process whose id has a connection.
    pub fn stream_client(&self, conn: ConnId) -> Option<ClientId> {
        self.service.stream_client(conn).map(|client| client.0)
    }
}
