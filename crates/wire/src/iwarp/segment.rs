//! Header of a DDP segment with RDMAP's fields, read and written as one value.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{AtomicRequest, AtomicResponse, Control, ImmediateData, RdmapOpcode, ReadRequest, Tagged, Untagged};

/// Longest header of a segment: that of an Atomic Request.
pub const HEADER_LEN_MAX: usize = 18 + 52;

/// Bytes of the control fields, from which the length of the header follows.
const CONTROL_LEN: usize = size_of::<Control>();

/// Header of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// Control fields.
    pub control: Control,
    /// The rest, as the opcode says.
    pub body: Body,
}

/// Header of a segment after its control fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // Each is named after its message.
pub enum Body {
    Write(Tagged),
    ReadResponse(Tagged),
    Send(Untagged),
    ReadRequest(Untagged, ReadRequest),
    Terminate(Untagged, [u8; 4]),
    Immediate(Untagged, ImmediateData),
    AtomicRequest(Untagged, AtomicRequest),
    AtomicResponse(Untagged, AtomicResponse),
}

/// Reason why a header is not one of this version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeaderError {
    /// DDP has another version; the segment names a tagged buffer, or not.
    #[error("unknown version of DDP")]
    DdpVersion {
        /// Whether its T bit is set.
        tagged: bool,
    },
    /// RDMAP has another version.
    #[error("unknown version of RDMAP")]
    RdmapVersion,
    /// The opcode is unknown, or its T bit is wrong.
    #[error("unexpected RDMAP opcode")]
    Opcode,
    /// The segment is shorter than its header, or holds bytes that its message cannot have.
    #[error("a segment of a wrong length")]
    Length,
}

/// Splits a header off the front of some bytes.
fn take<T: FromBytes + Immutable + KnownLayout + Unaligned>(bytes: &mut &[u8]) -> Result<T, HeaderError> {
    let (value, rest) = T::read_from_prefix(bytes).map_err(|_| HeaderError::Length)?;
    *bytes = rest;
    Ok(value)
}

impl SegmentHeader {
    /// Checks the control fields that begin a ULPDU of `ulpdu` bytes. Returns the bytes of its header.
    pub fn len_of(control: Control, ulpdu: usize) -> Result<usize, HeaderError> {
        if control.ddp_version() != Control::DDP_VERSION {
            return Err(HeaderError::DdpVersion { tagged: control.is_tagged() });
        }
        if control.rdmap_version() != Control::RDMAP_VERSION {
            return Err(HeaderError::RdmapVersion);
        }
        let info = control.opcode().info().ok_or(HeaderError::Opcode)?;
        if control.is_tagged() != info.queue.is_none() {
            return Err(HeaderError::Opcode);
        }
        let len = info.header_len();
        // A TERMINATE repeats headers, which are its payload here. Other messages without payload are one segment.
        let carries = info.carries_payload() || info.opcode == RdmapOpcode::TERMINATE;
        let whole = carries || control.is_last();
        if ulpdu < len || !carries && ulpdu > len || !whole {
            return Err(HeaderError::Length);
        }
        Ok(len)
    }

    /// Reads the header of a ULPDU.
    pub fn parse(ulpdu: &[u8]) -> Result<SegmentHeader, HeaderError> {
        let mut rest = ulpdu;
        let control: Control = take(&mut rest)?;
        SegmentHeader::len_of(control, ulpdu.len())?;
        SegmentHeader::parse_prefix(ulpdu)
    }

    /// Reads a header whose length [`SegmentHeader::len_of`] has checked, without its payload.
    pub fn parse_prefix(bytes: &[u8]) -> Result<SegmentHeader, HeaderError> {
        let mut rest = bytes;
        let control: Control = take(&mut rest)?;
        let rest = &mut rest;
        let body = match control.opcode() {
            RdmapOpcode::WRITE => Body::Write(take(rest)?),
            RdmapOpcode::READ_RESPONSE => Body::ReadResponse(take(rest)?),
            RdmapOpcode::READ_REQUEST => Body::ReadRequest(take(rest)?, take(rest)?),
            RdmapOpcode::TERMINATE => Body::Terminate(take(rest)?, take(rest)?),
            RdmapOpcode::IMMEDIATE | RdmapOpcode::IMMEDIATE_SE => Body::Immediate(take(rest)?, take(rest)?),
            RdmapOpcode::ATOMIC_REQUEST => Body::AtomicRequest(take(rest)?, take(rest)?),
            RdmapOpcode::ATOMIC_RESPONSE => Body::AtomicResponse(take(rest)?, take(rest)?),
            opcode if opcode.is_send() => Body::Send(take(rest)?),
            _ => return Err(HeaderError::Opcode),
        };
        Ok(SegmentHeader { control, body })
    }

    /// Composes the header of a segment.
    pub fn new(opcode: RdmapOpcode, last: bool, body: Body) -> SegmentHeader {
        SegmentHeader { control: Control::new(opcode, last), body }
    }

    /// Writes it.
    pub fn write(&self) -> Header {
        let mut header = Header { bytes: [0; HEADER_LEN_MAX], len: 0 };
        header.put(&self.control);
        match &self.body {
            Body::Write(tagged) | Body::ReadResponse(tagged) => header.put(tagged),
            Body::Send(untagged) => header.put(untagged),
            Body::ReadRequest(untagged, read) => header.put(untagged).put(read),
            Body::Terminate(untagged, control) => header.put(untagged).put(control),
            Body::Immediate(untagged, immediate) => header.put(untagged).put(immediate),
            Body::AtomicRequest(untagged, request) => header.put(untagged).put(request),
            Body::AtomicResponse(untagged, response) => header.put(untagged).put(response),
        };
        header
    }
}

/// A written header.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    bytes: [u8; HEADER_LEN_MAX],
    len: usize,
}

impl Header {
    fn put<T: IntoBytes + Immutable + Unaligned>(&mut self, value: &T) -> &mut Header {
        let end = self.len + size_of::<T>();
        self.bytes[self.len..end].copy_from_slice(value.as_bytes());
        self.len = end;
        self
    }

    /// Returns its bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

const _: () = assert!(CONTROL_LEN == 2);

#[cfg(test)]
mod tests {
    use super::super::Queue;
    use super::*;

    #[test]
    fn lengths_and_versions_are_checked_before_anything_is_read() {
        let send = SegmentHeader::new(RdmapOpcode::SEND, true, Body::Send(Untagged::new(Queue::SEND, 1, 0, 0)));
        let mut bytes = send.write().as_slice().to_vec();
        assert_eq!(SegmentHeader::parse(&bytes), Ok(send));
        assert_eq!(SegmentHeader::parse(&bytes[..17]), Err(HeaderError::Length));
        bytes[0] = 0x42;
        assert_eq!(SegmentHeader::parse(&bytes), Err(HeaderError::DdpVersion { tagged: false }));
        bytes[..2].copy_from_slice(&[0x41, 0x83]);
        assert_eq!(SegmentHeader::parse(&bytes), Err(HeaderError::RdmapVersion));
        bytes[..2].copy_from_slice(&[0xc1, 0x43]);
        assert_eq!(SegmentHeader::parse(&bytes), Err(HeaderError::Opcode), "a SEND names no tagged buffer");
        bytes[..2].copy_from_slice(&[0x41, 0x4c]);
        assert_eq!(SegmentHeader::parse(&bytes), Err(HeaderError::Opcode));
        assert_eq!(SegmentHeader::parse(&[]), Err(HeaderError::Length));
    }

    #[test]
    fn a_message_without_payload_is_one_segment_of_its_header() {
        let read = ReadRequest::new(Tagged::new(1, 2), Tagged::new(3, 4), 5);
        let body = Body::ReadRequest(Untagged::new(Queue::READ_REQUEST, 1, 0, 0), read);
        let mut bytes = SegmentHeader::new(RdmapOpcode::READ_REQUEST, true, body).write().as_slice().to_vec();
        bytes.push(0);
        assert_eq!(SegmentHeader::parse(&bytes), Err(HeaderError::Length));
        bytes.pop();
        bytes[0] &= !0x40;
        assert_eq!(SegmentHeader::parse(&bytes), Err(HeaderError::Length));
    }
}
