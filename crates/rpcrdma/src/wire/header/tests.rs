//! Bytes made by hand from the XDR of RFC 8166 §4.1.2, and round trips.

use proptest::prelude::*;

use super::*;
use crate::wire::{Chunk, ReadSegment, Segment};

/// Joins words and 64-bit offsets: an offset is two words here.
fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn check(words: &[u32], header: &Header) {
    let bytes = bytes(words);
    assert_eq!(Header::parse(&bytes), Ok((header.clone(), bytes.len())));
    assert_eq!((header.to_bytes(), header.wire_len()), (bytes.clone(), bytes.len()));
    for cut in 0..bytes.len() {
        assert!(Header::parse(&bytes[..cut]).is_err(), "{cut} of {} bytes", bytes.len());
    }
}

#[test]
fn a_call_without_chunks() {
    let header = Header { xid: 0xd00d_f00d, credits: 32, body: Body::Msg(ChunkLists::default()) };
    check(&[0xd00d_f00d, 1, 32, 0, 0, 0, 0], &header);
}

#[test]
fn a_write_whose_data_is_a_read_chunk_of_two_segments() {
    let read = |handle, length, offset| ReadSegment { position: 132, segment: Segment { handle, length, offset } };
    let reads = vec![read(0x11, 4096, 0x7f00_0000_1000), read(0x12, 10, 0x2000)];
    let header = Header { xid: 5, credits: 128, body: Body::Msg(ChunkLists { reads, ..ChunkLists::default() }) };
    #[rustfmt::skip]
    check(
        &[
            5, 1, 128, 0,
            1, 132, 0x11, 4096, 0x7f00, 0x0000_1000,
            1, 132, 0x12, 10, 0, 0x2000,
            0,
            0,
            0,
        ],
        &header,
    );
}

#[test]
fn a_long_call_with_a_write_list_and_a_reply_chunk() {
    let segment = |handle, length| Segment { handle, length, offset: 0x1_0000_0002 };
    let lists = ChunkLists {
        reads: vec![ReadSegment { position: 0, segment: segment(1, 9000) }],
        writes: vec![Chunk { segments: vec![segment(2, 8), segment(3, 9)] }, Chunk::default()],
        reply: Some(Chunk { segments: vec![segment(4, 65536)] }),
    };
    let header = Header { xid: 6, credits: 1, body: Body::NoMsg(lists) };
    #[rustfmt::skip]
    check(
        &[
            6, 1, 1, 1,
            1, 0, 1, 9000, 1, 2,
            0,
            1, 2, 2, 8, 1, 2, 3, 9, 1, 2,
            1, 0,
            0,
            1, 1, 4, 65536, 1, 2,
        ],
        &header,
    );
}

#[test]
fn errors_and_done() {
    let header = |body| Header { xid: 7, credits: 9, body };
    check(&[7, 1, 9, 4, 1, 1, 1], &header(Body::Error(RdmaError::Vers { low: 1, high: 1 })));
    check(&[7, 1, 9, 4, 2], &header(Body::Error(RdmaError::Chunk)));
    check(&[7, 1, 9, 3], &header(Body::Done));
}

#[test]
fn each_refusal_has_the_error_of_the_rfc() {
    let answer = |words: &[u32]| Header::parse(&bytes(words)).expect_err("refused").answer();
    assert_eq!(answer(&[7]), None);
    assert_eq!(answer(&[7, 2, 9, 0, 0, 0, 0]), Some((7, RdmaError::Vers { low: 1, high: 1 })));
    // RDMA_MSGP, an unknown procedure, an unknown error, a discriminator of 2, a read list without an end.
    for body in [&[2, 4, 4, 0, 0, 0][..], &[5], &[4, 3], &[0, 2, 0, 0], &[0, 1, 4, 1, 1, 0, 0]] {
        assert_eq!(answer(&[&[7, 1, 9], body].concat()), Some((7, RdmaError::Chunk)));
    }
}

fn segments(max: usize) -> impl Strategy<Value = Vec<Segment>> {
    let segment = (any::<u32>(), 0..20_000_u32, any::<u64>());
    let segment = segment.prop_map(|(handle, length, offset)| Segment { handle, length, offset });
    proptest::collection::vec(segment, 0..max)
}

fn lists() -> impl Strategy<Value = ChunkLists> {
    let reads = (segments(20), 0..4_u32);
    let writes = proptest::collection::vec(segments(5), 0..5);
    (reads, writes, proptest::option::of(segments(5))).prop_map(|((reads, positions), writes, reply)| {
        let read = |(at, segment)| ReadSegment { position: at as u32 * positions, segment };
        ChunkLists {
            reads: reads.into_iter().enumerate().map(read).collect(),
            writes: writes.into_iter().map(|segments| Chunk { segments }).collect(),
            reply: reply.map(|segments| Chunk { segments }),
        }
    })
}

proptest! {
    #[test]
    fn every_header_is_read_back(xid: u32, credits: u32, lists in lists(), long: bool, message in any::<[u8; 9]>()) {
        let header = Header { xid, credits, body: if long { Body::NoMsg(lists) } else { Body::Msg(lists) } };
        let mut bytes = header.to_bytes();
        let len = bytes.len();
        bytes.extend_from_slice(&message);
        prop_assert_eq!(Header::parse(&bytes), Ok((header, len)));
    }

    #[test]
    fn a_changed_header_is_refused_or_read_back(lists in lists(), at: usize, to: u8) {
        let mut bytes = Header { xid: 1, credits: 1, body: Body::Msg(lists) }.to_bytes();
        let at = at % bytes.len();
        bytes[at] = to;
        if let Ok((header, len)) = Header::parse(&bytes) {
            prop_assert_eq!(&header.to_bytes()[..], &bytes[..len]);
        }
    }
}
