//! Sending side of MPA: headers and named payload become FPDUs.

use weft_wire::iwarp::{CRC_LEN, MARKER_INTERVAL, MARKER_LEN, Marker, fpdu_len, mulpdu, pad_len};
use zerocopy::IntoBytes;

use crate::StreamParams;

/// Destination of an FPDU's bytes. The payload stays where it is: the sink names it.
pub trait FpduSink {
    /// Appends bytes of MPA, DDP or RDMAP.
    fn control(&mut self, bytes: &[u8]);
    /// Appends bytes `from .. from + len` of the payload.
    fn payload(&mut self, from: u32, len: u32);
    /// Continues a CRC32C over bytes `from .. from + len` of the payload.
    fn checksum(&mut self, crc: u32, from: u32, len: u32) -> u32;
}

/// Writer of one stream.
#[derive(Debug)]
pub struct FpduWriter {
    markers: bool,
    crc: bool,
    long: bool,
    /// Largest ULPDU.
    mulpdu: u32,
    /// Bytes until the next marker.
    to_marker: usize,
}

/// State of one FPDU while it is written.
struct Fpdu<'a, S> {
    sink: &'a mut S,
    sum: u32,
    /// Bytes since the FPDU's first one, markers included.
    since_start: usize,
}

/// Payload of a TCP segment until the owner of the socket says more.
const SEGMENT_DEFAULT: u32 = 1448;

impl FpduWriter {
    /// Creates a writer of a stream that begins now.
    pub fn new(params: &StreamParams) -> FpduWriter {
        let mut writer = FpduWriter {
            markers: params.markers_out,
            crc: params.crc,
            long: params.extensions,
            mulpdu: 0,
            to_marker: 0,
        };
        writer.set_segment(SEGMENT_DEFAULT);
        writer
    }

    /// Follows the payload of TCP's segments (the MSS less TCP's options): an FPDU fills one, as siw's does. Between Weft
    /// peers, an FPDU is as long as MPA allows: TCP segments it on its own, and nothing on the way depends on it.
    pub fn set_segment(&mut self, bytes: u32) {
        self.mulpdu = mulpdu(if self.long { u32::MAX } else { bytes }, self.markers);
    }

    /// Returns the largest ULPDU.
    pub fn mulpdu(&self) -> u32 {
        self.mulpdu
    }

    /// Returns whether FPDUs have a CRC.
    pub fn has_crc(&self) -> bool {
        self.crc
    }

    /// Returns at least the bytes of an FPDU in the stream.
    pub fn len_max(&self, ulpdu: usize) -> usize {
        let len = fpdu_len(ulpdu);
        len + if self.markers { (len / (MARKER_INTERVAL - MARKER_LEN) + 1) * MARKER_LEN } else { 0 }
    }

    /// Writes an FPDU of a header and `payload` bytes. Returns its bytes in the stream. The caller keeps to
    /// [`FpduWriter::mulpdu`].
    pub fn write<S: FpduSink>(&mut self, header: &[u8], payload: u32, sink: &mut S) -> usize {
        let ulpdu = header.len() + payload as usize;
        let mut fpdu = Fpdu { sink, sum: 0, since_start: 0 };
        let before = self.marker_before(&mut fpdu);
        self.control(&mut fpdu, &(ulpdu as u16).to_be_bytes());
        self.control(&mut fpdu, header);
        self.payload(&mut fpdu, payload);
        self.control(&mut fpdu, &[0; 3][..pad_len(ulpdu)]);
        // A marker before the CRC is a part of what the CRC covers.
        self.marker(&mut fpdu);
        let crc = if self.crc { fpdu.sum } else { 0 };
        fpdu.sink.control(&crc.to_le_bytes());
        self.advance(&mut fpdu, CRC_LEN);
        before + fpdu.since_start
    }

    /// Writes the marker that is due between two FPDUs. Returns its bytes.
    fn marker_before<S: FpduSink>(&mut self, fpdu: &mut Fpdu<'_, S>) -> usize {
        let due = self.markers && self.to_marker == 0;
        self.marker(fpdu);
        std::mem::take(&mut fpdu.since_start);
        if due { MARKER_LEN } else { 0 }
    }

    /// Writes a marker if one is due.
    fn marker<S: FpduSink>(&mut self, fpdu: &mut Fpdu<'_, S>) {
        if !self.markers || self.to_marker != 0 {
            return;
        }
        let marker = Marker::new(fpdu.since_start as u16);
        fpdu.sink.control(marker.as_bytes());
        fpdu.sum = crc32c::crc32c_append(fpdu.sum, marker.as_bytes());
        fpdu.since_start += MARKER_LEN;
        self.to_marker = MARKER_INTERVAL - MARKER_LEN;
    }

    fn advance<S>(&mut self, fpdu: &mut Fpdu<'_, S>, len: usize) {
        fpdu.since_start += len;
        self.to_marker = self.to_marker.saturating_sub(len);
    }

    /// Returns how many of `len` bytes come before the next marker.
    fn run(&self, len: usize) -> usize {
        if self.markers { len.min(self.to_marker) } else { len }
    }

    fn control<S: FpduSink>(&mut self, fpdu: &mut Fpdu<'_, S>, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            self.marker(fpdu);
            let (now, later) = bytes.split_at(self.run(bytes.len()));
            fpdu.sink.control(now);
            if self.crc {
                fpdu.sum = crc32c::crc32c_append(fpdu.sum, now);
            }
            self.advance(fpdu, now.len());
            bytes = later;
        }
    }

    fn payload<S: FpduSink>(&mut self, fpdu: &mut Fpdu<'_, S>, len: u32) {
        let mut at = 0;
        while at < len {
            self.marker(fpdu);
            let now = self.run((len - at) as usize) as u32;
            fpdu.sink.payload(at, now);
            if self.crc {
                fpdu.sum = fpdu.sink.checksum(fpdu.sum, at, now);
            }
            self.advance(fpdu, now as usize);
            at += now;
        }
    }
}

#[cfg(test)]
mod tests;
