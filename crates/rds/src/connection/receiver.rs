//! Receiving side: messages from their frames, duplicates, and the acknowledgement that is due.

use super::{Breach, Delivery};
use crate::limits::{FRAGMENT_BYTES, MESSAGE_BYTES_MAX};
use crate::rdma::Cookie;
use crate::wire::{CongestionMap, Extension, Flags, Header};

/// Result of a frame.
#[derive(Debug)]
pub enum Received {
    /// An acknowledgement, a part of a message, or a duplicate.
    Nothing,
    /// A message.
    Message(Delivery),
    /// A congestion map.
    Map(CongestionMap),
}

/// Receiving side of a connection.
#[derive(Default, Debug)]
pub struct Receiver {
    /// Message in progress: the header of its first frame, and its data so far.
    partial: Option<(Header, Vec<u8>)>,
    next_sequence: u64,
    /// Sequence number of the last message on this queue pair; 0: none yet.
    acknowledgement: u64,
    is_ack_requested: bool,
}

impl Receiver {
    /// Begins on another queue pair. The messages received so far are remembered.
    pub fn restart(&mut self) {
        let next_sequence = self.next_sequence;
        *self = Receiver { next_sequence, ..Receiver::default() };
    }

    /// Sequence number of the next message.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Acknowledgement for the header of a frame.
    pub fn acknowledgement(&self) -> u64 {
        self.acknowledgement
    }

    /// Whether the peer waits for an acknowledgement.
    pub fn is_ack_requested(&self) -> bool {
        self.is_ack_requested
    }

    /// The acknowledgement is on its way.
    pub fn acknowledged(&mut self) {
        self.is_ack_requested = false;
    }

    /// Handles a frame.
    ///
    /// # Errors
    /// It breaches the protocol.
    pub fn handle(&mut self, header: &Header, data: &[u8]) -> Result<Received, Breach> {
        if header.source_port == 0 && header.destination_port == 0 && data.is_empty() {
            return Ok(Received::Nothing);
        }
        let (first, mut message) = self.partial.take().unwrap_or((*header, Vec::new()));
        let identity = |h: &Header| (h.sequence, h.length, h.source_port, h.destination_port);
        if identity(&first) != identity(header) {
            return Err(Breach::Mismatch(first.sequence));
        }
        let length = first.length as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(Breach::TooLong(first.length));
        }
        let expected = FRAGMENT_BYTES.min(length - message.len());
        if data.len() != expected {
            return Err(Breach::FragmentLength { found: data.len(), expected });
        }
        message.extend_from_slice(data);
        if message.len() < length {
            self.partial = Some((first, message));
            return Ok(Received::Nothing);
        }
        self.complete(&first, message)
    }

    fn complete(&mut self, header: &Header, payload: Vec<u8>) -> Result<Received, Breach> {
        if header.flags.contains(Flags::CONGESTION_MAP) {
            let map = CongestionMap::parse(&payload).ok_or(Breach::MapLength(header.length))?;
            return Ok(Received::Map(map));
        }
        self.acknowledgement = header.sequence;
        self.is_ack_requested |= header.flags.contains(Flags::ACK_REQUIRED);
        // Sequence numbers may fall otherwise: the peer's host has started again.
        if header.flags.contains(Flags::RETRANSMITTED) && header.sequence < self.next_sequence {
            return Ok(Received::Nothing);
        }
        self.next_sequence = header.sequence.wrapping_add(1);
        let (source_port, destination_port) = (header.source_port, header.destination_port);
        let mut delivery = Delivery { source_port, destination_port, payload, used_key: None, cookie: None };
        for extension in header.extensions.iter() {
            match extension {
                Extension::Rdma { key } => delivery.used_key = Some(key),
                Extension::RdmaDestination { key, offset } => delivery.cookie = Some(Cookie { key, offset }),
                Extension::Version(_) | Extension::Paths(_) | Extension::Generation(_) => {}
            }
        }
        Ok(Received::Message(delivery))
    }
}
