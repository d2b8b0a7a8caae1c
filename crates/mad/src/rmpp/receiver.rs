//! Receiver of a transfer: puts segments in order, keeps early ones, and acknowledges at the end of the sender's window
//! and of the transfer.

use std::collections::BTreeMap;

use weft_wire::mad::rmpp::{RmppHeader, RmppStatus};
use weft_wire::mad::{MAD_LEN, Mad};
use zerocopy::IntoBytes;

use super::{HEADER_AT, PAYLOAD_AT, header};
use crate::limits::{RMPP_WINDOW, TRANSFER_BYTES_MAX};

/// Result of a received segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// Send nothing.
    Quiet,
    /// Acknowledge: [`Receiver::ack`].
    Ack,
    /// Acknowledge; the transfer is complete: [`Receiver::take`].
    Complete,
    /// Protocol error: abort the transfer with this status.
    Abort(RmppStatus),
}

/// Incoming transfer.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// Headers of the first segment, and the data received in order.
    bytes: Vec<u8>,
    data_at: usize,
    /// Last segment received in order.
    in_order: u32,
    /// Last segment that the sender may send.
    window: u32,
    /// Segments received early, at most a window of them.
    early: BTreeMap<u32, Mad>,
    complete: bool,
}

impl Receiver {
    /// Starts a transfer of a class whose data begins at `data_at`.
    pub fn new(data_at: usize) -> Receiver {
        debug_assert!((PAYLOAD_AT..MAD_LEN).contains(&data_at));
        Receiver { bytes: Vec::new(), data_at, in_order: 0, window: 1, early: BTreeMap::new(), complete: false }
    }

    /// Returns the bytes that it holds.
    pub fn held(&self) -> usize {
        self.bytes.len() + self.early.len() * MAD_LEN
    }

    /// Returns whether all of it has arrived.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns the acknowledgement of everything received so far.
    pub fn ack(&self) -> RmppHeader {
        RmppHeader::ack(self.in_order, self.window)
    }

    /// Returns the whole transfer, once it is complete: the first segment's headers and all data.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Handles a data segment.
    pub fn on_data(&mut self, mad: &Mad) -> Received {
        let head = header(mad);
        let number = head.segment();
        if head.is_first() != (number == 1) {
            return Received::Abort(RmppStatus::INCONSISTENT_FIRST);
        }
        if number <= self.in_order || self.complete {
            return Received::Ack;
        }
        if number > self.window {
            return Received::Quiet;
        }
        self.early.insert(number, *mad);
        while let Some(next) = self.early.remove(&(self.in_order + 1)) {
            match self.append(&next) {
                Ok(true) => return Received::Complete,
                Ok(false) => {}
                Err(status) => return Received::Abort(status),
            }
        }
        if self.in_order < self.window {
            return Received::Quiet;
        }
        self.window += RMPP_WINDOW;
        Received::Ack
    }

    /// Appends the next segment; returns whether it was the last.
    fn append(&mut self, mad: &Mad) -> Result<bool, RmppStatus> {
        let head = header(mad);
        self.in_order += 1;
        if self.bytes.is_empty() {
            self.bytes.extend(&mad.as_bytes()[..self.data_at]);
        }
        let data = &mad.data[self.data_at - HEADER_AT..];
        let len = if head.is_last() { self.len_of_last(head.payload_len()) } else { data.len() };
        if self.bytes.len() + len > TRANSFER_BYTES_MAX {
            return Err(RmppStatus::RESOURCES_EXHAUSTED);
        }
        self.bytes.extend(&data[..len]);
        if head.is_last() {
            self.complete = true;
            self.early.clear();
            // The transfer is complete: a larger window would be useless.
            self.window = self.window.max(self.in_order);
        }
        Ok(head.is_last())
    }

    /// Returns the bytes of data in a last segment; an invalid length counts as a full segment, as in Linux.
    fn len_of_last(&self, payload_len: u32) -> usize {
        let room = MAD_LEN - self.data_at;
        let class_header = self.data_at - PAYLOAD_AT;
        match (payload_len as usize).checked_sub(class_header) {
            Some(len) if len <= room => len,
            _ => room,
        }
    }
}
