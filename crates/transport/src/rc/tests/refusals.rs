//! Every NAK and error completion, and the resulting state of the queue pairs.

use weft_verbs::*;

use crate::testing::*;

/// Posts one request; returns its status at the requester, and the responder's events.
fn refused(change: impl Fn(usize, &mut QpAttr), op: SendOp, sges: &[Sge]) -> (WcStatus, Vec<AsyncEvent>, Pair) {
    let mut p = Pair::with([init(QpType::Rc), init(QpType::Rc)], change);
    p.recv(1, 70, &[sge(0x1000, 100)]);
    p.recv(1, 71, &[sge(0x1000, 100)]);
    p.send(0, 1, SendOp::Write(remote(0)), &[sge(0, 10)]);
    p.send(0, 2, op, sges);
    p.send(0, 3, SendOp::Write(remote(0)), &[sge(0, 10)]);
    p.finish();
    let wcs = p.worlds[0].take(SEND_CQ);
    assert_eq!(wcs[0], (1, WcStatus::Success, 10));
    assert_eq!((wcs[1].0, wcs[2].0), (2, 3));
    assert_eq!(wcs[2].1, WcStatus::WrFlushErr);
    assert_eq!(p.qps[0].state(), QpState::Err);
    let events = p.worlds[1].events.clone();
    (wcs[1].1, events, p)
}

fn remote_error(change: impl Fn(usize, &mut QpAttr), op: SendOp, sges: &[Sge]) -> (WcStatus, Vec<AsyncEvent>) {
    let (status, events, mut p) = refused(change, op, sges);
    assert_eq!(p.qps[1].state(), QpState::Err);
    assert_eq!(p.worlds[1].take(RECV_CQ).last().unwrap().1, WcStatus::WrFlushErr);
    (status, events)
}

#[test]
fn keys_ranges_and_rights() {
    use WcStatus::RemAccessErr;
    let access = vec![AsyncEvent::QpAccessErr];
    let bad = |rkey, addr| RemoteTarget { rkey, addr };
    let same = |_: usize, _: &mut QpAttr| {};
    for target in
        [bad(0xdead, BASE), bad(KEY, BASE + MEMORY as u64 - 8), bad(KEY, u64::MAX - 7), bad(KEY_READ_ONLY, BASE)]
    {
        let got = remote_error(same, SendOp::Write(target), &[sge(0, 64)]);
        assert_eq!(got, (RemAccessErr, access.clone()));
        let got = remote_error(same, SendOp::Write(target), &[sge(0, 4000)]);
        assert_eq!(got, (RemAccessErr, access.clone()));
        let got = remote_error(same, SendOp::Read(target), &[sge(0, 64)]);
        assert_eq!(got, (RemAccessErr, access.clone()));
        let aligned = RemoteTarget { addr: target.addr / 8 * 8, ..target };
        if aligned.addr.saturating_add(8) <= BASE + MEMORY as u64 && aligned.rkey == KEY {
            continue;
        }
        let got = remote_error(same, SendOp::FetchAdd { target: aligned, add: 1 }, &[sge(0, 8)]);
        assert_eq!(got, (RemAccessErr, access.clone()));
    }
}

#[test]
fn rights_of_the_queue_pair() {
    let none = |side: usize, a: &mut QpAttr| {
        if side == 1 {
            a.qp_access = Access::REMOTE_WRITE;
        }
    };
    let want = (WcStatus::RemInvReqErr, vec![AsyncEvent::QpReqErr]);
    assert_eq!(remote_error(none, SendOp::Read(remote(0)), &[sge(0, 10)]), want);
    assert_eq!(remote_error(none, SendOp::FetchAdd { target: remote(0), add: 1 }, &[sge(0, 8)]), want);
    let flush = SendOp::Flush { target: remote(0), length: 8, placement: 1, level: 0 };
    assert_eq!(remote_error(none, flush, &[]), want);
    let shallow = |_: usize, a: &mut QpAttr| a.max_dest_rd_atomic = 0;
    assert_eq!(remote_error(shallow, SendOp::Read(remote(0)), &[sge(0, 10)]), want);
}

#[test]
fn a_message_longer_than_its_receive() {
    for len in [200, 4000] {
        let (status, events, mut p) = refused(|_, _| {}, SendOp::Send, &[sge(0, len)]);
        assert_eq!(status, WcStatus::RemInvReqErr);
        assert!(events.is_empty());
        let recvs = p.worlds[1].take(RECV_CQ);
        assert_eq!(recvs, [(70, WcStatus::LocLenErr, 0), (71, WcStatus::WrFlushErr, 0)]);
    }
}

#[test]
fn a_receive_with_a_bad_key() {
    let mut p = Pair::new(QpType::Rc);
    p.recv(1, 70, &[Sge { addr: BASE, length: 100, lkey: KEY_READ_ONLY }]);
    p.send(0, 1, SendOp::Send, &[sge(0, 10)]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::RemOpErr, 0)]);
    assert_eq!(p.worlds[1].take(RECV_CQ), [(70, WcStatus::LocProtErr, 0)]);
}

/// Adapters check an element of a receive when bytes for it arrive: a list may have an invalid key beyond the used
/// part.
#[test]
fn elements_that_a_message_does_not_reach_are_not_checked() {
    let none = Sge { addr: 0, length: 64, lkey: 0 };
    for len in [0u32, 100, 3000] {
        for mut p in [Pair::new(QpType::Rc), Pair::on_one_host(QpType::Rc, 64, |_, _| {})] {
            let list = [sge(0x10_0000, len), none];
            p.recv(1, 70, if len == 0 { &list[1..] } else { &list });
            p.send(0, 1, SendOp::Send, &[sge(0, len)]);
            p.finish();
            assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::Success, len)]);
            assert_eq!(p.worlds[1].take(RECV_CQ), [(70, WcStatus::Success, len)]);
            p.recv(1, 71, &list);
            p.send(0, 2, SendOp::Send, &[sge(0, len + 1)]);
            p.finish();
            assert_eq!(p.worlds[0].take(SEND_CQ), [(2, WcStatus::RemOpErr, 0)]);
            assert_eq!(p.worlds[1].take(RECV_CQ), [(71, WcStatus::LocProtErr, 0)]);
        }
    }
}

#[test]
fn a_send_with_a_bad_key_lets_earlier_ones_end() {
    let mut p = Pair::new(QpType::Rc);
    p.send(0, 1, SendOp::Write(remote(0)), &[sge(0, 3000)]);
    p.send(0, 2, SendOp::Write(remote(0)), &[sge(0, 1024), Sge { addr: BASE, length: 5000, lkey: 1 }]);
    p.send(0, 3, SendOp::Write(remote(0)), &[sge(0, 3000)]);
    p.finish();
    let got: Vec<_> = p.worlds[0].take(SEND_CQ).iter().map(|w| (w.0, w.1)).collect();
    assert_eq!(got, [(1, WcStatus::Success), (2, WcStatus::LocProtErr), (3, WcStatus::WrFlushErr)]);
    let mut p = Pair::new(QpType::Rc);
    p.send(0, 1, SendOp::Write(remote(0)), &[sge(0, 3000)]);
    p.send(0, 2, SendOp::Read(remote(0)), &[Sge { addr: BASE, length: 10, lkey: KEY_READ_ONLY }]);
    p.finish();
    let got: Vec<_> = p.worlds[0].take(SEND_CQ).iter().map(|w| (w.0, w.1)).collect();
    assert_eq!(got, [(1, WcStatus::Success), (2, WcStatus::LocProtErr)]);
}

#[test]
fn local_errors() {
    let mut p = Pair::with([init(QpType::Rc), init(QpType::Rc)], |_, a| a.max_rd_atomic = 0);
    p.send(0, 1, SendOp::Read(remote(0)), &[sge(0, 10)]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ)[0].1, WcStatus::LocQpOpErr);
    let mut p = Pair::new(QpType::Rc);
    let half = Sge { addr: BASE, length: 1 << 30, lkey: KEY };
    p.send(0, 1, SendOp::Write(remote(0)), &[half, half, sge(0, 1)]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ)[0].1, WcStatus::LocLenErr);
}

#[test]
fn what_cannot_be_posted() {
    let mut p = Pair::new(QpType::Rc);
    let none = SendFlags::empty();
    let odd = RemoteTarget { addr: BASE + 1, rkey: KEY };
    assert!(p.post(0, 1, SendOp::FetchAdd { target: odd, add: 1 }, &[sge(0, 8)], none).is_err());
    assert!(p.post(0, 1, SendOp::FetchAdd { target: remote(0), add: 1 }, &[sge(0, 4)], none).is_err());
    assert!(p.post(0, 1, SendOp::AtomicWrite(remote(0)), &[sge(0, 9)], none).is_err());
    assert!(p.post(0, 1, SendOp::Read(remote(0)), &[sge(0, 9)], SendFlags::INLINE).is_err());
    assert!(p.post(0, 1, SendOp::Send, &[sge(0, 1); 31], none).is_err());
    let mut uc = Pair::new(QpType::Uc);
    assert!(uc.post(0, 1, SendOp::Read(remote(0)), &[sge(0, 9)], none).is_err());
    let mut ud = Pair::new(QpType::Ud);
    assert!(ud.post(0, 1, SendOp::Write(remote(0)), &[sge(0, 9)], none).is_err());
    assert!(ud.post(0, 1, SendOp::Send, &[sge(0, 4097)], none).is_err());
}

#[test]
fn receiver_not_ready() {
    let mut p = Pair::new(QpType::Rc);
    p.send(0, 1, SendOp::Send, &[sge(0, 64)]);
    p.run(Duration::from_millis(5));
    let naks = p.log.iter().filter(|l| *l == "1 Acknowledge 100000 rnr=14 msn=0").count();
    assert!((3..=6).contains(&naks), "{:#?}", p.log);
    p.recv(1, 5, &[sge(0x1000, 64)]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::Success, 64)]);
    assert_eq!(p.worlds[1].take(RECV_CQ), [(5, WcStatus::Success, 64)]);
}

#[test]
fn receiver_never_ready() {
    let mut p = Pair::with([init(QpType::Rc), init(QpType::Rc)], |_, a| a.rnr_retry = 1);
    p.send(0, 1, SendOp::Send, &[sge(0, 3000)]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::RnrRetryExcErr, 0)]);
    assert_eq!(p.log.iter().filter(|l| l.contains("rnr=")).count(), 2);
    assert_eq!(p.qps[1].state(), QpState::Rts);
}

#[test]
fn write_with_immediate_waits_at_its_last_packet() {
    let mut p = Pair::new(QpType::Rc);
    p.send(0, 1, SendOp::WriteImm(remote(0x1000), 7), &[sge(0, 3000)]);
    p.run(Duration::from_millis(2));
    assert!(p.log.contains(&"1 Acknowledge 100002 rnr=14 msn=0".to_string()));
    p.recv(1, 5, &[]);
    p.finish();
    assert_eq!(p.worlds[1].take(RECV_CQ), [(5, WcStatus::Success, 3000)]);
    let sent = p.worlds[0].memory.at(BASE, 3000).to_vec();
    assert_eq!(p.worlds[1].memory.at(BASE + 0x1000, 3000), sent);
}

#[test]
fn a_list_that_is_wrong_further_on_is_found_before_its_first_packet_leaves() {
    let mut p = Pair::new(QpType::Rc);
    p.send(0, 1, SendOp::Write(remote(0)), &[sge(0, 3000), Sge { lkey: 0x666, ..sge(0, 100) }]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::LocProtErr, 0)]);
    assert_eq!(p.log, [""; 0]);
}

#[test]
fn a_dead_peer_ends_in_retry_exceeded() {
    let mut p = Pair::new(QpType::Rc);
    p.fate = Box::new(|_, _| Fate::Lose);
    p.send(0, 1, SendOp::Write(remote(0)), &[sge(0, 8)]);
    p.send(0, 2, SendOp::Write(remote(0)), &[sge(0, 8)]);
    let start = p.now;
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::RetryExcErr, 0), (2, WcStatus::WrFlushErr, 0)]);
    let timeout = 4 * (4096u64 << 14);
    assert!((4 * timeout..5 * timeout).contains(&(p.now.0 - start.0)));
    assert_eq!(p.qps[0].stats().timeouts, 4);
}

#[test]
fn a_refusal_that_is_lost_is_said_again() {
    let mut p = Pair::new(QpType::Rc);
    let mut lost = 0;
    p.fate = Box::new(move |side, _| {
        lost += u32::from(side == 1);
        if side == 1 && lost <= 2 { Fate::Lose } else { Fate::Deliver }
    });
    p.send(0, 1, SendOp::Write(RemoteTarget { addr: BASE, rkey: 9 }), &[sge(0, 8)]);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ), [(1, WcStatus::RemAccessErr, 0)]);
}

#[test]
fn a_region_that_goes_while_a_read_streams() {
    let mut p = Pair::new(QpType::Rc);
    p.send(0, 1, SendOp::Read(RemoteTarget { addr: BASE, rkey: KEY_WINDOW }), &[sge(0x1000, 4096)]);
    // The request has arrived, the reply has not begun.
    let mut batch = crate::TxBatch::default();
    p.qps[0].poll_transmit(p.now, &mut batch, &mut p.worlds[0]);
    let mut bytes = batch.arena.clone();
    bytes.resize(bytes.len() + 4, 0);
    p.deliver(1, &bytes);
    p.worlds[1].keys.retain(|k| k.key != KEY_WINDOW);
    p.finish();
    assert_eq!(p.worlds[0].take(SEND_CQ)[0].1, WcStatus::RemAccessErr);
    assert_eq!(p.qps[1].state(), QpState::Err);
}
