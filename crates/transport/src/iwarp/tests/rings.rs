//! Connections within one host: the data takes the rings, and the stream tells the end.

use weft_verbs::*;

use super::params;
use crate::peers::PeerId;
use crate::testing::*;
use crate::{RecvWqe, RingEnd, StreamOrder, StreamPhase};

fn attach(p: &mut Pair, side: usize, early: bool) {
    let end = RingEnd { peer: PeerId(1 - side as u32), qpn: 0x10 + 1 - side as u32, early };
    let mut params = params()[side];
    // No first FPDU is sent or awaited.
    (params.awaits_rtr, params.yields_first) = (side == 1, side == 1);
    assert!(p.qps[side].attach_ring(p.now, &params, end, &mut p.worlds[side]));
    assert_eq!(p.qps[side].state(), QpState::Rts);
}

fn connected(room: usize) -> Pair {
    with_init(room, |_| {})
}

fn with_init(room: usize, change: impl Fn(&mut QpInit)) -> Pair {
    let mut p = Pair::iwarp(room, change);
    attach(&mut p, 1, false);
    attach(&mut p, 0, false);
    p
}

/// Posts a receive, and lets a message that waits for it come.
fn recv(p: &mut Pair, side: usize, wr_id: u64, sges: &[Sge]) {
    p.recv(side, wr_id, sges);
    p.qps[side].resume_stream(p.now, &mut p.worlds[side]);
}

/// Runs until nothing moves, without letting time pass.
fn run(p: &mut Pair) {
    p.run(Duration::ZERO);
    assert!(p.qps.iter().all(|qp| !qp.wants_stream()), "the stream carries data");
}

/// Lets each side see the end of the other's stream, behind its frames.
fn end(p: &mut Pair) {
    loop {
        run(p);
        let ends = |side: usize| matches!(p.qps[side].stream_order(), StreamOrder::ShutDown | StreamOrder::Close);
        let Some(side) = (0..2).find(|&side| ends(1 - side) && p.qps[side].stream_order() != StreamOrder::Close) else {
            return;
        };
        while p.take_frame(side) {}
        p.qps[side].stream_closed(p.now, false, &mut p.worlds[side]);
    }
}

fn sends(p: &mut Pair, side: usize) -> Vec<(u64, WcStatus)> {
    p.worlds[side].take(SEND_CQ).iter().map(|wc| (wc.0, wc.1)).collect()
}

fn recvs(p: &mut Pair, side: usize) -> Vec<(u64, WcStatus)> {
    p.worlds[side].take(RECV_CQ).iter().map(|wc| (wc.0, wc.1)).collect()
}

fn is_over(p: &Pair) -> bool {
    p.qps.iter().all(|qp| qp.state() == QpState::Err && qp.stream_order() == StreamOrder::Close)
}

const DONE: WcStatus = WcStatus::Success;

#[test]
fn every_request_takes_the_ring() {
    for room in [1, 2, 64] {
        let mut p = connected(room);
        p.recv(1, 7, &[sge(0x10_0000, 100_000)]);
        p.recv(1, 8, &[sge(0x12_0000, 100)]);
        p.recv(1, 9, &[]);
        p.send(0, 1, SendOp::Send, &[sge(0, 40_000)]);
        p.send(0, 2, SendOp::SendInv(KEY_WINDOW), &[sge(0, 64)]);
        p.send(0, 3, SendOp::Write(remote(0x8000)), &[sge(10, 20_000)]);
        p.send(0, 4, SendOp::WriteImm(remote(0x2_0000), 5), &[sge(0, 300)]);
        p.send(0, 5, SendOp::Read(remote(0x8000)), &[sge(0x20_0000, 20_000)]);
        p.send(0, 6, SendOp::FetchAdd { target: remote(0x8000), add: 3 }, &[sge(0x30_0000, 8)]);
        p.finish();
        assert_eq!(sends(&mut p, 0), [1, 2, 3, 4, 5, 6].map(|id| (id, DONE)));
        let got = p.worlds[1].take_wcs(RECV_CQ);
        let facts: Vec<_> = got.iter().map(|wc| (wc.wr_id, wc.opcode, wc.byte_len, wc.imm_data)).collect();
        let imm = WcOpcode::RecvRdmaWithImm;
        let recv = WcOpcode::Recv;
        assert_eq!(facts, [(7, recv, 40_000, 0), (8, recv, 64, KEY_WINDOW), (9, imm, 300, 5)]);
        assert!(!p.worlds[1].keys.iter().any(|key| key.key == KEY_WINDOW), "the key is invalidated");
        let sent = p.worlds[0].memory.at(BASE + 10, 20_000).to_vec();
        assert_eq!(p.worlds[0].memory.at(BASE + 0x20_0000, 20_000), sent);
        let (stats, peer) = (p.qps[0].stats(), p.qps[0].peer());
        assert!(stats.ring_frames_sent > 0 && stats.tx_packets == 0 && peer == Some(PeerId(1)));
        assert_eq!(p.qps.each_ref().map(|qp| qp.stream_phase()), [Some(StreamPhase::Open); 2]);
        assert!(p.worlds.iter().all(|world| world.events.is_empty()));
    }
}

#[test]
fn rfc_7306_limits_the_operations() {
    let mut p = connected(64);
    for op in [SendOp::SendImm(1), SendOp::AtomicWrite(remote(0))] {
        assert!(p.post(0, 1, op, &[sge(0, 8)], SendFlags::SIGNALED).is_err(), "{op:?}");
    }
}

#[test]
fn a_message_waits_for_its_receive_and_comes_at_once_then() {
    for room in [1, 64] {
        let mut p = connected(room);
        for wr_id in 0..3 {
            p.send(0, wr_id, SendOp::Send, &[sge(0, 100)]);
        }
        run(&mut p);
        assert!(p.qps[1].awaits_receive() && p.worlds[0].wcs.is_empty());
        for wr_id in 0..3 {
            let before = p.now;
            recv(&mut p, 1, wr_id, &[sge(0x1_0000, 100)]);
            run(&mut p);
            assert_eq!((p.now, recvs(&mut p, 1)), (before, vec![(wr_id, DONE)]), "no timer is waited for");
        }
        assert!(!p.qps[1].awaits_receive());
        assert_eq!(sends(&mut p, 0), [0, 1, 2].map(|id| (id, DONE)));
    }
}

#[test]
fn a_message_without_a_receive_ends_the_connection_after_a_second() {
    let mut p = connected(64);
    p.send(0, 1, SendOp::Send, &[sge(0, 100)]);
    p.send(0, 2, SendOp::Write(remote(0)), &[sge(0, 100)]);
    let start = p.now;
    while p.qps[1].state() == QpState::Rts {
        assert!(p.now.since(start) <= Duration::from_millis(1100));
        p.run(Duration::from_millis(10));
    }
    assert!(p.now.since(start) >= Duration::from_secs(1));
    assert_eq!(p.worlds[1].events, [AsyncEvent::QpReqErr]);
    end(&mut p);
    assert_eq!(sends(&mut p, 0), [(1, WcStatus::RemInvReqErr), (2, WcStatus::WrFlushErr)]);
    assert!(is_over(&p) && p.worlds[0].events.is_empty());
}

#[test]
fn a_shared_queue_serves_those_who_wait() {
    let mut p = with_init(64, |init| init.srq = Some(SRQ));
    p.send(0, 1, SendOp::Send, &[sge(0, 100)]);
    run(&mut p);
    assert!(p.qps[1].awaits_receive());
    p.worlds[1].srq.push_back(RecvWqe {
        wr_id: 6,
        sges: [sge(0x1_0000, 100)].into_iter().collect(),
        ..crate::RecvWqe::default()
    });
    p.qps[1].resume_stream(p.now, &mut p.worlds[1]);
    run(&mut p);
    assert_eq!((sends(&mut p, 0), recvs(&mut p, 1)), (vec![(1, DONE)], vec![(6, DONE)]));
}

#[test]
fn refusals_end_both_ends_with_their_reasons() {
    let bad = RemoteTarget { addr: BASE, rkey: 0x999 };
    let beyond = RemoteTarget { addr: BASE + MEMORY as u64 - 3, rkey: KEY };
    for (op, status, event) in [
        (SendOp::Write(bad), WcStatus::RemAccessErr, Some(AsyncEvent::QpAccessErr)),
        (SendOp::Write(beyond), WcStatus::RemAccessErr, Some(AsyncEvent::QpAccessErr)),
        (SendOp::Read(bad), WcStatus::RemAccessErr, Some(AsyncEvent::QpAccessErr)),
        (SendOp::FetchAdd { target: bad, add: 1 }, WcStatus::RemAccessErr, Some(AsyncEvent::QpAccessErr)),
        (SendOp::Send, WcStatus::RemInvReqErr, None),
    ] {
        for room in [1, 64] {
            let mut p = connected(room);
            p.recv(1, 7, &[sge(0, 4)]);
            p.recv(1, 8, &[sge(0, 4)]);
            p.send(0, 1, SendOp::Read(remote(0)), &[sge(0x1_0000, 60_000)]);
            p.send(0, 2, op, &[sge(0x8000, 8)]);
            p.send(0, 3, SendOp::Write(remote(0)), &[sge(0, 8)]);
            p.run(Duration::from_millis(1));
            end(&mut p);
            assert_eq!(sends(&mut p, 0), [(1, DONE), (2, status), (3, WcStatus::WrFlushErr)], "{op:?}");
            let first = if event.is_none() { WcStatus::LocLenErr } else { WcStatus::WrFlushErr };
            assert_eq!(recvs(&mut p, 1), [(7, first), (8, WcStatus::WrFlushErr)], "{op:?}");
            assert_eq!(p.worlds[1].events, event.into_iter().collect::<Vec<_>>(), "{op:?}");
            assert!(is_over(&p), "{op:?}: {:?}", p.qps.each_ref().map(|qp| qp.stream_order()));
        }
    }
}

#[test]
fn a_fault_of_this_side_ends_both_ends() {
    let mut p = connected(64);
    p.recv(1, 7, &[sge(0, 4)]);
    p.send(0, 1, SendOp::Write(remote(0)), &[sge(0, 8)]);
    p.send(0, 2, SendOp::Write(remote(0)), &[Sge { addr: BASE, length: 8, lkey: 0x999 }]);
    p.send(0, 3, SendOp::Write(remote(0)), &[sge(0, 8)]);
    run(&mut p);
    end(&mut p);
    assert_eq!(sends(&mut p, 0), [(1, DONE), (2, WcStatus::LocProtErr), (3, WcStatus::WrFlushErr)]);
    assert_eq!(recvs(&mut p, 1), [(7, WcStatus::WrFlushErr)]);
    assert!(is_over(&p) && p.worlds.iter().all(|world| world.events.is_empty()));
}

#[test]
fn a_closed_connection_completes_what_its_end_received() {
    let mut p = connected(64);
    p.recv(1, 7, &[sge(0x1_0000, 100)]);
    p.recv(1, 8, &[sge(0x1_0000, 100)]);
    p.send(0, 1, SendOp::Send, &[sge(0, 100)]);
    p.take_frame(1);
    // Its acknowledgement is delayed. This frame is on its way when the peer closes.
    p.send(0, 2, SendOp::Send, &[sge(0, 100)]);
    p.qps[1].close_stream(p.now, &mut p.worlds[1]);
    assert_eq!(p.qps[1].stream_order(), StreamOrder::ShutDown);
    end(&mut p);
    assert_eq!(sends(&mut p, 0), [(1, DONE), (2, WcStatus::WrFlushErr)]);
    assert_eq!(recvs(&mut p, 1), [(7, DONE), (8, WcStatus::WrFlushErr)]);
    assert!(is_over(&p));
}

#[test]
fn the_end_waits_for_room_to_acknowledge() {
    let mut p = connected(1);
    p.recv(0, 9, &[sge(0x1_0000, 100)]);
    p.recv(1, 7, &[sge(0x1_0000, 100)]);
    p.send(0, 1, SendOp::Send, &[sge(0, 100)]);
    p.send(1, 1, SendOp::Send, &[sge(0, 100)]);
    p.take_frame(1);
    // The ring to the peer holds the frame of this side.
    p.qps[1].close_stream(p.now, &mut p.worlds[1]);
    assert_eq!(p.qps[1].stream_order(), StreamOrder::Continue);
    p.take_frame(0);
    assert!(!p.qps[1].flush_ack(p.now, &mut p.worlds[1]));
    assert_eq!(p.qps[1].stream_order(), StreamOrder::ShutDown);
    end(&mut p);
    assert_eq!((sends(&mut p, 0), recvs(&mut p, 0)), (vec![(1, DONE)], vec![(9, DONE)]));
}

#[test]
fn what_the_peer_sent_before_its_end_arrives() {
    let mut p = connected(64);
    p.recv(1, 7, &[sge(0x1_0000, 100)]);
    p.send(0, 1, SendOp::Send, &[sge(0, 100)]);
    p.qps[0].close_stream(p.now, &mut p.worlds[0]);
    assert_eq!(sends(&mut p, 0), [(1, WcStatus::WrFlushErr)]);
    end(&mut p);
    assert_eq!(recvs(&mut p, 1), [(7, DONE)]);
    assert!(is_over(&p));
}

#[test]
fn a_frame_that_came_too_early_is_asked_for_at_once() {
    let mut p = Pair::iwarp(64, |_| {});
    attach(&mut p, 1, false);
    p.recv(0, 7, &[sge(0x1_0000, 100)]);
    p.send(1, 1, SendOp::Send, &[sge(0, 100)]);
    p.send(1, 2, SendOp::Read(remote(0)), &[sge(0x2_0000, 100)]);
    while p.take_frame(0) {}
    let before = p.now;
    attach(&mut p, 0, true);
    run(&mut p);
    assert_eq!((sends(&mut p, 1), recvs(&mut p, 0)), (vec![(1, DONE), (2, DONE)], vec![(7, DONE)]));
    assert_eq!(p.now, before);
}

#[test]
fn bytes_of_the_stream_and_resets_end_the_connection() {
    for bytes in [true, false] {
        let mut p = connected(64);
        p.recv(0, 7, &[sge(0, 8)]);
        p.send(0, 1, SendOp::Send, &[sge(0, 8)]);
        assert!(p.qps[0].stream_places(&p.worlds[0]).ranges().is_empty());
        if bytes {
            p.qps[0].handle_stream(p.now, 0, &[0; 20], &mut p.worlds[0]);
        } else {
            p.qps[0].stream_closed(p.now, true, &mut p.worlds[0]);
        }
        assert_eq!(p.qps[0].stream_order(), StreamOrder::Close);
        assert_eq!(sends(&mut p, 0), [(1, WcStatus::WrFlushErr)]);
        assert_eq!(recvs(&mut p, 0), [(7, WcStatus::WrFlushErr)]);
        end(&mut p);
        assert!(is_over(&p));
    }
}

#[test]
fn a_peer_that_does_not_end_is_cut_off() {
    let mut p = connected(64);
    p.qps[0].close_stream(p.now, &mut p.worlds[0]);
    assert_eq!(p.qps[0].stream_order(), StreamOrder::ShutDown);
    p.now = p.qps[0].poll_timeout().expect("the peer must end, too");
    p.qps[0].handle_timeout(p.now, &mut p.worlds[0]);
    assert_eq!((p.qps[0].stream_order(), p.qps[0].poll_timeout()), (StreamOrder::Close, None));
}

#[test]
fn reset_forgets_the_ring_and_another_connection_may_come() {
    let mut p = connected(64);
    p.recv(1, 7, &[sge(0x1_0000, 100)]);
    p.send(0, 1, SendOp::Send, &[sge(0, 100)]);
    run(&mut p);
    for side in 0..2 {
        p.modify(side, QpState::Reset);
        assert_eq!((p.qps[side].peer(), p.qps[side].stream_order()), (None, StreamOrder::Close));
        p.worlds[side].wcs.clear();
        p.modify(side, QpState::Init);
    }
    attach(&mut p, 1, false);
    attach(&mut p, 0, false);
    p.recv(1, 8, &[sge(0x1_0000, 100)]);
    p.send(0, 2, SendOp::Send, &[sge(0, 100)]);
    p.finish();
    assert_eq!((sends(&mut p, 0), recvs(&mut p, 1)), (vec![(2, DONE)], vec![(8, DONE)]));
}

#[test]
fn an_injected_status_ends_the_connection() {
    let mut p = connected(64);
    for wr_id in 1..=3 {
        recv(&mut p, 1, wr_id, &[sge(0x1000, 100)]);
        let (sges, flags) = ([sge(0, 50)], SendFlags::SIGNALED);
        let wr = SendWr { wr_id, flags, op: SendOp::Send, sges: &sges, ud: None, xrc_srqn: None };
        match wr_id {
            2 => p.qps[0].post_failing_send(p.now, &wr, WcStatus::RetryExcErr, &mut p.worlds[0]).unwrap(),
            _ => p.qps[0].post_send(p.now, &wr, &mut p.worlds[0]).unwrap(),
        }
    }
    end(&mut p);
    assert_eq!(sends(&mut p, 0), [(1, DONE), (2, WcStatus::RetryExcErr), (3, WcStatus::WrFlushErr)]);
    assert_eq!(recvs(&mut p, 1), [(1, DONE), (2, WcStatus::WrFlushErr), (3, WcStatus::WrFlushErr)]);
    assert!(is_over(&p));
}

#[test]
fn a_struck_receive_fails_though_a_message_waits_for_it() {
    let mut p = connected(64);
    p.send(0, 1, SendOp::Send, &[sge(0, 100)]);
    run(&mut p);
    assert!(p.qps[1].awaits_receive());
    let (qp, world) = (&mut p.qps[1], &mut p.worlds[1]);
    qp.post_recv(&RecvWr { wr_id: 6, sges: &[sge(0x1_0000, 100)] }, world).unwrap();
    qp.fail_newest_recv(WcStatus::GeneralErr);
    qp.resume_stream(p.now, world);
    run(&mut p);
    end(&mut p);
    assert_eq!(recvs(&mut p, 1), [(6, WcStatus::GeneralErr)]);
    assert_eq!(sends(&mut p, 0), [(1, WcStatus::RemOpErr)]);
}
