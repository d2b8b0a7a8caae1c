//! A socket: its address, its buffers, and the datagrams that wait for its program.

use std::collections::VecDeque;
use std::net::SocketAddrV4;

use thiserror::Error;

use crate::limits::{
    BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, DATAGRAM_OVERHEAD_BYTES, MESSAGE_BYTES_MAX, NOTIFICATIONS_PER_SOCKET_MAX,
    OPERATION_BYTES_PER_SOCKET_MAX, OPERATIONS_PER_SOCKET_MAX, RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES,
};
use crate::rdma::{Cookie, Notification, RdmaOperation};

/// Name of a socket; the owner chooses it.
pub type SocketKey = u64;

/// Datagram for a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Sender.
    pub from: SocketAddrV4,
    /// Data.
    pub payload: Vec<u8>,
    /// Memory of the sender that the receiver may use.
    pub cookie: Option<Cookie>,
}

/// Parts of a datagram besides its data.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SendExtras {
    /// Operation on the peer's memory before the datagram.
    pub rdma: Option<RdmaOperation>,
    /// Memory that the peer may use.
    pub destination: Option<Cookie>,
}

impl Datagram {
    /// Bytes of a buffer.
    pub fn buffer_bytes(&self) -> usize {
        self.payload.len() + DATAGRAM_OVERHEAD_BYTES
    }
}

/// Reason why a call about a socket fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SocketError {
    /// There is no such socket.
    #[error("no such socket")]
    Unknown,
    /// The socket has an address.
    #[error("the socket has an address already")]
    Bound,
    /// Another socket has the address.
    #[error("the address is in use")]
    InUse,
    /// There are too many sockets.
    #[error("there are too many sockets")]
    TooMany,
}

/// Reason why a datagram cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SendError {
    /// The socket has no address.
    #[error("the socket has no address")]
    NotBound,
    /// The datagram is longer than the send buffer, or than any message.
    #[error("the datagram is too long")]
    TooLong,
    /// There are connections to too many hosts.
    #[error("there are too many connections")]
    TooManyPeers,
}

/// Address and settings of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketOptions {
    /// Address.
    pub bound: Option<SocketAddrV4>,
    /// Bytes of the send buffer.
    pub send_buffer: u32,
    /// Bytes of the receive buffer.
    pub receive_buffer: u32,
}

impl SocketOptions {
    /// Brings the sizes within their limits.
    pub fn clamp(&mut self) {
        for size in [&mut self.send_buffer, &mut self.receive_buffer] {
            *size = (*size).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX);
        }
    }
}

/// The socket.
#[derive(Debug)]
pub struct Socket {
    /// Address and settings.
    pub options: SocketOptions,
    /// Datagrams for the program.
    pub received: VecDeque<Datagram>,
    received_bytes: usize,
    /// Results of operations for the program.
    pub notifications: VecDeque<Notification>,
    /// Operations that have not completed.
    operations: usize,
    /// Bytes of these operations.
    operation_bytes: usize,
    /// Bytes of datagrams that the peer has not acknowledged.
    sent_bytes: usize,
    is_congested: bool,
}

impl Default for Socket {
    fn default() -> Socket {
        let options =
            SocketOptions { bound: None, send_buffer: SEND_BUFFER_BYTES, receive_buffer: RECEIVE_BUFFER_BYTES };
        Socket {
            options,
            received: VecDeque::new(),
            received_bytes: 0,
            notifications: VecDeque::new(),
            operations: 0,
            operation_bytes: 0,
            sent_bytes: 0,
            is_congested: false,
        }
    }
}

impl Socket {
    /// Bytes that wait for the program.
    pub fn received_bytes(&self) -> usize {
        self.received_bytes
    }

    /// Whether the send buffer has room for another datagram.
    pub fn has_room(&self) -> bool {
        self.sent_bytes < self.options.send_buffer as usize
            && self.operations < OPERATIONS_PER_SOCKET_MAX
            && self.operation_bytes < OPERATION_BYTES_PER_SOCKET_MAX
            && self.notifications.len() + self.operations < NOTIFICATIONS_PER_SOCKET_MAX
    }

    /// Whether operations have not completed.
    pub fn has_operations(&self) -> bool {
        self.operations > 0
    }

    /// An operation begins.
    pub fn operation_begins(&mut self, operation: &RdmaOperation) {
        self.operations += 1;
        self.operation_bytes += operation.length as usize;
    }

    /// An operation is over. Returns whether the send buffer has room again.
    pub fn operation_over(&mut self, operation: &RdmaOperation) -> bool {
        let had_room = self.has_room();
        self.operations = self.operations.saturating_sub(1);
        self.operation_bytes = self.operation_bytes.saturating_sub(operation.length as usize);
        !had_room && self.has_room()
    }

    /// Checks a datagram; returns the sender's address.
    pub fn check(&self, bytes: usize) -> Result<SocketAddrV4, SendError> {
        let from = self.options.bound.ok_or(SendError::NotBound)?;
        if bytes > MESSAGE_BYTES_MAX.min(self.options.send_buffer as usize) {
            return Err(SendError::TooLong);
        }
        Ok(from)
    }

    /// Takes bytes of the send buffer. Returns whether half of it is in use.
    pub fn charge(&mut self, bytes: usize) -> bool {
        self.sent_bytes += bytes;
        self.sent_bytes >= self.options.send_buffer as usize / 2
    }

    /// Gives bytes of the send buffer back. Returns whether it has room again.
    pub fn release(&mut self, bytes: usize) -> bool {
        let had_room = self.has_room();
        self.sent_bytes = self.sent_bytes.saturating_sub(bytes);
        !had_room && self.has_room()
    }

    /// Queues a datagram for the program. Returns its bytes.
    pub fn receive(&mut self, datagram: Datagram) -> usize {
        let bytes = datagram.buffer_bytes();
        self.received_bytes += bytes;
        self.received.push_back(datagram);
        bytes
    }

    /// Removes the first datagram. Returns its bytes.
    pub fn take(&mut self) -> usize {
        let bytes = self.received.pop_front().map_or(0, |datagram| datagram.buffer_bytes());
        self.received_bytes -= bytes;
        bytes
    }

    /// Returns the address and whether it is congested, if that has changed. A port stays congested until half of its buffer
    /// is free, so that it does not change with each datagram.
    pub fn congestion_change(&mut self) -> Option<(SocketAddrV4, bool)> {
        let size = self.options.receive_buffer as usize;
        let is_congested = self.received_bytes > if self.is_congested { size / 2 } else { size };
        let has_changed = std::mem::replace(&mut self.is_congested, is_congested) != is_congested;
        self.options.bound.filter(|_| has_changed).map(|address| (address, is_congested))
    }
}
