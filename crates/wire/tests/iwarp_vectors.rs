//! Streams that Linux's siw sent: every frame of a negotiation and every segment parses, and writing it again yields the
//! same bytes.

use std::collections::BTreeMap;
use std::path::Path;

use weft_wire::iwarp::{
    Body, FrameKind, NegotiationFrame, RdmapOpcode, SegmentHeader, Terminate, TerminateOrder, fpdu_len,
};
use weft_wire::pcapng;

const CAPTURES: [&str; 4] = ["siw-6.1-v4", "siw-6.12-v4", "siw-rping.1", "siw-rdma_client.1"];

/// Both ends of a direction: addresses and ports.
type Direction = [u8; 12];

/// Returns the direction, sequence number, and payload of a TCP segment over IPv4.
fn tcp(frame: &[u8]) -> Option<(Direction, u32, bool, &[u8])> {
    let ip = frame.get(14..).filter(|ip| frame[12..14] == [8, 0] && ip[0] >> 4 == 4 && ip[9] == 6)?;
    let ip = ip.get(..usize::from(u16::from_be_bytes([ip[2], ip[3]])))?;
    let segment = ip.get(usize::from(ip[0] & 15) * 4..)?;
    let seq = u32::from_be_bytes(segment.get(4..8)?.try_into().ok()?);
    let mut direction = [0; 12];
    direction[..8].copy_from_slice(&ip[12..20]);
    direction[8..].copy_from_slice(&segment[..4]);
    Some((direction, seq, segment[13] & 2 != 0, segment.get(usize::from(segment[12] >> 4) * 4..)?))
}

/// Returns the streams of a capture that begin with a frame of MPA.
fn streams(file: &[u8]) -> Vec<Vec<u8>> {
    let mut streams: Vec<(Direction, u32, Vec<u8>)> = Vec::new();
    for (direction, seq, syn, payload) in pcapng::frames(file).filter_map(tcp) {
        if syn {
            streams.push((direction, seq.wrapping_add(1), Vec::new()));
            continue;
        }
        let Some((_, first, bytes)) = streams.iter_mut().rev().find(|(d, ..)| *d == direction) else { continue };
        let at = seq.wrapping_sub(*first) as usize;
        // A segment that the sender repeated is there already.
        if at <= bytes.len() && at + payload.len() > bytes.len() {
            bytes.truncate(at);
            bytes.extend_from_slice(payload);
        }
    }
    streams.into_iter().map(|(.., bytes)| bytes).filter(|bytes| bytes.starts_with(b"MPA ID ")).collect()
}

/// Reads and writes one stream; counts its messages.
fn check(stream: &[u8], seen: &mut BTreeMap<&'static str, usize>) {
    let (frame, len) = NegotiationFrame::parse(stream).expect("a frame").expect("all of it");
    let mut again = Vec::new();
    frame.write(&mut again);
    assert_eq!(again, stream[..len]);
    assert_eq!(frame.revision, 2);
    *seen.entry(if frame.kind == FrameKind::Request { "request" } else { "reply" }).or_default() += 1;

    let mut rest = &stream[len..];
    while !rest.is_empty() {
        let ulpdu = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
        let (fpdu, later) = rest.split_at(fpdu_len(ulpdu));
        rest = later;
        let bytes = &fpdu[2..2 + ulpdu];
        let header = SegmentHeader::parse(bytes).unwrap_or_else(|e| panic!("{e}: {bytes:02x?}"));
        let written = header.write();
        assert_eq!(written.as_slice(), &bytes[..written.as_slice().len()]);
        assert_eq!(fpdu[fpdu.len() - 4..], [0; 4], "siw sends no CRC unless asked to");
        *seen.entry(header.control.opcode().info().expect("a known opcode").name).or_default() += 1;
        if let Body::Terminate(_, control) = header.body {
            let message = [&control[..], &bytes[written.as_slice().len()..]].concat();
            let (terminate, order) = Terminate::parse(&message).expect("a TERMINATE");
            assert_eq!(order, TerminateOrder::Siw);
            let copied = terminate.copied.expect("siw repeats headers of all these errors");
            assert!(SegmentHeader::parse_prefix(copied.header()).is_ok() || copied.untagged().is_some());
            let mut again = Vec::new();
            terminate.write(order, &mut again);
            assert_eq!(again, message);
        }
    }
}

#[test]
fn every_captured_frame_and_segment_survives_the_round_trip() {
    let mut seen = BTreeMap::new();
    for name in CAPTURES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(format!("{name}.pcap"));
        let file = std::fs::read(path).expect("capture");
        let streams = streams(&file);
        assert!(streams.len() >= 2, "{name}");
        streams.iter().for_each(|stream| check(stream, &mut seen));
    }
    println!("{seen:?}");
    let all = RdmapOpcode::all().filter(|row| !row.is_extension && row.opcode != RdmapOpcode::SEND_SE_INV);
    for name in all.map(|row| row.name).chain(["request", "reply"]) {
        assert!(seen.contains_key(name), "no {name} in the captures: {seen:?}");
    }
}
