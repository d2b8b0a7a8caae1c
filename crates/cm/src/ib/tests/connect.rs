//! Connections are established, or fail.

use super::*;
use crate::ib::limits::{EARLY_MAX, LISTENER_GRACE};

#[test]
fn both_sides_agree_on_what_was_said() {
    let mut net = Net::new();
    let listen = net.ends[1].listen(SERVICE, u64::MAX).unwrap();
    let active = net.ends[0].send_req(net.now, &req(0)).unwrap();
    let event = net.event(1);
    let EventKind::ReqReceived(got) = event.kind else { panic!("{event:?}") };
    assert_eq!(event.private_data.len(), 92);
    assert_eq!(event.private_data[..6], *b"please");
    assert_eq!((got.listen, got.service_id, got.remote_ca_guid), (Some(listen), SERVICE, GUIDS[0]));
    // The path is reversed, and its life time is the one that the ACK timeout was computed from.
    assert_eq!(got.primary, Path { slid: 0xffff, dlid: 0xffff, ..path(1) });
    assert_eq!((got.remote_qpn, got.starting_psn, got.qp_type), (0x11, 0xe1_7694, QpType::Rc));
    assert_eq!((got.responder_resources, got.initiator_depth), (2, 1));
    assert_eq!((got.retry_count, got.rnr_retry_count, got.srq), (7, 6, false));
    assert_eq!(got.ece, Ece { vendor_id: 0x15b3, attr_mod: 5 });

    let passive = event.conn;
    net.ends[1].send_rep(net.now, passive, &rep(1)).unwrap();
    let event = net.event(0);
    let EventKind::RepReceived(got) = event.kind else { panic!("{event:?}") };
    assert_eq!(event.private_data.len(), 196);
    assert_eq!((got.remote_qpn, got.starting_psn, got.target_ack_delay), (0x21, 0x34_33e3, 15));
    assert_eq!((got.responder_resources, got.initiator_depth, got.rnr_retry_count), (1, 2, 5));
    assert_eq!(got.ece, Ece { vendor_id: 0x15b3, attr_mod: 4 });

    net.ends[0].send_rtu(net.now, active, b"ready").unwrap();
    let event = net.event(1);
    assert_eq!(event.kind, EventKind::RtuReceived);
    assert_eq!(event.private_data[..5], *b"ready");

    let [a, p] = [net.ends[0].qp_params(active).unwrap(), net.ends[1].qp_params(passive).unwrap()];
    assert_eq!((a.remote_qpn, a.sq_psn, a.rq_psn), (0x21, p.rq_psn, p.sq_psn));
    assert_eq!((p.remote_qpn, p.path_mtu, a.path_mtu), (0x11, Mtu::Mtu1024, Mtu::Mtu1024));
    assert_eq!((a.rnr_retry_count, p.rnr_retry_count, a.timeout, p.timeout), (5, 6, 19, 19));
    assert_eq!((a.responder_resources, a.initiator_depth), (1, 2));
    assert_eq!((p.responder_resources, p.initiator_depth), (2, 1));
    assert!(a.may_init && a.may_rtr && a.may_rts && p.may_rts);
    assert_eq!(net.log(), [(0, "REQ"), (1, "REP"), (0, "RTU")]);
    net.wait(ms(600_000));
    assert_eq!(net.log(), [], "a connection that stands is silent");
}

#[test]
fn what_each_queue_pair_may_become() {
    let mut net = Net::new();
    let (active, passive) = net.request();
    let may = |net: &Net, end: usize, conn| {
        let params = net.ends[end].qp_params(conn).unwrap();
        (params.may_init, params.may_rtr, params.may_rts)
    };
    assert_eq!(may(&net, 0, active), (true, false, false));
    assert_eq!(may(&net, 1, passive), (true, true, true));
    net.ends[1].send_rej(net.now, passive, RejectReason::CONSUMER_DEFINED, &[], &[]).unwrap();
    assert!(matches!(net.event_of(0, active), EventKind::RejReceived(_)));
    assert_eq!(may(&net, 0, active), (false, false, false));
}

#[test]
fn xrc_names_its_target_elsewhere() {
    let mut net = Net::new();
    net.ends[1].listen(SERVICE, u64::MAX).unwrap();
    let active = net.ends[0].send_req(net.now, &ReqParams { qp_type: QpType::XrcSend, ..req(0) }).unwrap();
    let event = net.event(1);
    let EventKind::ReqReceived(got) = event.kind else { panic!("{event:?}") };
    assert_eq!((got.qp_type, got.initiator_depth, got.retry_count), (QpType::XrcRecv, 0, 0));
    net.ends[1].send_rep(net.now, event.conn, &rep(1)).unwrap();
    let EventKind::RepReceived(got) = net.event_of(0, active) else { panic!() };
    assert_eq!((got.remote_qpn, got.srq, got.responder_resources), (0x21, true, 0));
}

#[test]
fn an_unknown_service_is_rejected_with_its_reason() {
    let mut net = Net::new();
    let active = net.ends[0].send_req(net.now, &req(0)).unwrap();
    net.quiet();
    net.wait(LISTENER_GRACE);
    let rejected = RejReceived { reason: RejectReason::INVALID_SERVICE_ID, ari: Vec::new() };
    assert_eq!(net.event_of(0, active), EventKind::RejReceived(rejected));
    assert_eq!(net.state(0, active), State::Idle);
    net.ends[0].destroy(net.now, active);
    net.assert_empty();
}

#[test]
fn a_request_waits_a_moment_for_its_listener() {
    let mut net = Net::new();
    net.ends[0].send_req(net.now, &req(0)).unwrap();
    net.quiet();
    net.wait(LISTENER_GRACE / 2);
    net.ends[1].listen(SERVICE + 1, u64::MAX).unwrap();
    net.wait(Duration::from_millis(1));
    net.quiet();
    net.ends[1].listen(SERVICE, u64::MAX).unwrap();
    assert_eq!(net.ends[1].poll_timeout(), Some(Instant(0)), "it is due");
    net.wait(Duration::ZERO);
    assert!(matches!(net.event(1).kind, EventKind::ReqReceived(_)));
    assert_eq!(net.log(), [(0, "REQ")]);
}

#[test]
fn requests_that_wait_have_a_limit() {
    let mut net = Net::new();
    for _ in 0..=EARLY_MAX {
        net.ends[0].send_req(net.now, &req(0)).unwrap();
    }
    let rejected = |net: &mut Net| net.log().into_iter().filter(|(end, _)| *end == 1).count();
    assert_eq!(rejected(&mut net), 1, "the one too many, at once");
    net.wait(LISTENER_GRACE);
    assert_eq!(rejected(&mut net), EARLY_MAX);
}

#[test]
fn a_rejection_brings_data_and_leaves_nothing() {
    let mut net = Net::new();
    let (active, passive) = net.request();
    net.ends[1].send_rej(net.now, passive, RejectReason::CONSUMER_DEFINED, b"ari", &[7; 148]).unwrap();
    let event = net.event(0);
    let rejected = RejReceived { reason: RejectReason::CONSUMER_DEFINED, ari: b"ari".to_vec() };
    assert_eq!((event.kind, event.private_data), (EventKind::RejReceived(rejected), vec![7; 148]));
    net.ends[0].destroy(net.now, active);
    net.ends[1].destroy(net.now, passive);
    net.assert_empty();
}

#[test]
fn the_active_side_may_reject_the_answer() {
    let mut net = Net::new();
    let (active, passive) = net.reply();
    net.ends[0].send_rej(net.now, active, RejectReason::NO_QP, &[], &[]).unwrap();
    assert!(matches!(net.event_of(1, passive), EventKind::RejReceived(_)));
    assert_eq!((net.state(0, active), net.state(1, passive)), (State::Idle, State::Idle));
}

#[test]
fn commands_out_of_place_change_nothing() {
    let mut net = Net::new();
    let (active, passive) = net.request();
    let now = net.now;
    assert_eq!(net.ends[0].send_rtu(now, active, &[]), Err(CmError::State(State::ReqSent)));
    assert_eq!(net.ends[0].send_rep(now, active, &rep(0)), Err(CmError::State(State::ReqSent)));
    assert_eq!(net.ends[1].send_dreq(now, passive, &[]), Err(CmError::State(State::ReqRcvd)));
    assert_eq!(net.ends[1].send_rtu(now, ConnId(1), &[]), Err(CmError::NoSuchConnection));
    let long = RepParams { private_data: vec![0; 197], ..rep(1) };
    assert!(matches!(net.ends[1].send_rep(now, passive, &long), Err(CmError::TooLong(_))));
    let long = ReqParams { private_data: vec![0; 93], ..req(0) };
    assert!(matches!(net.ends[0].send_req(now, &long), Err(CmError::TooLong(_))));
    let ud = ReqParams { qp_type: QpType::Ud, ..req(0) };
    assert!(matches!(net.ends[0].send_req(now, &ud), Err(CmError::Invalid(_))));
    let mut elsewhere = req(0);
    elsewhere.to.device = 9;
    assert_eq!(net.ends[0].send_req(now, &elsewhere), Err(CmError::NoDevice(9)));
    assert_eq!((net.state(0, active), net.state(1, passive)), (State::ReqSent, State::ReqRcvd));
    assert_eq!(net.ends[0].connections(), 1);
    assert_eq!(net.log(), [(0, "REQ")]);
}

#[test]
fn the_first_packet_may_stand_for_the_rtu() {
    let mut net = Net::losing(|_, name| name == "RTU");
    let (active, passive) = net.reply();
    net.ends[0].send_rtu(net.now, active, &[]).unwrap();
    net.settle();
    net.ends[1].establish(net.now, passive).unwrap();
    assert_eq!(net.event_of(1, passive), EventKind::UserEstablished);
    assert_eq!(net.ends[1].establish(net.now, passive), Err(CmError::AlreadyEstablished));
    assert_eq!(net.ends[0].establish(net.now, active), Err(CmError::AlreadyEstablished));
    net.wait(ms(100_000));
    assert_eq!(net.log().len(), 3, "nothing is repeated any more");
}

#[test]
fn of_two_peers_that_ask_at_once_one_becomes_passive() {
    let mut net = Net::new();
    let peer = |end| ReqParams { peer_to_peer: true, ..req(end) };
    let first = net.ends[0].send_req(net.now, &peer(0)).unwrap();
    let second = net.ends[1].send_req(net.now, &peer(1)).unwrap();
    // The greater GUID is end 0's: it stays active.
    let EventKind::ReqReceived(got) = net.event_of(1, second) else { panic!() };
    assert_eq!((got.listen, got.remote_qpn), (None, 0x11));
    assert_eq!((net.state(0, first), net.state(1, second)), (State::ReqSent, State::ReqRcvd));
    net.ends[1].send_rep(net.now, second, &rep(1)).unwrap();
    assert!(matches!(net.event_of(0, first), EventKind::RepReceived(_)));
    net.ends[0].send_rtu(net.now, first, &[]).unwrap();
    assert_eq!(net.event_of(1, second), EventKind::RtuReceived);
    assert_eq!((net.state(0, first), net.state(1, second)), (State::Established, State::Established));
    net.wait(ms(100_000));
    net.quiet();
}

#[test]
fn both_ends_may_be_on_one_host() {
    let mut cm = Cm::new(5);
    cm.set_device(3, CaInfo { node_guid: 1, ack_delay: 15 });
    let here = GmpAddress { dgid: gid(0), ..address(0) };
    let now = Instant(0);
    cm.listen(SERVICE, u64::MAX).unwrap();
    let params = ReqParams { to: here, primary: Path { dgid: gid(0), ..path(0) }, ..req(0) };
    let active = cm.send_req(now, &params).unwrap();
    let mut senders = Vec::new();
    let mut carry = |cm: &mut Cm| {
        while let Some((to, mad)) = cm.poll_transmit() {
            senders.push(cm.sender(&mad));
            cm.handle_mad(now, &to, &mad);
        }
        cm.poll_event().map(|event| event.conn)
    };
    let passive = carry(&mut cm).unwrap();
    cm.send_rep(now, passive, &rep(1)).unwrap();
    assert_eq!(carry(&mut cm), Some(active));
    cm.send_rtu(now, active, &[]).unwrap();
    assert_eq!(carry(&mut cm), Some(passive));
    cm.send_dreq(now, passive, &[]).unwrap();
    assert_eq!(carry(&mut cm), Some(active));
    cm.send_drep(now, active, &[]).unwrap();
    assert_eq!(carry(&mut cm), Some(passive));
    assert_eq!((cm.state(active), cm.state(passive)), (Some(State::Timewait), Some(State::Timewait)));
    assert_eq!(senders, [active, passive, active, passive, active].map(Some), "REQ, REP, RTU, DREQ and DREP");
}
