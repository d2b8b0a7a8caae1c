//! The receiver of a transfer: puts segments in order, keeps those that come early, acknowledges when the sender's window
//! is used up and at the end.

use std::collections::BTreeMap;

use weft_wire::mad::rmpp::{RmppHeader, RmppStatus};
use weft_wire::mad::{MAD_LEN, Mad};
use zerocopy::IntoBytes;

use super::{HEADER_AT, PAYLOAD_AT, header};
use crate::limits::{RMPP_WINDOW, TRANSFER_BYTES_MAX};

/// What came of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// Nothing is to be said.
    Quiet,
    /// Acknowledge: [`Receiver::ack`].
    Ack,
    /// Acknowledge; the transfer is complete: [`Receiver::take`].
    Complete,
    /// It cannot be: end the transfer with this status.
    Abort(RmppStatus),
}

/// A transfer on its way in.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// The first segment's headers, and data as far as it is in order.
    bytes: Vec<u8>,
    data_at: usize,
    /// Last segment in order.
    in_order: u32,
    /// Last segment that the sender may send.
    window: u32,
    /// Segments that came early, at most a window of them.
    early: BTreeMap<u32, Mad>,
    complete: bool,
}

impl Receiver {
    /// A transfer of a class whose data begins at `data_at`.
    pub fn new(data_at: usize) -> Receiver {
        debug_assert!((PAYLOAD_AT..MAD_LEN).contains(&data_at));
        Receiver { bytes: Vec::new(), data_at, in_order: 0, window: 1, early: BTreeMap::new(), complete: false }
    }

    /// Bytes that it holds.
    pub fn held(&self) -> usize {
        self.bytes.len() + self.early.len() * MAD_LEN
    }

    /// Whether all of it has come.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The acknowledgement of what has come.
    pub fn ack(&self) -> RmppHeader {
        RmppHeader::ack(self.in_order, self.window)
    }

    /// The whole, once it is complete: the first segment's headers and all data.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// A segment of data.
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

    /// Put the next segment at the end; whether it was the last.
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
            // No more is to come: a window beyond would be room for nothing.
            self.window = self.window.max(self.in_order);
        }
        Ok(head.is_last())
    }

    /// Bytes of data in a last segment; one that says nonsense is taken as full, as Linux does.
    fn len_of_last(&self, payload_len: u32) -> usize {
        let room = MAD_LEN - self.data_at;
        let class_header = self.data_at - PAYLOAD_AT;
        match (payload_len as usize).checked_sub(class_header) {
            Some(len) if len <= room => len,
            _ => room,
        }
    }
}
