//! Requests that fail because a user asked for it: every service ends them as it ends requests with an error of their own.

use weft_verbs::*;

use crate::testing::*;

/// Posts to side 0: two sends, one that fails with `status`, and another one.
fn post_four(p: &mut Pair, status: WcStatus) {
    let ud =
        (p.qps[0].qp_type() == QpType::Ud).then(|| UdTarget { av: av(0), remote_qpn: 0x11, remote_qkey: 0x1111_1111 });
    for wr_id in 1..=4 {
        // A short one, which takes the fast path within a host, fails as a long one does.
        let sges = [sge(0, if wr_id % 2 == 0 { 40 } else { 900 })];
        p.recv(1, wr_id, &[sge(0x1000, 2000)]);
        let wr = SendWr { wr_id, flags: SendFlags::empty(), op: SendOp::Send, sges: &sges, ud, xrc_srqn: None };
        match wr_id {
            3 => p.qps[0].post_failing_send(p.now, &wr, status, &mut p.worlds[0]).unwrap(),
            _ => p.qps[0].post_send(p.now, &wr, &mut p.worlds[0]).unwrap(),
        }
    }
}

fn ends(p: &mut Pair) -> Vec<(u64, WcStatus, u32)> {
    p.worlds[0].take_wcs(SEND_CQ).iter().map(|wc| (wc.wr_id, wc.status, wc.vendor_err)).collect()
}

const DONE: WcStatus = WcStatus::Success;

#[test]
fn a_failing_request_ends_in_its_turn_and_the_rest_is_flushed() {
    let status = WcStatus::RetryExcErr;
    let want = [(1, DONE, 0), (2, DONE, 0), (3, status, VENDOR_ERR_INJECTED), (4, WcStatus::WrFlushErr, 0)];
    for mut p in [Pair::new(QpType::Rc), Pair::on_one_host(QpType::Rc, 64, |_, _| {})] {
        post_four(&mut p, status);
        p.finish();
        assert_eq!(ends(&mut p), want, "{:?}", p.qps[0]);
        assert_eq!(p.qps[0].state(), QpState::Err);
        // Nothing of it reached the peer.
        assert_eq!(p.worlds[1].take(RECV_CQ).len(), 2);
    }
}

#[test]
fn unreliable_services_enter_sqe() {
    for kind in [QpType::Uc, QpType::Ud] {
        let mut p = Pair::new(kind);
        post_four(&mut p, WcStatus::GeneralErr);
        p.finish();
        let statuses: Vec<_> = ends(&mut p).iter().map(|end| end.1).collect();
        assert_eq!(statuses, [DONE, DONE, WcStatus::GeneralErr, WcStatus::WrFlushErr], "{kind:?}");
        assert_eq!(p.qps[0].state(), QpState::Sqe);
    }
}

#[test]
fn a_first_request_fails_at_once_whatever_its_operation() {
    let ops = [
        SendOp::Send,
        SendOp::Write(remote(0)),
        SendOp::Read(remote(0)),
        SendOp::FetchAdd { target: remote(0), add: 1 },
        SendOp::LocalInv(7),
    ];
    for op in ops {
        for mut p in [Pair::new(QpType::Rc), Pair::on_one_host(QpType::Rc, 64, |_, _| {})] {
            let (sges, flags) = ([sge(0, 8)], SendFlags::SIGNALED);
            let wr = SendWr { wr_id: 1, flags, op, sges: &sges, ud: None, xrc_srqn: None };
            p.qps[0].post_failing_send(p.now, &wr, WcStatus::RemAccessErr, &mut p.worlds[0]).unwrap();
            p.finish();
            assert_eq!(ends(&mut p), [(1, WcStatus::RemAccessErr, VENDOR_ERR_INJECTED)], "{op:?}");
            assert_eq!((p.qps[0].state(), p.log.len()), (QpState::Err, 0));
        }
    }
}

#[test]
fn a_place_in_the_queue_that_held_one_is_as_good_as_new() {
    let mut p = Pair::new(QpType::Uc);
    post_four(&mut p, WcStatus::FatalErr);
    p.finish();
    ends(&mut p);
    p.modify(0, QpState::Rts);
    for wr_id in 0..256 {
        p.recv(1, wr_id, &[sge(0x1000, 2000)]);
        p.send(0, wr_id, SendOp::Send, &[sge(0, 40)]);
        p.finish();
        assert_eq!(ends(&mut p), [(wr_id, DONE, 0)]);
        p.worlds[1].wcs.clear();
    }
}

#[test]
fn a_failing_receive_takes_no_message_and_tells_the_peer() {
    for (status, told) in [
        (WcStatus::LocProtErr, WcStatus::RemOpErr),
        (WcStatus::LocLenErr, WcStatus::RemInvReqErr),
        (WcStatus::LocAccessErr, WcStatus::RemAccessErr),
    ] {
        for mut p in [Pair::new(QpType::Rc), Pair::on_one_host(QpType::Rc, 64, |_, _| {})] {
            for wr_id in 1..=4 {
                p.recv(1, wr_id, &[sge(0x1000, 2000)]);
                if wr_id == 2 {
                    p.qps[1].fail_newest_recv(status);
                }
            }
            (1..=3).for_each(|wr_id| p.send(0, wr_id, SendOp::Send, &[sge(0, 40)]));
            p.finish();
            let received: Vec<_> =
                p.worlds[1].take_wcs(RECV_CQ).iter().map(|wc| (wc.wr_id, wc.status, wc.vendor_err)).collect();
            let flushed = |wr_id| (wr_id, WcStatus::WrFlushErr, 0);
            assert_eq!(received, [(1, DONE, 0), (2, status, VENDOR_ERR_INJECTED), flushed(3), flushed(4)]);
            assert_eq!(ends(&mut p), [(1, DONE, 0), (2, told, 0), flushed(3)], "{:?}", p.qps[0]);
            assert_eq!((p.qps[0].state(), p.qps[1].state()), (QpState::Err, QpState::Err));
        }
    }
}

#[test]
fn a_failing_receive_of_an_unreliable_service_costs_one_message() {
    for kind in [QpType::Uc, QpType::Ud] {
        let mut p = Pair::new(kind);
        for wr_id in 1..=3 {
            p.recv(1, wr_id, &[sge(0x1000, 2000)]);
            if wr_id == 2 {
                p.qps[1].fail_newest_recv(WcStatus::GeneralErr);
            }
        }
        let ud = (kind == QpType::Ud).then(|| UdTarget { av: av(0), remote_qpn: 0x11, remote_qkey: 0x1111_1111 });
        for wr_id in 1..=3 {
            let wr =
                SendWr { wr_id, flags: SendFlags::empty(), op: SendOp::Send, sges: &[sge(0, 40)], ud, xrc_srqn: None };
            p.qps[0].post_send(p.now, &wr, &mut p.worlds[0]).unwrap();
        }
        p.finish();
        let received: Vec<_> = p.worlds[1].take_wcs(RECV_CQ).iter().map(|wc| (wc.wr_id, wc.status)).collect();
        assert_eq!(received, [(1, DONE), (2, WcStatus::GeneralErr), (3, DONE)], "{kind:?}");
    }
}
