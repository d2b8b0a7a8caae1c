//! Two queue pairs of one host connected by rings alone. These tests fix by hand what the simulator does at random:
//! which side takes which frame when.

use weft_verbs::*;

use crate::testing::*;

fn pair(room: usize) -> Pair {
    Pair::on_one_host(QpType::Rc, room, |_, _| {})
}

fn ok(wr_id: u64, len: u32) -> (u64, WcStatus, u32) {
    (wr_id, WcStatus::Success, len)
}

#[test]
fn sends_of_each_size_arrive() {
    for (len, room) in [(0u32, 64), (8, 64), (1024, 1), (2049, 64), (70_000, 2), (300_000, 64)] {
        for fetches in [true, false] {
            let mut p = pair(room);
            p.worlds[1].memory.2.as_ref().unwrap().1.borrow_mut().fetches = fetches;
            p.recv(1, 7, &[sge(0x10_0000, 1000), sge(0x12_0000, 400_000)]);
            p.send(0, 1, SendOp::Send, &[sge(0, len / 3), sge(0x8_0000, len - len / 3)]);
            p.finish();
            assert_eq!(p.worlds[0].take(SEND_CQ), [ok(1, len)], "{len} {fetches}");
            assert_eq!(p.worlds[1].take(RECV_CQ), [ok(7, len)]);
            let m = &p.worlds[0].memory;
            let sent = [m.at(BASE, len as usize / 3), m.at(BASE + 0x8_0000, (len - len / 3) as usize)].concat();
            let head = sent.len().min(1000);
            assert_eq!(p.worlds[1].memory.at(BASE + 0x10_0000, head), &sent[..head]);
            assert_eq!(p.worlds[1].memory.at(BASE + 0x12_0000, sent.len() - head), &sent[head..]);
        }
    }
}

#[test]
fn everything_else_works_by_frames() {
    let mut p = pair(3);
    p.recv(1, 9, &[]);
    p.send(0, 1, SendOp::Write(remote(0x8000)), &[sge(10, 333), sge(0x2_0000, 50_000)]);
    p.send(0, 2, SendOp::WriteImm(remote(0x3_0000), 5), &[sge(0, 40_000)]);
    p.send(0, 3, SendOp::Read(remote(0x8000)), &[sge(0x20_0000, 50_333)]);
    p.send(0, 4, SendOp::FetchAdd { target: remote(0x8000), add: 3 }, &[sge(0x30_0000, 8)]);
    p.send(0, 5, SendOp::Read(remote(0)), &[]);
    let flush = SendOp::Flush { target: remote(0x8000), length: 333, placement: 1, level: 0 };
    p.send(0, 6, flush, &[]);
    p.send(0, 7, SendOp::AtomicWrite(remote(0x4_0000)), &[sge(0, 8)]);
    p.finish();
    let wcs = p.worlds[0].take(SEND_CQ);
    assert_eq!(wcs, [ok(1, 50_333), ok(2, 40_000), ok(3, 50_333), ok(4, 8), ok(5, 0), ok(6, 0), ok(7, 8)]);
    let wc = p.worlds[1].take_wcs(RECV_CQ);
    assert_eq!((wc[0].wr_id, wc[0].opcode, wc[0].byte_len), (9, WcOpcode::RecvRdmaWithImm, 40_000));
    let m = &p.worlds[0].memory;
    let written = [m.at(BASE + 10, 333), m.at(BASE + 0x2_0000, 50_000)].concat();
    assert_eq!(m.at(BASE + 0x20_0000, 50_333), written, "read back after it was written");
    let before = u64::from_ne_bytes(written[..8].try_into().unwrap());
    assert_eq!(m.word(BASE + 0x30_0000), before);
    assert_eq!(p.worlds[1].memory.word(BASE + 0x8000), before.wrapping_add(3));
    assert_eq!(p.worlds[1].memory.word(BASE + 0x4_0000), m.word(BASE));
    assert_eq!(p.worlds[1].memory.1, [(BASE + 0x8000, 333, false)]);
}

#[test]
fn a_missing_receive_is_waited_for_and_order_is_kept() {
    let mut p = pair(64);
    for wr_id in 0..3 {
        p.send(0, wr_id, SendOp::Send, &[sge(wr_id * 100, 100)]);
    }
    assert!(!p.run(Duration::from_millis(1)));
    assert!(p.qps[0].stats().rnr_naks_received > 0);
    for wr_id in 0..3 {
        p.recv(1, wr_id, &[sge(0x1_0000, 100)]);
    }
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [ok(0, 100), ok(1, 100), ok(2, 100)]);
    assert_eq!(p.worlds[1].take(RECV_CQ), [ok(0, 100), ok(1, 100), ok(2, 100)]);
    // Frames are no packets, so none counts as lost on a wire.
    let (sender, target) = (p.qps[0].stats(), p.qps[1].stats());
    assert!(sender.ring_frames_resent > 0 && target.ring_frames_skipped > 0, "{sender:?} {target:?}");
    assert_eq!((sender.retransmits, target.out_of_order), (0, 0));
}

#[test]
fn a_closed_path_loses_frames_until_it_opens_again() {
    let mut p = pair(64);
    p.recv(1, 9, &[sge(0x1_0000, 100)]);
    p.qps[0].set_path_open(false);
    p.send(0, 1, SendOp::Send, &[sge(0, 100)]);
    assert!(!p.run(Duration::from_millis(5)));
    assert_eq!(p.worlds[0].lost_frames.first(), Some(&(0x10, 0x11)));
    assert_eq!(p.worlds[1].wcs, []);
    p.qps[0].set_path_open(true);
    p.finish();
    assert_eq!((p.worlds[0].take(SEND_CQ), p.worlds[1].take(RECV_CQ)), (vec![ok(1, 100)], vec![ok(9, 100)]));
}

#[test]
fn rnr_retries_run_out() {
    let mut p = Pair::on_one_host(QpType::Rc, 64, |_, attr| attr.rnr_retry = 2);
    p.send(0, 1, SendOp::Send, &[sge(0, 10)]);
    p.send(0, 2, SendOp::Send, &[sge(0, 10)]);
    p.finish();
    let wcs: Vec<_> = p.worlds[0].take(SEND_CQ).iter().map(|wc| (wc.0, wc.1)).collect();
    assert_eq!(wcs, [(1, WcStatus::RnrRetryExcErr), (2, WcStatus::WrFlushErr)]);
    assert_eq!(p.qps[1].stats().rnr_naks_sent, 3);
}

#[test]
fn what_is_refused_ends_both_ends_and_what_came_before_is_done() {
    let mut p = pair(64);
    p.recv(1, 5, &[sge(0, 10)]);
    p.send(0, 1, SendOp::Read(remote(0)), &[sge(0x1_0000, 20_000)]);
    p.send(0, 2, SendOp::Write(RemoteTarget { addr: BASE, rkey: 0x999 }), &[sge(0, 10)]);
    p.send(0, 3, SendOp::Send, &[sge(0, 10)]);
    p.finish();
    let wcs: Vec<_> = p.worlds[0].take(SEND_CQ).iter().map(|wc| (wc.0, wc.1)).collect();
    assert_eq!(wcs, [(1, WcStatus::Success), (2, WcStatus::RemAccessErr), (3, WcStatus::WrFlushErr)]);
    assert_eq!(p.worlds[1].take(RECV_CQ), [(5, WcStatus::WrFlushErr, 0)]);
    assert_eq!(p.worlds[1].events, [AsyncEvent::QpAccessErr]);
    assert_eq!((p.qps[0].state(), p.qps[1].state()), (QpState::Err, QpState::Err));
}

#[test]
fn a_message_too_long_for_its_receive() {
    let mut p = pair(64);
    p.recv(1, 5, &[sge(0x1_0000, 10)]);
    p.send(0, 1, SendOp::Send, &[sge(0, 3000)]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ)[0].1, WcStatus::RemInvReqErr);
    assert_eq!(p.worlds[1].take(RECV_CQ)[0].1, WcStatus::LocLenErr);
}

#[test]
fn a_peer_that_does_not_run_is_waited_for_and_a_dead_one_is_not() {
    let mut p = pair(64);
    p.recv(1, 5, &[sge(0x1_0000, 10)]);
    p.send(0, 1, SendOp::Send, &[sge(0, 10)]);
    // The peer takes nothing for a minute.
    for _ in 0..600 {
        p.now = p.now + Duration::from_millis(100);
        p.qps[0].handle_timeout(p.now, &mut p.worlds[0]);
    }
    assert_eq!(p.worlds[0].take(SEND_CQ), []);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [ok(1, 10)]);

    p.worlds[1].memory.2.as_ref().unwrap().1.borrow_mut().alive[1] = false;
    p.recv(0, 9, &[sge(0, 10)]);
    p.send(0, 2, SendOp::Send, &[sge(0, 10)]);
    for _ in 0..600 {
        p.now = p.now + Duration::from_millis(100);
        p.qps[0].handle_timeout(p.now, &mut p.worlds[0]);
    }
    assert_eq!(p.worlds[0].take(SEND_CQ)[0].1, WcStatus::RetryExcErr);
}

#[test]
fn what_came_before_the_peer_was_ready_is_asked_again() {
    let mut p = pair(64);
    p.modify(1, QpState::Reset);
    p.send(0, 1, SendOp::Send, &[sge(0, 10)]);
    p.send(0, 2, SendOp::FetchAdd { target: remote(0x8000), add: 1 }, &[sge(0x100, 8)]);
    p.run(Duration::from_millis(2));
    assert!(p.qps[1].stats().dropped > 0);
    for state in [QpState::Init, QpState::Rtr] {
        if state == QpState::Rtr {
            p.qps[1].set_peer(crate::peers::PeerId(0));
        }
        let attr = attr(1, state);
        p.qps[1].modify(p.now, &attr, QpAttrMask::all(), &mut p.worlds[1]);
    }
    p.recv(1, 5, &[sge(0x1_0000, 10)]);
    let before = p.worlds[1].memory.word(BASE + 0x8000);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [ok(1, 10), ok(2, 8)]);
    assert_eq!(p.worlds[1].memory.word(BASE + 0x8000), before + 1, "once, however often it was asked for");
}

#[test]
fn xrc_names_its_receive_queue() {
    let mut p = Pair::on_one_host(QpType::XrcSend, 64, |_, _| {});
    p.worlds[1].srq.push_back(crate::RecvWqe {
        wr_id: 6,
        sges: [sge(0x1_0000, 100)].into_iter().collect(),
        ..crate::RecvWqe::default()
    });
    p.send(0, 1, SendOp::Send, &[sge(0, 100)]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [ok(1, 100)]);
    let wc = p.worlds[1].take_wcs(XRC_CQ)[0];
    assert_eq!((wc.wr_id, wc.src_qp), (6, SRQN));
}

#[test]
fn an_unreliable_connection_drops_in_silence_and_survives_a_send_error() {
    let mut p = Pair::on_one_host(QpType::Uc, 3, |_, _| {});
    p.recv(1, 1, &[sge(0x10_0000, 70_000)]);
    p.recv(1, 2, &[]);
    p.send(0, 1, SendOp::SendImm(9), &[sge(0, 60_000)]);
    p.send(0, 2, SendOp::Write(RemoteTarget { addr: BASE, rkey: 0x999 }), &[sge(0, 10)]);
    p.send(0, 3, SendOp::WriteImm(remote(0x9000), 8), &[sge(0, 1500)]);
    p.send(0, 4, SendOp::Send, &[sge(0, 10)]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [ok(1, 60_000), ok(2, 10), ok(3, 1500), ok(4, 10)]);
    let wcs = p.worlds[1].take_wcs(RECV_CQ);
    assert_eq!(
        wcs.iter().map(|wc| (wc.wr_id, wc.byte_len, wc.imm_data)).collect::<Vec<_>>(),
        [(1, 60_000, 9), (2, 1500, 8)]
    );
    let sent = p.worlds[0].memory.at(BASE, 60_000).to_vec();
    assert_eq!(p.worlds[1].memory.at(BASE + 0x10_0000, 60_000), sent);

    p.send(0, 5, SendOp::Send, &[Sge { addr: BASE, length: 10, lkey: 1 }]);
    assert_eq!((p.qps[0].state(), p.qps[1].state()), (QpState::Sqe, QpState::Rts));
    p.modify(0, QpState::Rts);
    p.recv(1, 3, &[sge(0x1_0000, 10)]);
    p.send(0, 6, SendOp::Send, &[sge(0, 10)]);
    p.finish();
    assert_eq!(p.worlds[1].take(RECV_CQ), [ok(3, 10)]);
}

#[test]
fn a_drained_queue_pair_says_so() {
    let mut p = pair(64);
    p.recv(1, 5, &[sge(0x1_0000, 10)]);
    p.send(0, 1, SendOp::Send, &[sge(0, 10)]);
    p.modify(0, QpState::Sqd);
    assert_eq!(p.worlds[0].events, []);
    p.finish();
    assert_eq!(p.worlds[0].events, [AsyncEvent::SqDrained]);
}
