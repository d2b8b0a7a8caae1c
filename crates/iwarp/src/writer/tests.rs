//! The writer's FPDUs reach the reader, however the stream is cut.

use proptest::prelude::*;
use weft_wire::iwarp::{Body, Queue, RdmapOpcode, SegmentHeader, Untagged};

use super::*;
use crate::{FpduEvent, FpduReader, StreamFault};

struct Stream {
    bytes: Vec<u8>,
    payload: Vec<u8>,
}

impl FpduSink for Stream {
    fn control(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
    fn payload(&mut self, from: u32, len: u32) {
        self.bytes.extend_from_slice(&self.payload[from as usize..][..len as usize]);
    }
    fn checksum(&mut self, crc: u32, from: u32, len: u32) -> u32 {
        crc32c::crc32c_append(crc, &self.payload[from as usize..][..len as usize])
    }
}

fn params(crc: bool, markers: bool) -> StreamParams {
    StreamParams { crc, markers_in: markers, markers_out: markers, ..StreamParams::default() }
}

fn header(msn: u32) -> SegmentHeader {
    SegmentHeader::new(RdmapOpcode::SEND, true, Body::Send(Untagged::new(Queue::SEND, msn, 0, 0)))
}

/// Writes segments of these lengths; 65535 stands for an FPDU without a segment.
fn stream(params: &StreamParams, lengths: &[u16]) -> Vec<u8> {
    let mut writer = FpduWriter::new(params);
    let mut out = Stream { bytes: Vec::new(), payload: (0..70_000_u32).map(|i| (i * 7) as u8).collect() };
    for (msn, len) in lengths.iter().enumerate() {
        let before = out.bytes.len();
        let written = if *len == u16::MAX {
            writer.write(&[], 0, &mut out)
        } else {
            writer.write(header(msn as u32).write().as_slice(), u32::from(*len), &mut out)
        };
        assert_eq!(out.bytes.len() - before, written);
        assert!(written <= writer.len_max(18 + usize::from(*len)));
    }
    out.bytes
}

/// Reads a stream in pieces; returns (message number, payload) of each segment.
fn read(params: &StreamParams, bytes: &[u8], pieces: usize) -> Result<Vec<(u32, Vec<u8>)>, StreamFault> {
    let mut reader = FpduReader::new(params);
    let (mut done, mut current) = (Vec::new(), None);
    for mut piece in bytes.chunks(pieces) {
        while let Some(event) = reader.next(&mut piece)? {
            match event {
                FpduEvent::Header(SegmentHeader { body: Body::Send(untagged), .. }) => {
                    current = Some((untagged.msn(), Vec::new()));
                }
                FpduEvent::Payload(data) => current.as_mut().unwrap().1.extend_from_slice(data),
                FpduEvent::End => done.extend(current.take()),
                FpduEvent::Empty => done.push((u32::MAX, Vec::new())),
                FpduEvent::Header(other) => panic!("{other:?}"),
            }
        }
    }
    assert!(reader.is_between_fpdus());
    Ok(done)
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        lengths in proptest::collection::vec(prop_oneof![0_u16..40, 400_u16..1500, Just(60_000), Just(u16::MAX)], 1..12),
        crc: bool,
        markers: bool,
        cut in prop_oneof![1_usize..9, 500_usize..2000],
    ) {
        let params = params(crc, markers);
        let read = read(&params, &stream(&params, &lengths), cut).unwrap();
        prop_assert_eq!(read.len(), lengths.len());
        for (at, ((msn, data), len)) in read.iter().zip(&lengths).enumerate() {
            if *len == u16::MAX {
                prop_assert_eq!(*msn, u32::MAX);
            } else {
                prop_assert_eq!((*msn, data.len()), (at as u32, usize::from(*len)));
                prop_assert!(data.iter().enumerate().all(|(i, byte)| *byte == (i as u32 * 7) as u8));
            }
        }
    }

    #[test]
    fn a_damaged_stream_is_noticed(lengths in proptest::collection::vec(0_u16..700, 1..6), at: u32, bit in 0..8_u8) {
        let params = params(true, true);
        let mut bytes = stream(&params, &lengths);
        let at = at as usize % bytes.len();
        bytes[at] ^= 1 << bit;
        // A longer ULPDU length may swallow the end of the stream: then the reader still waits.
        let read = std::panic::catch_unwind(|| read(&params, &bytes, 1));
        prop_assert!(!matches!(read, Ok(Ok(_))), "a flipped bit at {at}");
    }
}

#[test]
fn markers_begin_the_stream_and_point_to_their_fpdu() {
    let bytes = stream(&params(true, true), &[2000]);
    assert_eq!(bytes[..6], [0, 0, 0, 0, 0x07, 0xe2]);
    // Distances from the ULPDU length, which is at byte 4.
    for (at, distance) in [(512, 508_u16), (1024, 1020), (1536, 1532)] {
        assert_eq!(bytes[at..at + 4], [&[0, 0][..], &distance.to_be_bytes()].concat());
    }
}

#[test]
fn a_wrong_crc_explains_a_wrong_header() {
    let params = params(true, true);
    let good = stream(&params, &[700]);
    // Bits of DDP's version, RDMAP's opcode, and of the length, which becomes 1.
    for (at, value) in [(6, 0x42), (7, 0x4f), (5, 1)] {
        let mut bytes = good.clone();
        bytes[at] = value;
        if at == 5 {
            bytes[4] = 0;
        }
        assert_eq!(read(&params, &bytes, 7).unwrap_err(), StreamFault::Crc);
    }
    let mut out = Stream { bytes: Vec::new(), payload: vec![0; 700] };
    FpduWriter::new(&params).write(&[0x42, 0x43], 700, &mut out);
    let fault = read(&params, &out.bytes, 7).unwrap_err();
    assert!(matches!(fault, StreamFault::Header(_)), "{fault:?}");
}

#[test]
fn the_low_bits_of_a_distance_are_ignored() {
    let params = params(false, true);
    let good = stream(&params, &[700]);
    for (value, is_good) in [(3, true), (1, true), (4, false)] {
        let mut bytes = good.clone();
        bytes[515] ^= value;
        assert_eq!(read(&params, &bytes, 100).is_ok(), is_good, "{value}");
    }
}

#[test]
fn the_crc_is_that_of_rfc_3720() {
    let bytes = stream(&params(true, false), &[u16::MAX]);
    assert_eq!(bytes, [&[0, 0, 0, 0][..], &crc32c::crc32c(&[0; 4]).to_le_bytes()].concat());
    // RFC 3720 B.4: 32 bytes of zeros.
    assert_eq!(crc32c::crc32c(&[0; 32]).to_le_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
}
