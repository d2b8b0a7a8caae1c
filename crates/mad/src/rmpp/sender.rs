//! Sender of a transfer: cuts it into segments, sends those that the receiver's window permits, and goes back to the
//! unacknowledged ones.

use weft_wire::mad::rmpp::{RmppHeader, RmppStatus};
use weft_wire::mad::{MAD_LEN, Mad};

use super::{PAYLOAD_AT, first_mad, set_header};
use crate::limits::TRANSFER_BYTES_MAX;

/// Reason why a transfer cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferError {
    /// Its class has no RMPP header.
    Class,
    /// It is shorter than the headers of its class.
    TooShort,
    /// It is longer than [`TRANSFER_BYTES_MAX`].
    TooLong,
}

impl std::fmt::Display for TransferError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TransferError::Class => f.write_str("the class has no multi-packet transfers: send at most 256 bytes"),
            TransferError::TooShort => f.write_str("the datagram is shorter than the headers of its class"),
            TransferError::TooLong => write!(f, "the transfer is longer than {TRANSFER_BYTES_MAX} bytes"),
        }
    }
}

impl std::error::Error for TransferError {}

/// Meaning of an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckOutcome {
    /// Outdated.
    Old,
    /// No new segment has arrived, and the window is no smaller.
    Window,
    /// More segments have arrived.
    Progress,
    /// All segments have arrived.
    Done,
    /// Protocol error: abort the transfer with this status.
    Abort(RmppStatus),
}

/// Outgoing transfer.
#[derive(Clone, Debug)]
pub struct Sender {
    /// Headers of the class and the data after them.
    bytes: Vec<u8>,
    data_at: usize,
    segments: u32,
    /// Last acknowledged segment.
    acked: u32,
    /// Last segment that may be sent.
    window: u32,
    /// Last segment sent since the sender went back.
    sent: u32,
}

impl Sender {
    /// Prepares to send these bytes: the datagram's headers, and data of any length from `data_at` on.
    pub fn new(bytes: Vec<u8>, data_at: Option<usize>) -> Result<Sender, TransferError> {
        let data_at = data_at.ok_or(TransferError::Class)?;
        if bytes.len() < data_at {
            return Err(TransferError::TooShort);
        }
        if bytes.len() > TRANSFER_BYTES_MAX {
            return Err(TransferError::TooLong);
        }
        let room = MAD_LEN - data_at;
        let segments = (bytes.len() - data_at).div_ceil(room).max(1) as u32;
        Ok(Sender { bytes, data_at, segments, acked: 0, window: 1, sent: 0 })
    }

    /// Returns the first datagram: the sender's headers and the first bytes of data.
    pub fn first(&self) -> Mad {
        first_mad(&self.bytes)
    }

    /// Returns the length of the transfer in bytes, headers of the class included.
    #[expect(clippy::len_without_is_empty, reason = "a transfer has headers")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of segments.
    pub fn segments(&self) -> u32 {
        self.segments
    }

    /// Returns whether all segments have been acknowledged.
    pub fn is_done(&self) -> bool {
        self.acked == self.segments
    }

    /// Returns the next segment that may be sent.
    pub fn next_segment(&mut self) -> Option<Mad> {
        if self.sent >= self.segments.min(self.window) {
            return None;
        }
        self.sent += 1;
        Some(self.segment(self.sent))
    }

    /// Goes back to the first unacknowledged segment.
    pub fn go_back(&mut self) {
        self.sent = self.acked;
    }

    /// Restarts from the first segment, as if nothing had been acknowledged.
    pub fn restart(&mut self) {
        (self.acked, self.window, self.sent) = (0, 1, 0);
    }

    /// Handles an acknowledgement of everything up to `segment`; segments up to `window` may be sent.
    pub fn on_ack(&mut self, segment: u32, window: u32) -> AckOutcome {
        if window < segment {
            return AckOutcome::Abort(RmppStatus::NEW_WINDOW_TOO_SMALL);
        }
        if segment > self.segments || segment > self.window {
            return AckOutcome::Abort(RmppStatus::SEGMENT_TOO_BIG);
        }
        if window < self.window || segment < self.acked {
            return AckOutcome::Old;
        }
        let progress = segment > self.acked;
        (self.acked, self.window, self.sent) = (segment, window, self.sent.max(segment));
        match progress {
            _ if self.is_done() => AckOutcome::Done,
            true => AckOutcome::Progress,
            false => AckOutcome::Window,
        }
    }

    fn segment(&self, number: u32) -> Mad {
        let room = MAD_LEN - self.data_at;
        let from = self.data_at + (number as usize - 1) * room;
        let data = &self.bytes[from..self.bytes.len().min(from + room)];
        let mut mad = first_mad(&self.bytes[..self.data_at]);
        let at = self.data_at - super::HEADER_AT;
        mad.data[at..at + data.len()].copy_from_slice(data);
        set_header(&mut mad, self.segment_header(number, data.len()));
        mad
    }

    /// Builds a segment's header. The first carries the total length, the last its own; both count the class's header.
    fn segment_header(&self, number: u32, len: usize) -> RmppHeader {
        let class_header = (self.data_at - PAYLOAD_AT) as u32;
        let (mut flags, mut payload) = (0, 0);
        if number == 1 {
            flags |= RmppHeader::FIRST;
            payload = (self.bytes.len() - self.data_at) as u32 + self.segments * class_header;
        }
        if number == self.segments {
            flags |= RmppHeader::LAST;
            payload = len as u32 + class_header;
        }
        RmppHeader::data(flags, number, payload)
    }
}
