//! Replies to each combination of chunks.

use super::*;

const TERMS: ReplyTerms = ReplyTerms { xid: 7, credits: 8, threshold: 1024, invalidate: Some(1) };

fn segment(handle: u32, length: u32) -> Segment {
    Segment { handle, length, offset: 0x1000 * u64::from(handle) }
}

fn chunk(segments: &[Segment]) -> Chunk {
    Chunk { segments: segments.to_vec() }
}

fn write(handle: u32, offset: u64, source: Range<usize>) -> RemoteWrite {
    RemoteWrite { target: Segment { handle, length: source.len() as u32, offset }, source }
}

fn body(plan: &ReplyPlan) -> Body {
    Header::parse(&plan.send.header).expect("a header").0.body
}

fn one(range: Range<usize>) -> [Range<usize>; 1] {
    [range]
}

#[test]
fn a_short_reply_is_inline_and_returns_the_chunks_unused() {
    let lists = ChunkLists {
        writes: vec![chunk(&[segment(1, 500)])],
        reply: Some(chunk(&[segment(2, 5000)])),
        ..ChunkLists::default()
    };
    let plan = plan(&TERMS, &lists, 100, &[]).expect("fits");
    assert_eq!((&plan.writes[..], &plan.send.body[..], plan.send.invalidate), (&[][..], &one(0..100)[..], Some(1)));
    let unused = ChunkLists {
        writes: vec![chunk(&[segment(1, 0)])],
        reply: Some(chunk(&[segment(2, 0)])),
        ..ChunkLists::default()
    };
    assert_eq!(body(&plan), Body::Msg(unused));
}

#[test]
fn a_result_fills_the_segments_of_its_chunk_and_takes_its_padding_out_of_the_message() {
    let lists = ChunkLists { writes: vec![chunk(&[segment(1, 10), segment(2, 500)])], ..ChunkLists::default() };
    let plan = plan(&TERMS, &lists, 92, &one(40..87)).expect("fits");
    assert_eq!(plan.writes, [write(1, 0x1000, 40..50), write(2, 0x2000, 50..87)]);
    assert_eq!(plan.send.body, [0..40, 88..92]);
    let Body::Msg(lists) = body(&plan) else { panic!("RDMA_MSG") };
    assert_eq!(lists.writes, [chunk(&[segment(1, 10), segment(2, 37)])]);
}

#[test]
fn results_take_chunks_in_order_and_stay_inline_without_one() {
    let lists = ChunkLists { writes: vec![chunk(&[]), chunk(&[segment(1, 8)])], ..ChunkLists::default() };
    let plan = plan(&TERMS, &lists, 40, &[4..8, 12..20, 24..28]).expect("fits");
    assert_eq!((plan.writes, plan.send.body), (vec![write(1, 0x1000, 12..20)], vec![0..12, 20..40]));
}

#[test]
fn a_long_reply_is_in_the_reply_chunk_without_its_results() {
    let lists = ChunkLists {
        writes: vec![chunk(&[segment(1, 8)])],
        reply: Some(chunk(&[segment(2, 100), segment(3, 5000)])),
        ..ChunkLists::default()
    };
    let plan = plan(&TERMS, &lists, 2000, &one(48..56)).expect("fits");
    let expected =
        [write(1, 0x1000, 48..56), write(2, 0x2000, 0..48), write(2, 0x2030, 56..108), write(3, 0x3000, 108..2000)];
    assert_eq!((&plan.writes[..], &plan.send.body[..]), (&expected[..], &[][..]));
    let Body::NoMsg(lists) = body(&plan) else { panic!("RDMA_NOMSG") };
    assert_eq!(lists.reply, Some(chunk(&[segment(2, 100), segment(3, 1892)])));
}

#[test]
fn a_reply_that_does_not_fit_is_refused() {
    let short = ChunkLists { writes: vec![chunk(&[segment(1, 7)])], ..ChunkLists::default() };
    assert_eq!(plan(&TERMS, &short, 40, &one(4..12)), Err(ReplyRefusal::Result { len: 8, room: 7 }));
    let none = ChunkLists::default();
    assert_eq!(plan(&TERMS, &none, 997, &[]), Err(ReplyRefusal::Reply { len: 997, inline: 996, room: 0 }));
    assert!(plan(&TERMS, &none, 996, &[]).is_ok());
    let refused = TERMS.refuse(ReplyRefusal::Result { len: 8, room: 7 });
    assert_eq!((body(&refused), refused.send.invalidate), (Body::Error(RdmaError::Chunk), None));
}
