//! Every operation over a wire without faults; the packet sequences are those of Linux rxe.

use weft_verbs::*;

use crate::testing::*;

fn ok(wr_id: u64, len: u32) -> (u64, WcStatus, u32) {
    (wr_id, WcStatus::Success, len)
}

#[test]
fn send_of_each_size_class() {
    for (len, packets) in [(0u32, 1), (1, 1), (1024, 1), (1025, 2), (4096, 4), (300_000, 293)] {
        let mut p = Pair::new(QpType::Rc);
        p.recv(1, 7, &[sge(0x1_0000, 400_000)]);
        p.send(0, 1, SendOp::Send, &[sge(0, len)]);
        p.finish();
        assert_eq!(p.worlds[0].take(SEND_CQ), [ok(1, len)], "{len}");
        assert_eq!(p.worlds[1].take(RECV_CQ), [ok(7, len)]);
        let sent = p.worlds[0].memory.at(BASE, len as usize).to_vec();
        assert_eq!(p.worlds[1].memory.at(BASE + 0x1_0000, len as usize), sent);
        assert_eq!(p.log.iter().filter(|l| l.starts_with('0')).count(), packets);
    }
}

#[test]
fn packets_of_a_send_are_those_of_rxe() {
    let mut p = Pair::new(QpType::Rc);
    p.recv(1, 7, &[sge(0x1_0000, 4096)]);
    p.send(0, 1, SendOp::SendImm(0xcafe_000a_u32.to_be()), &[sge(0, 3000)]);
    p.finish();
    assert_eq!(
        p.log,
        [
            "0 SEND First 100000 data=1024",
            "0 SEND Middle 100001 data=1024",
            "0 SEND Last with Immediate 100002 A data=952",
            "1 Acknowledge 100002 ack=0 msn=1",
        ]
    );
    let wc = p.worlds[1].take_wcs(RECV_CQ)[0];
    assert_eq!((wc.imm_data, wc.flags, wc.byte_len), (0xcafe_000a_u32.to_be(), WcFlags::WITH_IMM, 3000));
    assert_eq!(wc.opcode, WcOpcode::Recv);
}

#[test]
fn packets_of_a_read_are_those_of_rxe() {
    let mut p = Pair::new(QpType::Rc);
    p.send(0, 1, SendOp::Read(remote(0x2000)), &[sge(0x4000, 5000)]);
    p.finish();
    assert_eq!(
        p.log,
        [
            "0 RDMA READ Request 100000 A dmalen=5000",
            "1 RDMA READ response First 100000 data=1024 ack=0 msn=1",
            "1 RDMA READ response Middle 100001 data=1024",
            "1 RDMA READ response Middle 100002 data=1024",
            "1 RDMA READ response Middle 100003 data=1024",
            "1 RDMA READ response Last 100004 data=904 ack=0 msn=1",
        ]
    );
    assert_eq!(p.worlds[0].take(SEND_CQ), [ok(1, 5000)]);
    let there = p.worlds[1].memory.at(BASE + 0x2000, 5000).to_vec();
    assert_eq!(p.worlds[0].memory.at(BASE + 0x4000, 5000), there);
}

#[test]
fn write_and_write_with_immediate() {
    let mut p = Pair::new(QpType::Rc);
    p.recv(1, 9, &[]);
    p.send(0, 1, SendOp::Write(remote(0x8000)), &[sge(10, 333), sge(2000, 2000), sge(9000, 665)]);
    p.send(0, 2, SendOp::Write(remote(0)), &[]);
    p.send(0, 3, SendOp::WriteImm(remote(0x9000), 5), &[sge(0, 2500)]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [ok(1, 2998), ok(2, 0), ok(3, 2500)]);
    let wc = p.worlds[1].take_wcs(RECV_CQ);
    assert_eq!(wc.len(), 1);
    assert_eq!((wc[0].wr_id, wc[0].opcode, wc[0].byte_len, wc[0].imm_data), (9, WcOpcode::RecvRdmaWithImm, 2500, 5));
    let m = &p.worlds[0].memory;
    let want = [m.at(BASE + 10, 333), m.at(BASE + 2000, 2000), m.at(BASE + 9000, 665)].concat();
    assert_eq!(p.worlds[1].memory.at(BASE + 0x8000, 2998), want);
}

#[test]
fn atomics() {
    let mut p = Pair::new(QpType::Rc);
    let before = p.worlds[1].memory.word(BASE + 64);
    p.send(0, 1, SendOp::FetchAdd { target: remote(64), add: 5 }, &[sge(0, 8)]);
    p.send(0, 2, SendOp::CompareSwap { target: remote(64), compare: before + 5, swap: 77 }, &[sge(8, 8)]);
    p.send(0, 3, SendOp::CompareSwap { target: remote(64), compare: 1, swap: 78 }, &[sge(16, 8)]);
    p.send(0, 4, SendOp::AtomicWrite(remote(72)), &[sge(100, 8)]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [ok(1, 8), ok(2, 8), ok(3, 8), ok(4, 8)]);
    assert_eq!(p.worlds[0].memory.word(BASE), before);
    assert_eq!(p.worlds[0].memory.word(BASE + 8), before + 5);
    assert_eq!(p.worlds[0].memory.word(BASE + 16), 77);
    assert_eq!(p.worlds[1].memory.word(BASE + 64), 77);
    let sent = p.worlds[0].memory.at(BASE + 100, 8).to_vec();
    assert_eq!(p.worlds[1].memory.at(BASE + 72, 8), sent);
}

#[test]
fn flush_reaches_the_memory() {
    let mut p = Pair::new(QpType::Rc);
    p.send(0, 1, SendOp::Write(remote(0)), &[sge(0, 100)]);
    p.send(0, 2, SendOp::Flush { target: remote(0), length: 100, placement: 1, level: 0 }, &[]);
    p.send(0, 3, SendOp::Flush { target: remote(0), length: 0, placement: 2, level: 1 }, &[]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ).len(), 3);
    assert_eq!(p.worlds[1].memory.1, [(BASE, 100, false), (BASE, MEMORY as u64, true)]);
    assert!(p.log.contains(&"1 RDMA READ response Only 100001 ack=0 msn=2".to_string()), "{:#?}", p.log);
}

#[test]
fn inline_data_is_taken_at_posting() {
    let mut p = Pair::new(QpType::Rc);
    p.recv(1, 1, &[sge(0x1000, 100)]);
    let want = p.worlds[0].memory.at(BASE + 5, 13).to_vec();
    let bad_key = Sge { addr: BASE + 5, length: 13, lkey: 0 };
    let flags = SendFlags::INLINE | SendFlags::SIGNALED;
    p.post(0, 1, SendOp::Send, &[bad_key], flags).unwrap();
    p.worlds[0].memory.0[..64].fill(0);
    p.finish();
    assert_eq!(p.worlds[1].memory.at(BASE + 0x1000, 13), want);
    assert!(p.post(0, 1, SendOp::Send, &[sge(0, 1025)], flags).is_err());
}

#[test]
fn send_with_invalidate() {
    let mut p = Pair::new(QpType::Rc);
    p.recv(1, 1, &[sge(0x1000, 4096)]);
    p.send(0, 1, SendOp::SendInv(KEY_WINDOW), &[sge(0, 2000)]);
    p.finish();
    let wc = p.worlds[1].take_wcs(RECV_CQ)[0];
    assert_eq!((wc.imm_data, wc.flags), (KEY_WINDOW, WcFlags::WITH_INV));
    assert!(!p.worlds[1].keys.iter().any(|k| k.key == KEY_WINDOW));
}

#[test]
fn local_operations_complete_in_order() {
    let mut p = Pair::new(QpType::Rc);
    let bind = MwBind { mw_rkey: 1, new_rkey: 2, mr_lkey: KEY, addr: BASE, length: 10, access: Access::empty() };
    p.send(0, 1, SendOp::Write(remote(0)), &[sge(0, 5000)]);
    p.send(0, 2, SendOp::BindMw(bind), &[]);
    p.send(0, 3, SendOp::LocalInv(KEY_WINDOW), &[]);
    p.send(0, 4, SendOp::Write(remote(0)), &[sge(0, 10)]);
    p.finish();
    let wcs = p.worlds[0].take_wcs(SEND_CQ);
    let got: Vec<_> = wcs.iter().map(|w| (w.wr_id, w.opcode)).collect();
    use WcOpcode::*;
    assert_eq!(got, [(1, RdmaWrite), (2, BindMw), (3, LocalInv), (4, RdmaWrite)]);
    let bad = weft_verbs::MwBind { mr_lkey: 0, ..bind };
    p.send(0, 5, SendOp::BindMw(bad), &[]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [(5, WcStatus::MwBindErr, 0)]);
    assert_eq!(p.qps[0].state(), QpState::Err);
}

#[test]
fn unsignalled_work_retires_in_silence() {
    let mut inits = [init(QpType::Rc), init(QpType::Rc)];
    inits[0].sq_sig_all = false;
    inits[0].cap.max_send_wr = 4;
    let mut p = Pair::with(inits, |_, _| {});
    for n in 0..4 {
        let flags = if n == 3 { SendFlags::SIGNALED } else { SendFlags::empty() };
        p.post(0, n, SendOp::Write(remote(0)), &[sge(0, 10)], flags).unwrap();
    }
    let full = p.post(0, 9, SendOp::Write(remote(0)), &[], SendFlags::empty());
    assert_eq!(full.unwrap_err().errno(), 12);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [ok(3, 10)]);
    p.post(0, 9, SendOp::Write(remote(0)), &[], SendFlags::empty()).unwrap();
}

#[test]
fn fence_waits_for_reads() {
    let mut p = Pair::new(QpType::Rc);
    p.send(0, 1, SendOp::Read(remote(0)), &[sge(0x1000, 3000)]);
    p.post(0, 2, SendOp::Write(remote(0)), &[sge(0, 10)], SendFlags::SIGNALED | SendFlags::FENCE).unwrap();
    p.transmit();
    assert_eq!(p.log.len(), 1);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [ok(1, 3000), ok(2, 10)]);
}

#[test]
fn reads_keep_to_the_depth() {
    let mut p = Pair::with([init(QpType::Rc), init(QpType::Rc)], |_, a| a.max_rd_atomic = 2);
    for n in 0..6 {
        p.send(0, n, SendOp::Read(remote(0)), &[sge(0x1000, 100)]);
    }
    p.transmit();
    assert_eq!(p.log.iter().filter(|l| l.starts_with('0')).count(), 2);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ).len(), 6);
}

#[test]
fn a_long_read_is_several_requests() {
    let mut p = Pair::new(QpType::Rc);
    p.send(0, 1, SendOp::Read(remote(0x1000)), &[sge(0x20_0000, 1_500_000)]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [ok(1, 1_500_000)]);
    let there = p.worlds[1].memory.at(BASE + 0x1000, 1_500_000).to_vec();
    assert_eq!(p.worlds[0].memory.at(BASE + 0x20_0000, 1_500_000), there);
    assert!(p.log.iter().filter(|l| l.contains("Request")).count() >= 6);
}

#[test]
fn every_mtu() {
    for mtu in Mtu::ALL {
        let mut p = Pair::with([init(QpType::Rc), init(QpType::Rc)], |_, a| a.path_mtu = mtu);
        p.recv(1, 1, &[sge(0x10_0000, 100_000)]);
        p.send(0, 1, SendOp::Send, &[sge(0, 99_999)]);
        p.send(0, 2, SendOp::Write(remote(0x20_0000)), &[sge(0, 99_999)]);
        p.send(0, 3, SendOp::Read(remote(0x20_0000)), &[sge(0x30_0000, 99_999)]);
        p.finish();
        assert_eq!(p.worlds[0].take(SEND_CQ).len(), 3);
        let want = p.worlds[0].memory.at(BASE, 99_999).to_vec();
        assert_eq!(p.worlds[1].memory.at(BASE + 0x10_0000, 99_999), want);
        assert_eq!(p.worlds[0].memory.at(BASE + 0x30_0000, 99_999), want);
    }
}

#[test]
fn shared_receives_and_solicited_events() {
    let mut inits = [init(QpType::Rc), init(QpType::Rc)];
    inits[1].srq = Some(SRQ);
    let mut p = Pair::with(inits, |_, _| {});
    p.worlds[1].srq.push_back(crate::RecvWqe {
        wr_id: 50,
        sges: [sge(0, 100)].into_iter().collect(),
        ..crate::RecvWqe::default()
    });
    p.post(0, 1, SendOp::Send, &[sge(0, 5)], SendFlags::SIGNALED | SendFlags::SOLICITED).unwrap();
    p.finish();
    let wc = p.worlds[1].take_wcs(RECV_CQ)[0];
    assert!(wc.solicited);
    assert_eq!(wc.wr_id, 50);
    p.modify(1, QpState::Err);
    assert_eq!(p.worlds[1].events, [AsyncEvent::QpLastWqeReached]);
}

#[test]
fn xrc_names_its_srq() {
    let mut p = Pair::new(QpType::XrcSend);
    p.worlds[1].srq.push_back(crate::RecvWqe {
        wr_id: 50,
        sges: [sge(0x1000, 3000)].into_iter().collect(),
        ..crate::RecvWqe::default()
    });
    p.send(0, 1, SendOp::Send, &[sge(0, 3000)]);
    p.send(0, 2, SendOp::Write(remote(0x8000)), &[sge(0, 3000)]);
    p.send(0, 3, SendOp::Read(remote(0x8000)), &[sge(0x9000, 3000)]);
    p.send(0, 4, SendOp::FetchAdd { target: remote(0), add: 1 }, &[sge(0, 8)]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ).len(), 4);
    let wc = p.worlds[1].take_wcs(XRC_CQ)[0];
    assert_eq!((wc.wr_id, wc.byte_len, wc.src_qp), (50, 3000, SRQN));
    let here = p.worlds[0].memory.at(BASE + 0x9000, 3000).to_vec();
    assert_eq!(p.worlds[1].memory.at(BASE + 0x8000, 3000), here);
}

#[test]
fn acknowledgements_are_coalesced() {
    let mut p = Pair::new(QpType::Rc);
    for n in 0..20 {
        p.send(0, n, SendOp::Write(remote(0)), &[sge(0, 8)]);
    }
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ).len(), 20);
    let acks: Vec<_> = p.log.iter().filter(|l| l.starts_with('1')).collect();
    assert_eq!(acks, ["1 Acknowledge 100013 ack=0 msn=20"]);
}

#[test]
fn draining_ends_what_was_started_and_keeps_the_rest() {
    let mut p = Pair::new(QpType::Rc);
    p.send(0, 1, SendOp::Write(remote(0)), &[sge(0, 3000)]);
    p.transmit();
    p.modify(0, QpState::Sqd);
    assert!(p.qps[0].query().sq_draining);
    p.send(0, 2, SendOp::Write(remote(0)), &[sge(0, 10)]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [ok(1, 3000)]);
    assert_eq!(p.worlds[0].events, [AsyncEvent::SqDrained]);
    assert!(!p.qps[0].query().sq_draining);
    p.modify(0, QpState::Rts);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [ok(2, 10)]);
}

#[test]
fn error_flushes_in_order_and_reset_is_silent() {
    let mut p = Pair::new(QpType::Rc);
    for n in 0..3 {
        p.send(0, n, SendOp::Write(remote(0)), &[sge(0, 10)]);
        p.recv(0, 10 + n, &[]);
    }
    p.modify(0, QpState::Err);
    p.post(0, 3, SendOp::Send, &[], SendFlags::empty()).unwrap();
    p.recv(0, 13, &[]);
    let flushed = |ids: [u64; 4]| ids.map(|id| (id, WcStatus::WrFlushErr, 0));
    assert_eq!(p.worlds[0].take(SEND_CQ), flushed([0, 1, 2, 3]));
    assert_eq!(p.worlds[0].take(RECV_CQ), flushed([10, 11, 12, 13]));
    p.modify(0, QpState::Reset);
    assert_eq!(p.post(0, 3, SendOp::Send, &[], SendFlags::empty()).unwrap_err().errno(), 22);
    let mut p = Pair::new(QpType::Rc);
    p.recv(0, 1, &[]);
    p.send(0, 1, SendOp::Write(remote(0)), &[sge(0, 10)]);
    p.modify(0, QpState::Reset);
    assert!(p.worlds[0].wcs.is_empty());
}

#[test]
fn the_first_packet_establishes_communication() {
    let mut p = Pair::new(QpType::Rc);
    p.modify(1, QpState::Reset);
    let attr = |state| crate::testing::attr(1, state);
    for state in [QpState::Init, QpState::Rtr] {
        p.qps[1].modify(p.now, &attr(state), QpAttrMask::all(), &mut p.worlds[1]);
    }
    p.send(0, 1, SendOp::Write(remote(0)), &[sge(0, 10)]);
    p.send(0, 2, SendOp::Write(remote(0)), &[sge(0, 10)]);
    p.finish();
    assert_eq!(p.worlds[1].events, [AsyncEvent::CommEst]);
}

#[test]
fn an_acknowledgement_rides_along_with_a_quick_answer() {
    let mut p = Pair::new(QpType::Rc);
    for qp in &mut p.qps {
        qp.allow_ack_delay(true);
    }
    for n in 0..20 {
        for side in 0..2 {
            p.recv(side, n, &[sge(0x1000, 100)]);
        }
    }
    for round in 0..10 {
        p.log.clear();
        for side in 0..2 {
            p.send(side, round, SendOp::Send, &[sge(0, 8)]);
            p.run(Duration::from_micros(12));
            assert_eq!(p.worlds[1 - side].take(RECV_CQ), [ok(round, 8)]);
        }
    }
    let kinds: Vec<_> = p.log.iter().map(|l| l.split(" 1").next().unwrap().split(" 2").next().unwrap()).collect();
    assert_eq!(kinds, ["0 SEND Only", "0 Acknowledge", "1 SEND Only", "1 Acknowledge"]);
    // The peer's program stops answering: the acknowledgement leaves on its own, and the next one at once.
    p.finish();
    p.log.clear();
    for round in 10..12 {
        p.send(0, round, SendOp::Send, &[sge(0, 8)]);
        p.run(Duration::from_micros(15 + 40 * (11 - round)));
        assert_eq!(p.log.len() as u64, 2 * (round - 9), "{:#?}", p.log);
    }
    p.finish();
}
