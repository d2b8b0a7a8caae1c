//! A requester's calls, replies, and peers that forge them.

use super::*;
use crate::wire::PrivateData;

const END: PrivateData = PrivateData { remote_invalidation: true, send_bytes: 1024, receive_bytes: 1024 };
const CONFIG: RequesterConfig = RequesterConfig { local: END, peer: END, credits: 4, reply_max_bytes: 9000 };

/// Keys in use; a registration beyond the limit fails.
#[derive(Default)]
struct Keys {
    valid: Vec<u32>,
    next: u32,
    limit: Option<usize>,
}

impl Registration for Keys {
    fn register(&mut self, _: u32, _: OfferedMemory) -> Result<RegisteredMemory, RegistrationFailed> {
        if self.limit.is_some_and(|limit| self.valid.len() >= limit) {
            return Err(RegistrationFailed);
        }
        self.next += 1;
        self.valid.push(self.next);
        Ok(RegisteredMemory { handle: self.next, address: 0x1000 })
    }

    fn invalidate(&mut self, handle: u32) {
        let at = self.valid.iter().position(|valid| *valid == handle).expect("a valid key");
        self.valid.remove(at);
    }
}

fn message(xid: u8, kind: u8) -> [u8; 8] {
    [0, 0, 0, xid, 0, 0, 0, kind]
}

/// A call whose result and reply may be long: a write list and a reply chunk.
fn eligible() -> EligibleData {
    EligibleData { results: vec![5000], reply_max: Some(2000), ..EligibleData::default() }
}

fn offered(send: &SendPlan) -> ChunkLists {
    match Header::parse(&send.header).expect("a header").0.body {
        Body::Msg(lists) | Body::NoMsg(lists) => lists,
        other => panic!("{other:?}"),
    }
}

fn reply(xid: u8, body: Body, message: &[u8]) -> Vec<u8> {
    [&Header { xid: xid.into(), credits: 3, body }.to_bytes()[..], message].concat()
}

/// One call with the chunks of [`eligible`].
fn called() -> (Requester, Keys, ChunkLists) {
    let (mut requester, mut keys) = (Requester::new(CONFIG), Keys::default());
    let send = requester.call(&message(1, 0), &eligible(), &mut keys).expect("a credit");
    let lists = offered(&send);
    assert_eq!((lists.writes.len(), lists.reply.is_some(), keys.valid.len()), (1, true, 2));
    (requester, keys, lists)
}

#[test]
fn a_reply_returns_bytes_and_keys_and_credits() {
    let (mut requester, mut keys, mut lists) = called();
    assert_eq!(requester.call(&message(2, 0), &eligible(), &mut keys), Err(CallError::NoCredit));
    lists.writes[0].segments[0].length = 77;
    lists.reply.as_mut().expect("offered").segments[0].length = 0;
    let key = lists.writes[0].segments[0].handle;
    let payload = reply(1, Body::Msg(lists), &message(1, 1));
    // The SEND invalidated that key; the adapter refuses it from then on.
    let at = keys.valid.iter().position(|valid| *valid == key).expect("valid");
    keys.valid.remove(at);
    let event = requester.handle_receive(&payload, Some(key), &mut keys).expect("valid");
    let body = ReplyBody::Inline(payload.len() - 8..payload.len());
    assert_eq!(event, Some(RequesterEvent::Reply { xid: 1, body, results: vec![77] }));
    assert_eq!((keys.valid.len(), requester.credits_left()), (0, 3));
}

#[test]
fn a_long_reply_and_an_error_end_their_calls() {
    let (mut requester, mut keys, mut lists) = called();
    lists.writes.clear();
    lists.reply.as_mut().expect("offered").segments[0].length = 1999;
    let payload = reply(1, Body::NoMsg(lists), &[]);
    let event = requester.handle_receive(&payload, None, &mut keys).expect("valid");
    let expected = RequesterEvent::Reply { xid: 1, body: ReplyBody::Long(1999), results: vec![0] };
    assert_eq!((event, keys.valid.len()), (Some(expected), 0));
    requester.call(&message(2, 0), &eligible(), &mut keys).expect("a credit");
    let event = requester.handle_receive(&reply(2, Body::Error(RdmaError::Chunk), &[]), None, &mut keys);
    assert_eq!(event, Ok(Some(RequesterEvent::Error { xid: 2, error: RdmaError::Chunk })));
    assert_eq!(keys.valid.len(), 0);
}

#[test]
fn forged_replies_are_faults_of_the_peer() {
    let check = |forge: &dyn Fn(&mut ChunkLists) -> Body, message: &[u8], invalidated, fault| {
        let (mut requester, mut keys, mut lists) = called();
        let payload = reply(1, forge(&mut lists), message);
        assert_eq!(requester.handle_receive(&payload, invalidated, &mut keys), Err(fault));
        assert_eq!((requester.abort(&mut keys), keys.valid.len()), (vec![1], 0));
    };
    let unused = |lists: &mut ChunkLists| {
        lists.reply = None;
        lists.writes[0].segments[0].length = 0;
        Body::Msg(lists.clone())
    };
    let own = message(1, 1);
    let change = |change: fn(&mut ChunkLists)| {
        move |lists: &mut ChunkLists| {
            unused(lists);
            change(lists);
            Body::Msg(lists.clone())
        }
    };
    check(&change(|lists| lists.writes[0].segments[0].length = 5001), &own, None, PeerFault::Chunks);
    check(&change(|lists| lists.writes[0].segments[0].handle += 9), &own, None, PeerFault::Chunks);
    check(&change(|lists| lists.writes.push(Chunk::default())), &own, None, PeerFault::Chunks);
    check(&change(|lists| lists.reads.push(ReadSegment::default())), &own, None, PeerFault::Chunks);
    check(&unused, &message(2, 1), None, PeerFault::Message);
    check(&unused, &[], None, PeerFault::Message);
    check(&unused, &own, Some(99), PeerFault::Invalidation);
    check(&|lists| Body::NoMsg(lists.clone()), &[], Some(99), PeerFault::Invalidation);
    check(&|lists| Body::Msg(lists.clone()), &own, None, PeerFault::Message);
    let empty_long = |lists: &mut ChunkLists| {
        unused(lists);
        Body::NoMsg(lists.clone())
    };
    check(&empty_long, &[], None, PeerFault::Message);
}

#[test]
fn an_abandoned_call_keeps_its_credit_until_the_reply() {
    let (mut requester, mut keys, _) = called();
    assert!(requester.abandon(1, &mut keys) && !requester.abandon(1, &mut keys));
    assert_eq!((keys.valid.len(), requester.credits_left()), (0, 0));
    let payload = reply(1, Body::Error(RdmaError::Chunk), &[]);
    assert_eq!(requester.handle_receive(&payload, None, &mut keys), Ok(None));
    assert_eq!(requester.credits_left(), 3);
    // Replies without a call are discarded.
    assert_eq!(requester.handle_receive(&payload, None, &mut keys), Ok(None));
    assert_eq!(requester.handle_receive(&payload, Some(1), &mut keys), Err(PeerFault::Invalidation));
}

#[test]
fn nothing_stays_registered_after_a_failure() {
    let (mut requester, mut keys) = (Requester::new(CONFIG), Keys { limit: Some(1), ..Keys::default() });
    let call = requester.call(&message(1, 0), &eligible(), &mut keys);
    assert_eq!((call, keys.valid.len()), (Err(CallError::Registration(RegistrationFailed)), 0));
    assert_eq!(requester.call(&message(1, 1), &eligible(), &mut keys), Err(CallError::Message));
    assert_eq!(requester.credits_left(), 1);
}

#[test]
fn a_backchannel_call_is_answered_and_bounded() {
    let (mut requester, mut keys) = (Requester::new(CONFIG), Keys::default());
    let call = |xid| reply(xid, Body::Msg(ChunkLists::default()), &message(xid, 0));
    let event = requester.handle_receive(&call(7), None, &mut keys);
    assert_eq!(event, Ok(Some(RequesterEvent::BackchannelCall(28..36))));
    let send = requester.reply_back(&message(7, 1)).expect("called");
    assert_eq!(Header::parse(&send.header).expect("a header").0.credits, BACKCHANNEL_CREDITS);
    for xid in 0..2 {
        assert!(requester.handle_receive(&call(xid), None, &mut keys).is_ok());
    }
    assert_eq!(requester.handle_receive(&call(2), None, &mut keys), Err(PeerFault::Credits));
}
