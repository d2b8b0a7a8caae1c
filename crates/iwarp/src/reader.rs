//! Receiving side of MPA: bytes of a stream, cut anywhere, become the parts of FPDUs.
//!
//! ```text
//!   Length ──▶ Control ──▶ Header ──▶ Payload ──▶ Trailer ──▶ Length      a marker may interrupt each of them
//!      └───────── ULPDU length 0 ──────────────────▲
//! ```

use weft_wire::iwarp::{
    CRC_LEN, Control, HEADER_LEN_MAX, HeaderError, LENGTH_LEN, MARKER_INTERVAL, MARKER_LEN, Marker, SegmentHeader,
    pad_len,
};
use zerocopy::FromBytes;

use crate::{StreamFault, StreamParams};

/// Part of an FPDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FpduEvent<'a> {
    /// The header of a segment. Its CRC is not checked yet: act on the segment when its end comes.
    Header(SegmentHeader),
    /// The next bytes of the payload.
    Payload(&'a [u8]),
    /// The FPDU is complete, and its CRC is right.
    End,
    /// The FPDU is complete, and has no segment.
    Empty,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Length,
    Control,
    Header,
    Payload,
    Trailer,
}

/// Reader of one stream.
#[derive(Debug)]
pub struct FpduReader {
    markers: bool,
    crc: bool,
    stage: Stage,
    /// ULPDU length and header; then padding and CRC.
    buffer: [u8; LENGTH_LEN + HEADER_LEN_MAX],
    have: usize,
    want: usize,
    /// Padding and CRC, kept apart because a TERMINATE repeats the header.
    trailer: [u8; 3 + CRC_LEN],
    header_len: usize,
    ulpdu: u16,
    payload_left: u32,
    /// Fault of the header: with CRCs, the rest of the FPDU tells whether the peer sent this header.
    fault: Option<HeaderError>,
    /// CRC of the FPDU so far.
    sum: u32,
    /// Bytes since the FPDU's first one, markers included.
    since_start: u32,
    /// Bytes until the next marker.
    to_marker: usize,
    marker: [u8; MARKER_LEN],
    marker_have: usize,
}

impl FpduReader {
    /// Creates a reader of a stream that begins now.
    pub fn new(params: &StreamParams) -> FpduReader {
        FpduReader {
            markers: params.markers_in,
            crc: params.crc,
            stage: Stage::Length,
            buffer: [0; LENGTH_LEN + HEADER_LEN_MAX],
            have: 0,
            want: LENGTH_LEN,
            trailer: [0; 3 + CRC_LEN],
            header_len: 0,
            ulpdu: 0,
            payload_left: 0,
            fault: None,
            sum: 0,
            since_start: 0,
            to_marker: 0,
            marker: [0; MARKER_LEN],
            marker_have: 0,
        }
    }

    /// Returns whether the stream may end here.
    pub fn is_between_fpdus(&self) -> bool {
        self.stage == Stage::Length && self.have == 0
    }

    /// Returns the header of the current segment as received, from DDP's control fields on.
    pub fn header_bytes(&self) -> &[u8] {
        self.buffer.get(LENGTH_LEN..LENGTH_LEN + self.header_len).unwrap_or_default()
    }

    /// Returns the fault of the current FPDU's header, if its CRC is still to come.
    pub fn pending_fault(&self) -> Option<StreamFault> {
        self.fault.map(StreamFault::Header)
    }

    /// Returns the ULPDU length of the current FPDU.
    pub fn ulpdu_len(&self) -> u16 {
        self.ulpdu
    }

    /// Returns the bytes of the current payload that have not come.
    pub fn payload_left(&self) -> u32 {
        if self.stage == Stage::Payload { self.payload_left } else { 0 }
    }

    /// Returns how many of the next bytes may be received at their destination, past this reader. None with CRCs: a
    /// program may write to the destination, and the CRC of what lies there would be wrong. None with markers: they
    /// interrupt the payload.
    pub fn direct_len(&self) -> u32 {
        if self.crc || self.markers { 0 } else { self.payload_left() }
    }

    /// Notes that `len` bytes were received at their destination, of the [`FpduReader::direct_len`] allowed ones.
    pub fn skip(&mut self, len: u32) {
        debug_assert!(len <= self.direct_len());
        self.payload_left = self.payload_left.saturating_sub(len);
    }

    /// Takes the next part of an FPDU from the front of `input`. `None`: all of `input` is used up.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<FpduEvent<'a>>, StreamFault> {
        loop {
            // Stages without bytes of their own come first: a segment without payload must not wait for more input.
            if self.stage == Stage::Payload && self.payload_left == 0 {
                self.begin_trailer();
            }
            if input.is_empty() {
                return Ok(None);
            }
            if self.markers && self.to_marker == 0 {
                self.take_marker(input)?;
                continue;
            }
            let room = if self.markers { self.to_marker } else { usize::MAX };
            if self.stage == Stage::Payload {
                let len = room.min(self.payload_left as usize);
                let bytes = self.take(input, len);
                self.payload_left -= bytes.len() as u32;
                if self.fault.is_some() {
                    continue;
                }
                return Ok(Some(FpduEvent::Payload(bytes)));
            }
            if let Some(event) = self.gather(input, room)? {
                return Ok(Some(event));
            }
        }
    }

    /// Splits at most `len` bytes off the input and counts them.
    fn take<'a>(&mut self, input: &mut &'a [u8], len: usize) -> &'a [u8] {
        let (bytes, rest) = input.split_at(len.min(input.len()));
        *input = rest;
        self.since_start += bytes.len() as u32;
        self.to_marker = self.to_marker.saturating_sub(bytes.len());
        if self.crc && !self.is_crc_next() {
            self.sum = crc32c::crc32c_append(self.sum, bytes);
        }
        bytes
    }

    /// Returns whether the next bytes are those of the CRC itself.
    fn is_crc_next(&self) -> bool {
        self.stage == Stage::Trailer && self.have >= self.want - CRC_LEN
    }

    fn take_marker(&mut self, input: &mut &[u8]) -> Result<(), StreamFault> {
        let (bytes, rest) = input.split_at((MARKER_LEN - self.marker_have).min(input.len()));
        *input = rest;
        self.marker[self.marker_have..][..bytes.len()].copy_from_slice(bytes);
        self.marker_have += bytes.len();
        if self.marker_have < MARKER_LEN {
            return Ok(());
        }
        let marker = Marker::read_from_bytes(&self.marker).map_err(|_| StreamFault::Marker)?;
        // A marker between two FPDUs belongs to the second (RFC 5044 §4.3).
        // The two low bits of the distance are zero, and a receiver ignores them.
        if u32::from(marker.fpdu_ptr() & !3) != self.since_start {
            return Err(StreamFault::Marker);
        }
        if self.crc {
            self.sum = crc32c::crc32c_append(self.sum, &self.marker);
        }
        if self.since_start != 0 {
            self.since_start += MARKER_LEN as u32;
        }
        self.marker_have = 0;
        self.to_marker = MARKER_INTERVAL - MARKER_LEN;
        Ok(())
    }

    /// Collects the bytes of a stage that must be complete, and ends it.
    fn gather(&mut self, input: &mut &[u8], room: usize) -> Result<Option<FpduEvent<'static>>, StreamFault> {
        let mut len = room.min(self.want - self.have);
        // The CRC does not cover itself.
        if self.stage == Stage::Trailer && !self.is_crc_next() {
            len = len.min(self.want - CRC_LEN - self.have);
        }
        let bytes = self.take(input, len);
        let into = if self.stage == Stage::Trailer { &mut self.trailer[..] } else { &mut self.buffer[..] };
        into[self.have..][..bytes.len()].copy_from_slice(bytes);
        self.have += bytes.len();
        if self.have < self.want {
            return Ok(None);
        }
        let end = match self.stage {
            Stage::Length => self.end_length(),
            Stage::Control => self.end_control(),
            Stage::Header => self.end_header().map(Some),
            Stage::Payload => Ok(None),
            Stage::Trailer => return self.end_trailer().map(Some),
        };
        match end {
            Err(StreamFault::Header(fault)) if self.crc => {
                self.fault = Some(fault);
                self.payload_left = u32::from(self.ulpdu) - (self.have - LENGTH_LEN) as u32;
                self.stage = Stage::Payload;
                Ok(None)
            }
            end => end,
        }
    }

    fn end_length(&mut self) -> Result<Option<FpduEvent<'static>>, StreamFault> {
        self.ulpdu = u16::from_be_bytes([self.buffer[0], self.buffer[1]]);
        self.header_len = 0;
        match usize::from(self.ulpdu) {
            0 => self.begin_trailer(),
            len if len < size_of::<Control>() => return Err(HeaderError::Length.into()),
            _ => (self.stage, self.want) = (Stage::Control, LENGTH_LEN + size_of::<Control>()),
        }
        Ok(None)
    }

    fn end_control(&mut self) -> Result<Option<FpduEvent<'static>>, StreamFault> {
        let control = Control::read_from_bytes(&self.buffer[LENGTH_LEN..self.have]).map_err(|_| HeaderError::Length)?;
        let len = SegmentHeader::len_of(control, usize::from(self.ulpdu))?;
        (self.stage, self.want) = (Stage::Header, LENGTH_LEN + len);
        Ok(None)
    }

    fn end_header(&mut self) -> Result<FpduEvent<'static>, StreamFault> {
        self.header_len = self.want - LENGTH_LEN;
        self.payload_left = u32::from(self.ulpdu) - self.header_len as u32;
        self.stage = Stage::Payload;
        Ok(FpduEvent::Header(SegmentHeader::parse_prefix(self.header_bytes())?))
    }

    fn begin_trailer(&mut self) {
        (self.stage, self.have, self.want) = (Stage::Trailer, 0, pad_len(usize::from(self.ulpdu)) + CRC_LEN);
    }

    fn end_trailer(&mut self) -> Result<FpduEvent<'static>, StreamFault> {
        let crc = self.trailer[self.want - CRC_LEN..self.want].first_chunk().copied().map(u32::from_le_bytes);
        if self.crc && crc != Some(self.sum) {
            return Err(StreamFault::Crc);
        }
        if let Some(fault) = self.fault {
            return Err(fault.into());
        }
        (self.stage, self.have, self.want) = (Stage::Length, 0, LENGTH_LEN);
        (self.sum, self.since_start) = (0, 0);
        Ok(if self.ulpdu == 0 { FpduEvent::Empty } else { FpduEvent::End })
    }
}
