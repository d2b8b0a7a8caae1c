//! Reliable multi-packet transaction protocol (IBA 13.6): its header, which follows the common one in the classes that
//! use it. The state machines are in the management layer.
//!
//! ```text
//! | version |  type   | resp time (5) | flags (3) | status |
//! |         segment number, or what the type says (4)       |
//! |  payload length, new window, or what the type says (4)  |
//! ```

use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::layout::open;

pub use super::data_offset::data_offset;

open! {
    /// Type of a datagram of the protocol.
    RmppType(u8) {
        /// The protocol is not in use.
        NONE = 0, "none";
        DATA = 1, "DATA";
        ACK = 2, "ACK";
        STOP = 3, "STOP";
        ABORT = 4, "ABORT";
    }
}

open! {
    /// Reason for stopping or aborting a transaction.
    RmppStatus(u8) {
        NORMAL = 0, "normal";
        RESOURCES_EXHAUSTED = 1, "resources exhausted";
        TOTAL_TIME_TOO_LONG = 118, "total time too long";
        INCONSISTENT_LAST = 119, "inconsistent last and payload length";
        INCONSISTENT_FIRST = 120, "inconsistent first and segment number";
        BAD_TYPE = 121, "bad type";
        NEW_WINDOW_TOO_SMALL = 122, "new window last too small";
        SEGMENT_TOO_BIG = 123, "segment number too big";
        ILLEGAL_STATUS = 124, "illegal status";
        UNSUPPORTED_VERSION = 125, "unsupported version";
        TOO_MANY_RETRIES = 126, "too many retries";
        UNSPECIFIED = 127, "unspecified";
    }
}

impl RmppStatus {
    /// Whether a STOP may carry this status; an ABORT carries the others.
    pub fn is_stop(self) -> bool {
        self == RmppStatus::RESOURCES_EXHAUSTED
    }
}

/// The header.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct RmppHeader {
    version: u8,
    kind: u8,
    time_flags: u8,
    status: u8,
    data1: U32,
    data2: U32,
}

const _: () = assert!(size_of::<RmppHeader>() == RmppHeader::LEN);

impl RmppHeader {
    /// Length in bytes.
    pub const LEN: usize = 12;
    /// The only protocol version.
    pub const VERSION: u8 = 1;
    /// The protocol is in use in this datagram.
    pub const ACTIVE: u8 = 1;
    /// First datagram of a transfer.
    pub const FIRST: u8 = 2;
    /// Last datagram of a transfer.
    pub const LAST: u8 = 4;
    /// Response time code for "not given".
    pub const NO_RESP_TIME: u8 = 0x1f;

    /// Creates the header of a DATA datagram. `payload_len` counts the whole transfer in the first segment, only this
    /// segment in the last, and is 0 otherwise.
    pub fn data(flags: u8, segment: u32, payload_len: u32) -> RmppHeader {
        RmppHeader::new(RmppType::DATA, flags | Self::ACTIVE, RmppStatus::NORMAL, segment, payload_len)
    }
    /// Creates the header of an ACK for all segments up to `segment`; the peer may send segments up to
    /// `new_window_last`.
    pub fn ack(segment: u32, new_window_last: u32) -> RmppHeader {
        RmppHeader::new(RmppType::ACK, Self::ACTIVE, RmppStatus::NORMAL, segment, new_window_last)
    }
    /// Creates the header of an early end: a STOP or an ABORT, depending on the status.
    pub fn end(status: RmppStatus) -> RmppHeader {
        let kind = if status.is_stop() { RmppType::STOP } else { RmppType::ABORT };
        RmppHeader::new(kind, Self::ACTIVE, status, 0, 0)
    }

    fn new(kind: RmppType, flags: u8, status: RmppStatus, data1: u32, data2: u32) -> RmppHeader {
        RmppHeader {
            version: Self::VERSION,
            kind: kind.0,
            time_flags: Self::NO_RESP_TIME << 3 | flags & 7,
            status: status.0,
            data1: data1.into(),
            data2: data2.into(),
        }
    }

    /// Version.
    pub fn version(&self) -> u8 {
        self.version
    }
    /// Type of the datagram.
    pub fn kind(&self) -> RmppType {
        RmppType(self.kind)
    }
    /// Maximum response time of its sender: 4.096 us * 2^n; 31: not given.
    pub fn resp_time(&self) -> u8 {
        self.time_flags >> 3
    }
    /// [`Self::ACTIVE`], [`Self::FIRST`], [`Self::LAST`].
    pub fn flags(&self) -> u8 {
        self.time_flags & 7
    }
    /// Whether the protocol is in use in this datagram.
    pub fn is_active(&self) -> bool {
        self.flags() & Self::ACTIVE != 0
    }
    /// Whether this is the first segment of a transfer.
    pub fn is_first(&self) -> bool {
        self.flags() & Self::FIRST != 0
    }
    /// Whether this is the last segment of a transfer.
    pub fn is_last(&self) -> bool {
        self.flags() & Self::LAST != 0
    }
    /// Status.
    pub fn status(&self) -> RmppStatus {
        RmppStatus(self.status)
    }
    /// Number of this segment, from 1; in an ACK, the last segment received.
    pub fn segment(&self) -> u32 {
        self.data1.get()
    }
    /// Payload length; in an ACK, the last segment that the peer may send.
    pub fn payload_len(&self) -> u32 {
        self.data2.get()
    }
    /// Sets the maximum response time of its sender.
    pub fn set_resp_time(&mut self, resp_time: u8) {
        self.time_flags = self.time_flags & 7 | resp_time << 3;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_specification_puts_them() {
        let mut header = RmppHeader::data(RmppHeader::FIRST, 1, 0x1234);
        assert_eq!(header.as_bytes(), [1, 1, 0xfb, 0, 0, 0, 0, 1, 0, 0, 0x12, 0x34]);
        assert!(header.is_active() && header.is_first() && !header.is_last());
        header.set_resp_time(5);
        assert_eq!((header.resp_time(), header.flags()), (5, 3));
        assert_eq!(RmppHeader::ack(7, 70).as_bytes()[..3], [1, 2, 0xf9]);
        assert_eq!(RmppHeader::end(RmppStatus::RESOURCES_EXHAUSTED).kind(), RmppType::STOP);
        assert_eq!(RmppHeader::end(RmppStatus::TOO_MANY_RETRIES).kind(), RmppType::ABORT);
    }
}
