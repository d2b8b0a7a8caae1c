//! Requests and calls that fail.

use super::*;

#[test]
fn the_nth_request_fails_and_its_queue_pair_alone() {
    let mut bench = Bench::new(QpType::Rc, &["status=RNR_RETRY_EXC_ERR,from=3,count=1,only=write"]);
    assert_eq!((bench.post(1, 1), bench.post(1, 2), bench.post(0, 3)), (Ok(()), Ok(()), Ok(())));
    assert_eq!(bench.completions(), [(3, WcStatus::RnrRetryExcErr)]);
    assert_eq!((bench.state(0), bench.state(1)), (QpState::Err, QpState::Rts));
    // A request of the failed queue pair is flushed, and has no number.
    bench.post(0, 4).unwrap();
    assert_eq!(bench.completions(), [(4, WcStatus::WrFlushErr)]);
    assert_eq!(bench.hca.strikes(), [(1, 1)]);
    let by = "status=RNR_RETRY_EXC_ERR wr_id=3 by=\"status=RNR_RETRY_EXC_ERR,from=3,count=1,only=write\"";
    assert_eq!(bench.reports(), [by]);
    assert!(!bench.hca.has_injected());
}

#[test]
fn one_request_or_call_uses_up_one_failure() {
    let mut bench = Bench::new(
        QpType::Rc,
        &[
            "status=GENERAL_ERR,from=2,count=1",
            "status=FATAL_ERR,count=2",
            "errno=EIO,call=ibv_alloc_pd,count=1",
            "errno=ENOMEM,call=ibv_alloc_pd,count=1",
        ],
    );
    bench.post(0, 1).unwrap();
    assert_eq!(bench.completions(), [(1, WcStatus::FatalErr)]);
    bench.post(1, 2).unwrap();
    assert_eq!(bench.completions(), [(2, WcStatus::GeneralErr)]);
    bench.connect(QpType::Rc);
    bench.post(2, 3).unwrap();
    assert_eq!(bench.completions(), [(3, WcStatus::FatalErr)]);
    assert_eq!(bench.hca.alloc_pd(DEVICE, 0), Err(VerbsError::Injected(5)));
    assert_eq!(bench.hca.alloc_pd(DEVICE, 0), Err(VerbsError::Injected(12)));
    assert!(bench.hca.alloc_pd(DEVICE, 0).is_ok());
    assert_eq!(bench.hca.strikes(), [(1, 1), (2, 2), (3, 1), (4, 1)]);
}

#[test]
fn a_refused_request_uses_up_no_failure() {
    let mut bench = Bench::new(QpType::Rc, &["status=GENERAL_ERR,from=17,count=1", "event=PATH_MIG,from=17"]);
    let room: u64 = bench.hca.query_qp(bench.qps[0]).unwrap().1.cap.max_send_wr.into();
    assert_eq!(room, 16);
    (1..=room).for_each(|wr_id| bench.post(0, wr_id).unwrap());
    // No request is acknowledged: the queue is full.
    assert!(bench.post(0, 17).is_err());
    assert_eq!((bench.at(0), bench.hca.strikes()), (vec![], vec![(1, 0), (2, 0)]));
    bench.post(1, 18).unwrap();
    assert_eq!(bench.completions(), [(18, WcStatus::GeneralErr)]);
    assert_eq!(bench.hca.strikes(), [(1, 1), (2, 1)]);
}

#[test]
fn each_queue_pair_may_have_its_own_numbers() {
    let mut bench = Bench::new(QpType::Rc, &["status=REM_OP_ERR,from=2,count=1,per=qp"]);
    for (qp, wr_id) in [(0, 1), (1, 2)] {
        bench.post(qp, wr_id).unwrap();
    }
    assert_eq!(bench.completions(), []);
    bench.post(1, 3).unwrap();
    // The first request is not acknowledged: the failing one waits for its turn behind it.
    assert_eq!((bench.completions(), bench.state(1)), (vec![], QpState::Rts));
    assert_eq!(bench.hca.strikes(), [(1, 1)]);
    bench.post(0, 4).unwrap();
    assert_eq!(bench.hca.strikes(), [(1, 2)]);
}

#[test]
fn a_status_that_datagrams_cannot_have_is_excused_once() {
    let mut bench = Bench::new(QpType::Uc, &["status=RETRY_EXC_ERR"]);
    (1..=3).for_each(|wr_id| bench.post(0, wr_id).unwrap());
    assert_eq!(bench.completions(), [1, 2, 3].map(|wr_id| (wr_id, WcStatus::Success)));
    let reports = bench.hca.take_injected();
    assert_eq!(reports.len(), 1);
    assert!(!reports[0].struck && reports[0].text.contains("reliable queue pairs, this one is Uc"), "{reports:?}");
}

#[test]
fn calls_fail_with_their_errno_and_have_no_effect() {
    let specs = ["errno=ENOMEM,call=ibv_create_cq+ibv_alloc_pd,from=2,count=1", "errno=EBUSY,call=ibv_modify_qp"];
    let mut bench = Bench::new(QpType::Rc, &specs);
    let usage = bench.hca.usage();
    let init = CqInit { cqe: 4, cookie: 0, ignore_overrun: false };
    assert!(bench.hca.create_cq(DEVICE, &init).is_ok());
    assert_eq!(bench.hca.alloc_pd(DEVICE, 0), Err(VerbsError::Injected(12)));
    assert_eq!(VerbsError::Injected(12).errno(), 12);
    assert!(bench.hca.create_cq(DEVICE, &init).is_ok());
    assert_eq!((bench.hca.usage().cq, bench.hca.usage().pd), (usage.cq + 2, usage.pd));
    let (qp, attr) = (bench.qps[0], QpAttr { qp_state: QpState::Err, ..QpAttr::default() });
    assert_eq!(bench.hca.modify_qp(BEGIN, qp, &attr, Mask::STATE), Err(VerbsError::Injected(16)));
    assert_eq!(bench.state(0), QpState::Rts);
    bench.hca.end_injection(BEGIN, 2);
    assert_eq!(bench.hca.modify_qp(BEGIN, qp, &attr, Mask::STATE), Ok(()));
}

#[test]
fn a_failure_of_another_device_does_not_strike() {
    let mut bench = Bench::new(QpType::Rc, &["errno=EIO,call=ibv_alloc_pd,device=rxe1"]);
    assert!(bench.hca.alloc_pd(DEVICE, 0).is_ok());
    bench.hca.set_device(DeviceId(2), device("rxe1"));
    assert_eq!(bench.hca.alloc_pd(DeviceId(2), 0), Err(VerbsError::Injected(5)));
}

#[test]
fn an_xrc_initiator_fails_as_a_connection_does() {
    let mut bench = Bench::new(QpType::XrcSend, &["status=REM_ACCESS_ERR,count=1"]);
    bench.post(1, 1).unwrap();
    assert_eq!(bench.completions(), [(1, WcStatus::RemAccessErr)]);
    assert_eq!((bench.state(0), bench.state(1)), (QpState::Rts, QpState::Err));
}

#[test]
fn a_list_of_failures_strikes_side_by_side() {
    let specs = [
        "status=GENERAL_ERR,from=2,count=1",
        "event=PATH_MIG,from=1",
        "event=GID_CHANGE",
        "errno=EIO,call=ibv_alloc_pd",
    ];
    let mut bench = Bench::new(QpType::Rc, &specs);
    bench.post(0, 1).unwrap();
    bench.post(1, 2).unwrap();
    assert_eq!(bench.hca.alloc_pd(DEVICE, 0), Err(VerbsError::Injected(5)));
    let qp = AsyncSubject::Qp(bench.qps[0]);
    assert_eq!(bench.at(1), [(AsyncEvent::PathMig, qp), (AsyncEvent::GidChange, AsyncSubject::Port(1))]);
    assert_eq!(bench.completions(), [(2, WcStatus::GeneralErr)]);
    assert_eq!(bench.hca.strikes(), [(1, 1), (2, 1), (3, 1), (4, 1)]);
    assert_eq!(bench.reports().len(), 4);
}

#[test]
fn calls_of_the_connection_manager_fail_at_once_or_by_an_event() {
    let failures = [
        "cm=REJECTED,from=2,count=1",
        "cm=UNREACHABLE,from=2,count=2",
        "cm=ADDR_ERROR,count=1",
        "cm=ROUTE_ERROR,count=1,device=another",
        "errno=EINVAL,call=rdma_connect,from=5",
    ];
    let mut bench = Bench::new(QpType::Rc, &failures);
    let mut connect = || bench.hca.may_connect(Some(DEVICE), Call::CmConnect);
    let (rejected, unreachable) = (Ok(Some(CmFailure::Rejected)), Ok(Some(CmFailure::Unreachable)));
    let seen = [connect(), connect(), connect(), connect(), connect()];
    assert_eq!(seen, [Ok(None), rejected, unreachable, unreachable, Err(VerbsError::Injected(22))]);
    // No device is known before addresses are resolved: failures of one device do not concern the call.
    assert_eq!(bench.hca.may_connect(None, Call::CmResolveAddr), Ok(Some(CmFailure::AddrError)));
    assert_eq!(bench.hca.may_connect(None, Call::CmResolveRoute), Ok(None));
    assert_eq!(bench.hca.may_connect(Some(DEVICE), Call::CmResolveRoute), Ok(None));
    assert_eq!(bench.hca.strikes(), [(1, 1), (2, 2), (3, 1), (4, 0), (5, 1)]);
    assert_eq!(bench.reports()[0], "cm=REJECTED call=rdma_connect by=\"cm=REJECTED,from=2,count=1\"");
}

#[test]
fn receives_are_numbered_by_themselves() {
    let spec = "status=LOC_LEN_ERR,from=2,count=1,only=recv";
    let mut bench = Bench::new(QpType::Rc, &[spec]);
    let recv = |bench: &mut Bench, wr_id| bench.hca.post_recv(bench.qps[0], &RecvWr { wr_id, sges: &[] });
    (1..=3).for_each(|wr_id| bench.post(0, wr_id).unwrap());
    recv(&mut bench, 7).unwrap();
    assert_eq!(bench.hca.strikes(), [(1, 0)]);
    recv(&mut bench, 8).unwrap();
    assert_eq!(bench.reports(), [format!("status=LOC_LEN_ERR receive wr_id=8 by=\"{spec}\"")]);
    // The receive waits for a message; one that the full queue refuses has no number.
    assert_eq!((bench.completions(), bench.state(0)), (vec![], QpState::Rts));
    let refused = (9..).find(|wr_id| recv(&mut bench, *wr_id).is_err()).unwrap();
    assert_eq!((refused, bench.hca.strikes()), (8 + 15, vec![(1, 1)]));
}

#[test]
fn receives_of_a_shared_queue_count() {
    let mut bench = Bench::on(device("rxe0"));
    bench.inject(&["status=GENERAL_ERR,from=2,count=1,only=recv"]);
    let srq = bench.shared_queue();
    for wr_id in 1..=2 {
        bench.hca.post_srq_recv(srq, &RecvWr { wr_id, sges: &[] }).unwrap();
    }
    assert_eq!((bench.hca.strikes(), bench.reports().len()), (vec![(1, 1)], 1));
    let taken = |bench: &mut Bench| bench.hca.context.take_srq_recv(srq).unwrap().injected;
    assert_eq!([taken(&mut bench), taken(&mut bench)], [WcStatus::Success, WcStatus::GeneralErr]);
}
