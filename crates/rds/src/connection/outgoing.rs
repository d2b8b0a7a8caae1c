//! Messages to send.

use crate::limits::DATAGRAM_OVERHEAD_BYTES;
use crate::rdma::{Cookie, RdmaOperation};
use crate::wire::{Extension, Extensions};

/// Message to send.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Outgoing {
    /// Port of the sending socket.
    pub source_port: u16,
    /// Port of the receiving socket.
    pub destination_port: u16,
    /// The data, [`MESSAGE_BYTES_MAX`](crate::limits::MESSAGE_BYTES_MAX) at most.
    pub payload: Vec<u8>,
    /// Socket that hears of the acknowledgement.
    pub owner: Option<u64>,
    /// The peer acknowledges it at once: the owner's send buffer is nearly full.
    pub is_urgent: bool,
    /// Operation on the peer's memory before the message.
    pub rdma: Option<RdmaOperation>,
    /// Memory that the peer may use.
    pub destination: Option<Cookie>,
}

impl Outgoing {
    /// Bytes of the owner's send buffer.
    pub fn buffer_bytes(&self) -> usize {
        self.payload.len() + DATAGRAM_OVERHEAD_BYTES
    }

    /// Whether the operation is all there is: no frame follows it.
    pub fn is_silent(&self) -> bool {
        self.payload.is_empty() && self.destination.is_none() && self.rdma.is_some_and(|rdma| rdma.options.is_silent)
    }

    /// Extensions of the message's header.
    pub fn extensions(&self) -> Extensions {
        match (self.rdma, self.destination) {
            (Some(rdma), _) => Extensions::with(Extension::Rdma { key: rdma.key }),
            (None, Some(Cookie { key, offset })) => Extensions::with(Extension::RdmaDestination { key, offset }),
            (None, None) => Extensions::default(),
        }
    }

    /// Describes the message for a listing.
    pub fn describe(&self, sequence: u64) -> QueuedMessage {
        QueuedMessage {
            sequence,
            bytes: self.payload.len(),
            source_port: self.source_port,
            destination_port: self.destination_port,
            owner: self.owner,
        }
    }
}

/// Message in a queue, for a listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuedMessage {
    /// Sequence number; 0: none yet.
    pub sequence: u64,
    /// Bytes of data.
    pub bytes: usize,
    /// Port of the sending socket.
    pub source_port: u16,
    /// Port of the receiving socket.
    pub destination_port: u16,
    /// Owner.
    pub owner: Option<u64>,
}
