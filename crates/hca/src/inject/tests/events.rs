//! Events of queue pairs, completion queues and ports.

use weft_iwarp::StreamParams;
use weft_verbs::IbPortAttr;

use super::*;

#[test]
fn a_process_that_was_stopped_gets_no_flood_of_events() {
    let mut bench = Bench::new(QpType::Rc, &["event=GID_CHANGE,every=1ms,count=1000000"]);
    assert_eq!(bench.at(3_600_000).len(), 1);
    assert_eq!(bench.at(3_600_001).len(), 1);
    assert_eq!(bench.at(3_600_011).len(), 10);
}

#[test]
fn a_fatal_event_fails_the_queue_pair_whose_request_has_the_number() {
    let mut bench = Bench::new(QpType::Rc, &["event=QP_FATAL,from=2"]);
    bench.post(0, 1).unwrap();
    bench.hca.post_recv(bench.qps[1], &RecvWr { wr_id: 2, sges: &[] }).unwrap();
    assert_eq!(bench.at(0), [(AsyncEvent::QpFatal, AsyncSubject::Qp(bench.qps[1]))]);
    assert_eq!((bench.state(0), bench.state(1)), (QpState::Rts, QpState::Err));
    assert_eq!(bench.completions(), [(2, WcStatus::WrFlushErr)]);
    bench.post(0, 3).unwrap();
    assert_eq!(bench.at(0), []);
}

#[test]
fn receives_before_rtr_and_after_an_error_have_no_number() {
    let mut bench = Bench::new(QpType::Rc, &["event=QP_FATAL,from=2,count=2"]);
    let (first, second) = (bench.qps[0], bench.qps[1]);
    let recv = |bench: &mut Bench, qp| bench.hca.post_recv(qp, &RecvWr { wr_id: 1, sges: &[] }).unwrap();
    bench.bring_to_init(first);
    (0..8).for_each(|_| recv(&mut bench, first));
    assert_eq!((bench.at(1), bench.state(0)), (vec![], QpState::Init));
    (0..2).for_each(|_| recv(&mut bench, second));
    assert_eq!(bench.at(2), [(AsyncEvent::QpFatal, AsyncSubject::Qp(second))]);
    (0..8).for_each(|_| recv(&mut bench, second));
    assert_eq!((bench.at(3), bench.hca.strikes()), (vec![], vec![(1, 1)]));
}

#[test]
fn an_event_that_is_due_waits_for_a_queue_pair() {
    let mut bench = Bench::new(QpType::Rc, &["event=PATH_MIG,after=1s"]);
    let (first, second) = (bench.qps[0], bench.qps[1]);
    assert_eq!(bench.at(1000), [(AsyncEvent::PathMig, AsyncSubject::Qp(first))]);
    assert_eq!(bench.state(0), QpState::Rts);
    let mut idle = Bench::new(QpType::Rc, &["event=PATH_MIG,after=1s,every=1s,count=2", "event=QP_FATAL,after=1s"]);
    idle.bring_to_init(first);
    idle.bring_to_init(second);
    assert_eq!(idle.at(1000), []);
    // Its due time is past: that must not keep the adapter awake.
    assert_eq!(idle.hca.poll_timeout(), None);
    // A queue pair in INIT is not ready to send.
    idle.hca.post_recv(first, &RecvWr { wr_id: 1, sges: &[] }).unwrap();
    assert_eq!((idle.at(4000), idle.hca.strikes()), (vec![], vec![(1, 0), (2, 0)]));
    // One that gets ready raises both without a post; the repetition counts from here.
    idle.connect(QpType::Rc);
    let third = AsyncSubject::Qp(idle.qps[2]);
    assert_eq!(idle.at(4000), [(AsyncEvent::PathMig, third), (AsyncEvent::QpFatal, third)]);
    assert_eq!(idle.at(4999), []);
    // The only queue pair has failed: the repetition waits for another one.
    assert_eq!(idle.at(6000), []);
    idle.connect(QpType::Rc);
    assert_eq!(idle.at(6001), [(AsyncEvent::PathMig, AsyncSubject::Qp(idle.qps[3]))]);
    assert_eq!((idle.at(9000), idle.hca.strikes()), (vec![], vec![(1, 2), (2, 1)]));
}

#[test]
fn a_completion_queue_that_fails_takes_its_queue_pairs_along() {
    let mut bench = Bench::new(QpType::Rc, &["event=CQ_ERR,after=10ms"]);
    assert_eq!(bench.at(10), [(AsyncEvent::CqErr, AsyncSubject::Cq(bench.cq))]);
    assert_eq!((bench.state(0), bench.state(1)), (QpState::Err, QpState::Err));
    assert!(bench.hca.poll_cq(bench.cq, &mut [Wc::default()]).is_err());
}

#[test]
fn events_of_infiniband_have_no_effect_on_ethernet() {
    let mut bench = Bench::new(QpType::Rc, &["event=LID_CHANGE", "event=GID_CHANGE", "event=PORT_ERR,device=rxe7"]);
    assert_eq!(bench.at(1), [(AsyncEvent::GidChange, AsyncSubject::Port(1))]);
    let excuses: Vec<String> =
        bench.hca.take_injected().into_iter().filter(|report| !report.struck).map(|report| report.text).collect();
    assert_eq!(bench.hca.strikes(), [(1, 0), (2, 1), (3, 0)], "an event without effect is no strike");
    assert!(excuses.len() == 2 && excuses[0].contains("InfiniBand") && excuses[1].contains("no such device"));
}

#[test]
fn subnet_management_of_a_fabric_has_its_events() {
    let mut attr = device("weft0");
    let fabric = IbPortAttr { pkeys: vec![0xffff], ..IbPortAttr::default() };
    attr.ports[0].infiniband = Some(Box::new(fabric));
    let mut bench = Bench::on(attr);
    bench.inject(&["event=LID_CHANGE,after=1ms", "event=SM_CHANGE,after=2ms", "event=CLIENT_REREGISTER,after=3ms"]);
    let events: Vec<AsyncEvent> = bench.at(3).into_iter().map(|(event, _)| event).collect();
    assert_eq!(events, [AsyncEvent::LidChange, AsyncEvent::SmChange, AsyncEvent::ClientReregister]);
    assert_eq!(bench.hca.strikes(), [(1, 1), (2, 1), (3, 1)]);
}

#[test]
fn an_iwarp_queue_pair_is_ready_with_its_stream() {
    let mut bench = Bench::on(DeviceAttr { is_iwarp: true, ..device("siw0") });
    let id = bench.create(QpType::Rc);
    bench.inject(&["event=PATH_MIG,after=1s"]);
    bench.bring_to_init(id);
    assert_eq!(bench.at(1000), []);
    bench.hca.attach_stream(bench.now, id, &StreamParams::default()).unwrap();
    assert_eq!(bench.at(1000), [(AsyncEvent::PathMig, AsyncSubject::Qp(id))]);
}

#[test]
fn a_shared_receive_queue_fails_with_its_queue_pairs() {
    let mut bench = Bench::on(device("rxe0"));
    bench.inject(&["event=SRQ_ERR,after=1s"]);
    assert_eq!((bench.at(2000), bench.hca.strikes()), (vec![], vec![(1, 0)]), "no queue yet");
    let srq = bench.shared_queue();
    let fed = bench.create_with(QpType::Rc, Some(srq));
    bench.bring_to_init(fed);
    bench.connect(QpType::Rc);
    let last = (AsyncEvent::QpLastWqeReached, AsyncSubject::Qp(fed));
    assert_eq!(bench.at(2000), [(AsyncEvent::SrqErr, AsyncSubject::Srq(srq)), last]);
    assert_eq!((bench.state(0), bench.state(1)), (QpState::Err, QpState::Rts));
    let wr = RecvWr { wr_id: 1, sges: &[] };
    assert!(bench.hca.post_srq_recv(srq, &wr).unwrap_err().to_string().contains("error state"));
    assert!(bench.hca.context.take_srq_recv(srq).is_none());
}

#[test]
fn a_queue_pair_without_a_shared_receive_queue_does_not_count() {
    let mut bench = Bench::new(QpType::Rc, &["event=SRQ_ERR,from=1"]);
    bench.shared_queue();
    bench.post(0, 1).unwrap();
    assert_eq!((bench.at(0), bench.state(0), bench.hca.strikes()), (vec![], QpState::Rts, vec![(1, 0)]));
}

#[test]
fn each_shared_receive_queue_fails_once_and_an_event_waits_for_one() {
    let mut bench = Bench::on(device("rxe0"));
    bench.inject(&["event=SRQ_ERR,after=1s,every=1s,count=3"]);
    let queues = [bench.shared_queue(), bench.shared_queue()];
    let idle = bench.create_with(QpType::Rc, Some(queues[0]));
    let raised = queues.map(|srq| (AsyncEvent::SrqErr, AsyncSubject::Srq(srq)));
    assert_eq!(bench.at(2000), raised);
    assert_eq!(bench.hca.query_qp(idle).unwrap().0.qp_state, QpState::Reset);
    assert_eq!((bench.at(9000), bench.hca.poll_timeout()), (vec![], None));
    let third = bench.shared_queue();
    assert_eq!(bench.at(9001), [(AsyncEvent::SrqErr, AsyncSubject::Srq(third))]);
}
