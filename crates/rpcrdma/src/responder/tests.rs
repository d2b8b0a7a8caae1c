//! A responder's calls, limits and answers to broken messages.

use super::*;
use crate::wire::{Chunk, ReadSegment, Segment};

const CONFIG: ResponderConfig = ResponderConfig {
    local: PrivateData { remote_invalidation: true, send_bytes: 4096, receive_bytes: 4096 },
    credits: 3,
    message_max_bytes: 10_000,
    memory_max_bytes: 12_000,
};

fn responder() -> Responder {
    Responder::new(CONFIG, CONFIG.local)
}

fn call(xid: u32, body: Body, message: &[u8]) -> Vec<u8> {
    let mut bytes = Header { xid, credits: 100, body }.to_bytes();
    bytes.extend_from_slice(message);
    bytes
}

fn inline(xid: u32) -> Vec<u8> {
    call(xid, Body::Msg(ChunkLists::default()), &[0; 8])
}

fn long(xid: u32, length: u32) -> Vec<u8> {
    let segment = Segment { handle: xid, length, offset: 0 };
    let reads = vec![ReadSegment { position: 0, segment }];
    call(xid, Body::NoMsg(ChunkLists { reads, ..ChunkLists::default() }), &[])
}

/// Returns the calls in the actions: those assembled, and those to execute.
fn drain(responder: &mut Responder) -> (Vec<u64>, Vec<u64>) {
    let (mut assembled, mut whole) = (Vec::new(), Vec::new());
    while let Some(action) = responder.poll() {
        match action {
            ResponderAction::Assemble(id, _) => assembled.push(id.0),
            ResponderAction::Execute(id) => whole.push(id.0),
            other => panic!("{other:?}"),
        }
    }
    (assembled, whole)
}

fn answer(responder: &mut Responder) -> Header {
    let Some(ResponderAction::Send(send)) = responder.poll() else { panic!("no answer") };
    Header::parse(&send.header).expect("a header").0
}

#[test]
fn a_call_is_executed_and_its_reply_grants_credits() {
    let mut responder = responder();
    responder.handle_receive(&inline(5)).expect("valid");
    assert_eq!(drain(&mut responder), (vec![0], vec![0]));
    let plan = responder.reply(CallId(0), 100, &[]).expect("waits");
    let (header, _) = Header::parse(&plan.send.header).expect("a header");
    assert_eq!((header.xid, header.credits, plan.send.invalidate), (5, 3, None));
    assert_eq!(responder.reply(CallId(0), 100, &[]), Err(ReplyError::Call));
}

#[test]
fn a_reply_waits_for_the_last_read_and_invalidates_a_key() {
    let mut responder = responder();
    responder.handle_receive(&long(9, 5000)).expect("valid");
    assert_eq!(drain(&mut responder), (vec![0], vec![]));
    assert_eq!(responder.reply(CallId(0), 8, &[]), Err(ReplyError::Call));
    responder.read_completed(CallId(0));
    responder.read_completed(CallId(0));
    assert_eq!(drain(&mut responder), (vec![], vec![0]));
    let plan = responder.reply(CallId(0), 8, &[]).expect("waits");
    assert_eq!(plan.send.invalidate, Some(9));
    assert_eq!(responder.memory_used(), 0);
}

#[test]
fn calls_beyond_the_memory_wait_in_their_order_and_inline_calls_pass() {
    let mut responder = responder();
    responder.handle_receive(&long(1, 8000)).expect("valid");
    responder.handle_receive(&long(2, 8000)).expect("valid");
    responder.handle_receive(&inline(3)).expect("valid");
    assert_eq!(drain(&mut responder), (vec![0, 2], vec![2]));
    responder.read_completed(CallId(1));
    responder.read_completed(CallId(0));
    assert_eq!(drain(&mut responder), (vec![], vec![0]));
    responder.reply(CallId(0), 8, &[]).expect("waits");
    assert_eq!(drain(&mut responder), (vec![1], vec![]));
    assert_eq!(responder.memory_used(), 8000);
}

#[test]
fn a_peer_with_more_calls_than_credits_is_at_fault() {
    let mut responder = responder();
    (0..3).for_each(|xid| responder.handle_receive(&inline(xid)).expect("a credit"));
    assert_eq!(responder.handle_receive(&inline(3)), Err(PeerFault::Credits));
}

#[test]
fn broken_messages_are_answered_by_the_errors_of_the_rfc() {
    let mut responder = responder();
    let mut other_version = inline(6);
    other_version[7] = 2;
    let too_long = long(6, 10_001);
    let no_position_zero = call(6, Body::NoMsg(ChunkLists::default()), &[]);
    let no_message = call(6, Body::Msg(ChunkLists::default()), &[0; 7]);
    let cut = inline(6)[..20].to_vec();
    for message in [&too_long, &no_position_zero, &no_message, &cut] {
        responder.handle_receive(message).expect("answered");
        assert_eq!(answer(&mut responder), Header { xid: 6, credits: 1, body: Body::Error(RdmaError::Chunk) });
    }
    responder.handle_receive(&other_version).expect("answered");
    assert_eq!(answer(&mut responder).body, Body::Error(RdmaError::Vers { low: 1, high: 1 }));
    // Too short for a transaction, RDMA_DONE, and an error without a call: discarded.
    for message in [vec![0; 7], call(6, Body::Done, &[]), call(6, Body::Error(RdmaError::Chunk), &[])] {
        responder.handle_receive(&message).expect("discarded");
        assert_eq!(responder.poll(), None);
    }
    assert_eq!(responder.unanswered(), 0);
}

#[test]
fn results_that_are_no_parts_of_the_reply_leave_the_call_waiting() {
    let mut responder = responder();
    let chunk = Chunk { segments: vec![Segment { handle: 1, length: 100, offset: 0 }] };
    let lists = ChunkLists { writes: vec![chunk], ..ChunkLists::default() };
    responder.handle_receive(&call(1, Body::Msg(lists), &[0; 8])).expect("valid");
    drain(&mut responder);
    assert_eq!(responder.reply(CallId(0), 100, std::slice::from_ref(&(40..104))), Err(ReplyError::Results));
    assert_eq!(responder.reply(CallId(0), 100, std::slice::from_ref(&(40..97))).expect("waits").writes.len(), 1);
}

#[test]
fn a_backchannel_reply_is_told_from_a_call_by_its_message() {
    let mut responder = responder();
    assert_eq!(responder.call_back(&[0, 0, 0, 9, 0, 0, 0, 0]).expect("a credit").header.len(), 28);
    let reply = [0, 0, 0, 9, 0, 0, 0, 1, 1, 2, 3, 4];
    // A reply to another call is discarded.
    responder.handle_receive(&call(8, Body::Msg(ChunkLists::default()), &reply)).expect("discarded");
    assert_eq!(responder.poll(), None);
    responder.handle_receive(&call(9, Body::Msg(ChunkLists::default()), &reply)).expect("valid");
    assert_eq!(responder.poll(), Some(ResponderAction::BackchannelReply(reply.to_vec())));
    responder.call_back(&[0, 0, 0, 9, 0, 0, 0, 0]).expect("a credit");
    responder.handle_receive(&call(9, Body::Error(RdmaError::Chunk), &[])).expect("valid");
    assert_eq!(responder.poll(), Some(ResponderAction::BackchannelError(9, RdmaError::Chunk)));
}

#[test]
fn a_key_is_invalidated_only_if_both_ends_know_how() {
    for (ours, theirs) in [(true, false), (false, true), (true, true)] {
        let end = |remote_invalidation| PrivateData { remote_invalidation, ..CONFIG.local };
        let mut responder = Responder::new(ResponderConfig { local: end(ours), ..CONFIG }, end(theirs));
        responder.handle_receive(&long(9, 5000)).expect("valid");
        drain(&mut responder);
        (0..2).for_each(|_| responder.read_completed(CallId(0)));
        let plan = responder.reply(CallId(0), 8, &[]).expect("waits");
        assert_eq!(plan.send.invalidate, (ours && theirs).then_some(9));
    }
}
