//! Lost and repeated messages.

use super::*;

/// Creates a network that loses the first `count` messages of a name.
fn losing(mut count: usize, lost: &'static str) -> Net {
    Net::losing(move |_, name| {
        let lose = name == lost && count > 0;
        count -= usize::from(lose);
        lose
    })
}

#[test]
fn a_lost_request_is_repeated_early() {
    let mut net = losing(1, "REQ");
    net.ends[1].listen(SERVICE, u64::MAX).unwrap();
    let active = net.ends[0].send_req(net.now, &req(0)).unwrap();
    net.quiet();
    net.wait(ms(REQ_TRY_MS / 8));
    assert!(matches!(net.event(1).kind, EventKind::ReqReceived(_)));
    assert_eq!(net.state(0, active), State::ReqSent);
    assert_eq!(net.ends[0].stats().tx_retries[0], 1);
}

#[test]
fn a_lost_answer_comes_with_the_next_request_or_on_its_own() {
    let mut net = losing(1, "REP");
    let (active, passive) = net.request();
    net.ends[1].send_rep(net.now, passive, &rep(1)).unwrap();
    net.wait(ms(1024));
    assert!(matches!(net.event_of(0, active), EventKind::RepReceived(_)));
    assert_eq!(net.state(1, passive), State::RepSent);
    assert_eq!(net.ends[1].stats().rx_duplicates[0], 0, "the answer's own timer was faster");
}

#[test]
fn a_repeated_request_is_answered_as_before() {
    let mut net = losing(1, "REP");
    let (active, passive) = net.request();
    net.wait(ms(REQ_TRY_MS / 8 - 1));
    net.ends[1].send_rep(net.now, passive, &rep(1)).unwrap();
    net.wait(ms(1));
    assert!(matches!(net.event_of(0, active), EventKind::RepReceived(_)));
    assert_eq!(net.log(), [(0, "REQ"), (1, "REP"), (0, "REQ"), (1, "REP")]);
    net.ends[0].send_rtu(net.now, active, &[]).unwrap();
    assert_eq!(net.event_of(1, passive), EventKind::RtuReceived);
}

#[test]
fn a_lost_rtu_is_repeated_when_the_answer_is() {
    let mut net = losing(1, "RTU");
    let (active, passive) = net.reply();
    net.ends[0].send_rtu(net.now, active, b"ready").unwrap();
    net.quiet();
    net.wait(ms(512));
    let event = net.event(1);
    assert_eq!((event.conn, event.kind), (passive, EventKind::RtuReceived));
    assert_eq!(event.private_data[..5], *b"ready");
    assert_eq!(net.log(), [(0, "REQ"), (1, "REP"), (0, "RTU"), (1, "REP"), (0, "RTU")]);
}

#[test]
fn a_lost_end_is_repeated_and_so_is_its_answer() {
    for lost in ["DREQ", "DREP"] {
        let mut net = losing(1, lost);
        let (active, passive) = net.connect();
        net.ends[0].send_dreq(net.now, active, &[]).unwrap();
        net.settle();
        if lost == "DREQ" {
            net.wait(ms(REQ_TRY_MS / 8));
        }
        assert_eq!(net.event_of(1, passive), EventKind::DreqReceived);
        net.ends[1].send_drep(net.now, passive, &[]).unwrap();
        if lost == "DREP" {
            net.quiet();
            net.wait(ms(REQ_TRY_MS / 8));
        }
        assert_eq!(net.event_of(0, active), EventKind::DrepReceived);
    }
}

#[test]
fn an_end_is_answered_after_timewait_too() {
    let mut net = losing(3, "DREP");
    let (active, passive) = net.connect();
    net.ends[0].send_dreq(net.now, active, &[]).unwrap();
    assert_eq!(net.event_of(1, passive), EventKind::DreqReceived);
    net.ends[1].send_drep(net.now, passive, &[]).unwrap();
    net.wait(ms(REQ_TRY_MS));
    assert_eq!(net.event_of(1, passive), EventKind::TimewaitExit);
    assert_eq!(net.event_of(0, active), EventKind::DrepReceived);
}

#[test]
fn nobody_answers_a_request() {
    let mut net = Net::losing(|_, _| true);
    let active = net.ends[0].send_req(net.now, &ReqParams { max_cm_retries: 3, ..req(0) }).unwrap();
    net.wait(ms(4 * REQ_TRY_MS - 1));
    net.quiet();
    net.wait(ms(1));
    assert_eq!(net.event_of(0, active), EventKind::ReqError);
    assert_eq!(net.state(0, active), State::Idle);
    let log = net.log();
    assert_eq!(log.iter().filter(|(_, name)| *name == "REQ").count(), 1 + 2 + 3, "two early ones are not counted");
    assert_eq!(log.last(), Some(&(0, "REJ")), "whoever waits there shall know");
    net.ends[0].destroy(net.now, active);
    net.assert_empty();
}

#[test]
fn nobody_takes_note_of_an_answer() {
    let mut net = Net::losing(|end, name| end == 1 && name == "REP");
    let (active, passive) = net.request();
    net.ends[1].send_rep(net.now, passive, &rep(1)).unwrap();
    // The passive side has shorter timeouts, so it gives up first: the active side gets an event.
    net.wait(ms(16 * 4096));
    assert_eq!(net.event_of(1, passive), EventKind::RepError);
    let EventKind::RejReceived(rejected) = net.event_of(0, active) else { panic!() };
    assert_eq!((rejected.reason, rejected.ari), (RejectReason::TIMEOUT, GUIDS[1].to_be_bytes().to_vec()));
}

#[test]
fn nobody_answers_the_end() {
    let mut net = Net::losing(|_, name| name == "DREQ");
    let (active, _) = net.connect();
    net.ends[0].send_dreq(net.now, active, &[]).unwrap();
    net.wait(ms(16 * REQ_TRY_MS));
    assert_eq!(net.event_of(0, active), EventKind::DreqError);
    assert_eq!(net.state(0, active), State::Timewait);
    net.wait(ms(2048));
    assert_eq!(net.event_of(0, active), EventKind::TimewaitExit);
}

#[test]
fn a_busy_server_asks_for_patience_when_it_is_reminded() {
    let mut net = Net::new();
    let (active, passive) = net.request();
    // As Linux's RDMA CM does for every request: only if the peer repeats its message.
    net.ends[1].send_mra(net.now, passive, 24, true, &[]).unwrap();
    assert_eq!(net.log(), [(0, "REQ")]);
    net.wait(ms(REQ_TRY_MS / 8));
    assert_eq!(net.event_of(0, active), EventKind::MraReceived { service_timeout: 24 });
    assert_eq!(net.log(), [(0, "REQ"), (1, "MRA")]);
    assert_eq!((net.state(0, active), net.state(1, passive)), (State::MraReqRcvd, State::MraReqSent));
    // 2^(24-8) ms, plus the round trip.
    net.wait(ms(65_536 + 2048 - 1));
    assert_eq!(net.log(), []);
    net.wait(ms(1));
    assert_eq!(net.log(), [(0, "REQ"), (1, "MRA")]);
    net.quiet();
    net.ends[1].send_rep(net.now, passive, &rep(1)).unwrap();
    assert!(matches!(net.event_of(0, active), EventKind::RepReceived(_)));
    net.ends[0].send_mra(net.now, active, 20, false, b"soon").unwrap();
    let event = net.event(1);
    assert_eq!((event.kind, &event.private_data[..4]), (EventKind::MraReceived { service_timeout: 20 }, &b"soon"[..]));
    assert_eq!(net.state(1, passive), State::MraRepRcvd);
    net.wait(ms(4096 + 2048));
    assert_eq!(net.log(), [(1, "REP"), (0, "MRA"), (1, "REP"), (0, "MRA")]);
    net.ends[0].send_rtu(net.now, active, &[]).unwrap();
    assert_eq!(net.event_of(1, passive), EventKind::RtuReceived);
}

#[test]
fn an_alternate_path_is_loaded_or_not() {
    let mut net = Net::new();
    let (active, passive) = net.connect();
    net.ends[0].send_lap(net.now, active, &path(0), b"other").unwrap();
    let EventKind::LapReceived(got) = net.event_of(1, passive) else { panic!() };
    assert_eq!(*got, Path { slid: 0xffff, dlid: 0xffff, ..path(1) });
    net.ends[1].send_mra(net.now, passive, 21, false, &[]).unwrap();
    assert_eq!(net.event_of(0, active), EventKind::MraReceived { service_timeout: 21 });
    net.wait(ms(8192 + 2048));
    assert_eq!(net.log()[3..], [(0, "LAP"), (1, "MRA"), (0, "LAP"), (1, "MRA")]);
    net.ends[1].send_apr(net.now, passive, ApStatus::UNSUPPORTED, b"no", &[]).unwrap();
    let received = AprReceived { status: ApStatus::UNSUPPORTED, info: b"no".to_vec() };
    assert_eq!(net.event_of(0, active), EventKind::AprReceived(received));
    assert_eq!((net.state(0, active), net.ends[0].poll_timeout()), (State::Established, None));
    // The next one gets no answer.
    net.lose = Box::new(|_, name| name == "LAP");
    net.ends[0].send_lap(net.now, active, &path(0), &[]).unwrap();
    assert!(net.ends[0].send_lap(net.now, active, &path(0), &[]).is_err());
    net.wait(ms(16 * REQ_TRY_MS));
    assert_eq!(net.event_of(0, active), EventKind::LapError);
    assert_eq!(net.state(0, active), State::Established);
}
