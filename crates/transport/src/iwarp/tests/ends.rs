//! Ends of a stream: by the program, by the peer, by a reset, by time.

use weft_verbs::*;
use weft_wire::iwarp::{Body, Queue, RdmapOpcode, SegmentHeader, TermError, Terminate, TerminateOrder, Untagged};

use super::{StreamPair, fpdu, params};
use crate::testing::*;
use crate::{StreamOrder, StreamPhase};

#[test]
fn a_closed_connection_ends_behind_its_last_fpdu() {
    let mut p = StreamPair::new(params());
    p.recv(1, 7, &[sge(0x1_0000, 100_000)]);
    p.recv(1, 8, &[sge(0, 8)]);
    p.send(0, 1, SendOp::Send, &[sge(0, 50_000)]);
    p.room = 1000;
    p.transmit(0);
    p.qps[0].close_stream(p.now, &mut p.worlds[0]);
    assert_eq!((p.qps[0].state(), p.qps[0].stream_order()), (QpState::Err, StreamOrder::Continue));
    assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::WrFlushErr, 0)]);
    p.run();
    assert_eq!(p.names(0), [("Send", 50_000)], "the FPDU that had begun is complete");
    assert_eq!(p.worlds[1].take(RECV_CQ), [(7, WcStatus::Success, 50_000), (8, WcStatus::WrFlushErr, 0)]);
    assert_eq!(p.qps[0].stream_order(), StreamOrder::Close);
    assert_eq!((p.qps[1].state(), p.qps[1].stream_order()), (QpState::Err, StreamOrder::Close));
    assert!(p.terminate(0).is_none() && p.terminate(1).is_none());
}

#[test]
fn a_reset_flushes_everything() {
    let mut p = StreamPair::new(params());
    p.recv(0, 7, &[sge(0, 8)]);
    p.send(0, 1, SendOp::Read(remote(0)), &[sge(0, 8)]);
    p.send(0, 2, SendOp::Send, &[sge(0, 8)]);
    p.transmit(0);
    p.qps[0].stream_closed(p.now, true, &mut p.worlds[0]);
    assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::WrFlushErr, 0), (2, WcStatus::WrFlushErr, 0)]);
    assert_eq!(p.worlds[0].take(RECV_CQ), [(7, WcStatus::WrFlushErr, 0)]);
    assert_eq!(p.qps[0].stream_order(), StreamOrder::Close);
    p.send(0, 3, SendOp::Send, &[sge(0, 8)]);
    assert_eq!(p.worlds[0].take(SEND_CQ), [(3, WcStatus::WrFlushErr, 0)]);
}

#[test]
fn a_peer_that_does_not_end_is_cut_off() {
    let mut p = StreamPair::new(params());
    p.qps[0].close_stream(p.now, &mut p.worlds[0]);
    assert_eq!(p.qps[0].stream_order(), StreamOrder::ShutDown);
    let deadline = p.qps[0].poll_timeout().unwrap();
    // Bytes of the peer are discarded meanwhile.
    p.inject(0, &[0xff; 100]);
    p.qps[0].handle_timeout(deadline, &mut p.worlds[0]);
    assert_eq!((p.qps[0].stream_order(), p.qps[0].poll_timeout()), (StreamOrder::Close, None));
}

#[test]
fn a_peer_that_does_not_begin_is_cut_off() {
    let mut both = params();
    both[1].awaits_rtr = true;
    let mut p = StreamPair::new(both);
    let deadline = p.qps[1].poll_timeout().unwrap();
    p.qps[1].handle_timeout(deadline, &mut p.worlds[1]);
    assert_eq!((p.qps[1].state(), p.qps[1].stream_order()), (QpState::Err, StreamOrder::Close));
}

#[test]
fn a_responder_lets_the_initiator_send_first_for_a_while() {
    let mut both = params();
    both[1].yields_first = true;
    for initiator_sends in [true, false] {
        let mut p = StreamPair::new(both);
        p.recv(0, 7, &[sge(0x1_0000, 64)]);
        p.recv(1, 8, &[sge(0x1_0000, 64)]);
        p.send(1, 1, SendOp::Send, &[sge(0, 8)]);
        assert!(!p.qps[1].wants_stream() && !p.qps[1].stream_awaits_peer());
        let deadline = p.qps[1].poll_timeout().unwrap();
        assert_eq!(deadline.since(p.now), Duration::from_millis(50));
        if initiator_sends {
            p.send(0, 1, SendOp::Send, &[sge(0, 8)]);
        } else {
            p.qps[1].handle_timeout(deadline, &mut p.worlds[1]);
        }
        p.run();
        assert_eq!(p.worlds[0].take(RECV_CQ), [(7, WcStatus::Success, 8)]);
        assert_eq!((p.phases(), p.qps[1].poll_timeout()), ([StreamPhase::Open; 2], None));
    }
}

#[test]
fn an_initiator_that_hears_nothing_sends_an_empty_write() {
    let mut both = params();
    both[0].repeats_first = true;
    for answered in [false, true] {
        let mut p = StreamPair::new(both);
        assert_eq!(p.qps[0].poll_timeout(), None);
        p.recv(0, 7, &[sge(0x1_0000, 64)]);
        p.recv(1, 8, &[sge(0x1_0000, 64)]);
        p.send(0, 1, SendOp::Send, &[sge(0, 8)]);
        p.run();
        let deadline = p.qps[0].poll_timeout().unwrap();
        assert_eq!(deadline.since(p.now), Duration::from_millis(10));
        if answered {
            p.send(1, 1, SendOp::Send, &[sge(0, 8)]);
            p.run();
            assert_eq!(p.qps[0].poll_timeout(), None);
        }
        p.qps[0].handle_timeout(deadline, &mut p.worlds[0]);
        p.run();
        assert_eq!(p.names(0), [("Send", 8), ("RDMA Write", 0)][..if answered { 1 } else { 2 }]);
        assert_eq!((p.phases(), p.qps[0].poll_timeout()), ([StreamPhase::Open; 2], None));
    }
}

#[test]
fn a_stream_that_begins_with_its_end_is_cut_off() {
    let mut control = Vec::new();
    Terminate { error: TermError::LOCAL_CATASTROPHE, copied: None }.write(TerminateOrder::Rfc, &mut control);
    let body = Body::Terminate(Untagged::new(Queue::TERMINATE, 1, 0, 0), control.try_into().unwrap());
    let terminate = SegmentHeader::new(RdmapOpcode::TERMINATE, true, body).write();
    for header in [terminate.as_slice(), &[0x41, 0x4f]] {
        let mut both = params();
        both[1].awaits_rtr = true;
        let mut p = StreamPair::new(both);
        p.inject(1, &fpdu(header));
        p.transmit(1);
        assert_eq!(p.qps[1].stream_order(), StreamOrder::ShutDown);
        let deadline = p.qps[1].poll_timeout().expect("the peer must end, too");
        p.qps[1].handle_timeout(deadline, &mut p.worlds[1]);
        assert_eq!(p.qps[1].stream_order(), StreamOrder::Close);
    }
}

#[test]
fn reset_forgets_the_stream_and_another_may_come() {
    let mut p = StreamPair::new(params());
    p.send(0, 1, SendOp::Send, &[sge(0, 8)]);
    let attr = QpAttr { qp_state: QpState::Reset, ..p.qps[0].query() };
    p.qps[0].modify(p.now, &attr, QpAttrMask::STATE, &mut p.worlds[0]);
    assert_eq!(p.qps[0].stream_phase(), Some(StreamPhase::Idle));
    assert_eq!(p.qps[0].stream_order(), StreamOrder::Close, "the socket of the stream that is forgotten");
    assert!(!p.qps[0].attach_stream(p.now, &p.params[0]), "not in RESET");
    let attr = QpAttr { qp_state: QpState::Init, ..attr };
    p.qps[0].modify(p.now, &attr, QpAttrMask::STATE, &mut p.worlds[0]);
    assert!(p.qps[0].attach_stream(p.now, &p.params[0]));
    assert_eq!((p.qps[0].state(), p.qps[0].stream_order()), (QpState::Rts, StreamOrder::Continue));
}
