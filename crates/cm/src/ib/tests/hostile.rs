//! Messages from strangers are dropped and counted, change no state, and use no memory.

use super::*;
use crate::ib::limits::{LISTENER_GRACE, PENDING_REQUESTS_MAX, RESPONSE_TIMEOUT_MAX, TRANSMIT_QUEUE_MAX};
use weft_wire::cm::{Drep, Dreq, Mra, Rej, Rep, Req, Rtu, ServiceId};

fn bytes(message: impl Into<CmMessage>) -> MadBytes {
    let mad = message.into().to_mad(1);
    zerocopy::transmute!(mad)
}

fn stranger(end: usize) -> GmpAddress {
    GmpAddress { dgid: Gid::from(std::net::IpAddr::from([192, 0, 2, 1])), ..address(end) }
}

#[test]
fn who_knows_the_ids_but_is_not_the_peer_does_nothing() {
    let mut net = Net::new();
    let (active, passive) = net.connect();
    let (local_comm_id, remote_comm_id) = (active.0, passive.0);
    let reason = RejectReason::CONSUMER_DEFINED;
    let messages = [
        bytes(Dreq { local_comm_id, remote_comm_id, remote_qpn: 0x21, ..Dreq::default() }),
        bytes(Rej { local_comm_id, remote_comm_id, reason, ..Rej::default() }),
        bytes(Drep { local_comm_id, remote_comm_id, ..Drep::default() }),
        bytes(Rtu { local_comm_id, remote_comm_id, ..Rtu::default() }),
        bytes(Rep { local_comm_id, remote_comm_id, ..Rep::default() }),
        bytes(Mra { local_comm_id, remote_comm_id, message_mraed: weft_wire::cm::MessageMraed::REP, ..Mra::default() }),
        bytes(Req { local_comm_id, local_ca_guid: GUIDS[0], ..Req::default() }),
    ];
    for mad in &messages {
        net.ends[1].handle_mad(net.now, &stranger(1), mad);
    }
    let spoofed = net.ends[1].stats().rx_spoofed;
    assert_eq!((net.state(1, passive), spoofed), (State::Established, messages.len() as u64));
    net.quiet();
    assert_eq!(net.log().len(), 3, "nobody was answered");
    // Nor can a stranger end an old connection by naming its queue pair.
    let req = Req {
        local_comm_id: 99,
        local_ca_guid: GUIDS[0],
        local_qpn: QPNS[0],
        service_id: ServiceId(SERVICE),
        ..Req::default()
    };
    net.ends[1].handle_mad(net.now, &stranger(1), &bytes(req));
    assert_eq!(net.state(1, passive), State::Established);
    let (to, mad) = net.ends[1].poll_transmit().unwrap();
    assert_eq!((to, parse(&mad).name()), (stranger(1), "REJ"));
    assert_eq!(net.ends[1].poll_transmit(), None);
}

#[test]
fn a_stranger_who_names_a_peers_queue_pair_does_not_shut_the_peer_out() {
    let mut net = Net::new();
    net.ends[1].listen(SERVICE, u64::MAX).unwrap();
    net.ends[0].send_req(net.now, &req(0)).unwrap();
    let (_, mad) = net.ends[0].poll_transmit().unwrap();
    let CmMessage::Req(genuine) = parse(&mad) else { panic!() };
    let mut forged = genuine.clone();
    forged.local_comm_id ^= 1;
    forged.primary.local_gid = stranger(1).dgid.0;
    net.ends[1].handle_mad(net.now, &stranger(1), &bytes(forged));
    net.ends[1].handle_mad(net.now, &address(1), &mad);
    assert!(matches!(net.event(1).kind, EventKind::ReqReceived(_)));
    assert!(matches!(net.event(1).kind, EventKind::ReqReceived(_)));
    assert_eq!(net.log(), [], "nobody was rejected");
}

#[test]
fn the_peer_must_know_the_queue_pair_to_end_a_connection() {
    let mut net = Net::new();
    let (active, passive) = net.connect();
    let dreq = Dreq { local_comm_id: active.0, remote_comm_id: passive.0, remote_qpn: 7, ..Dreq::default() };
    net.ends[1].handle_mad(net.now, &address(1), &bytes(dreq));
    assert_eq!(net.state(1, passive), State::Established);
}

#[test]
fn requests_that_make_no_sense_are_rejected_with_a_reason() {
    let mut net = Net::new();
    net.ends[1].listen(SERVICE, u64::MAX).unwrap();
    let good = || {
        let mut other = Net::new();
        other.ends[0].send_req(Instant(0), &req(0)).unwrap();
        let (_, mad) = other.ends[0].poll_transmit().unwrap();
        let CmMessage::Req(req) = parse(&mad) else { panic!() };
        req
    };
    let mut reason = |change: &dyn Fn(&mut Req)| {
        let mut req = good();
        change(&mut req);
        net.ends[1].handle_mad(net.now, &address(1), &bytes(req));
        net.ends[1].handle_timeout(net.now + LISTENER_GRACE);
        net.ends[1].poll_transmit().map(|(_, mad)| match parse(&mad) {
            CmMessage::Rej(rej) => rej.reason,
            other => panic!("{other:?}"),
        })
    };
    use weft_wire::cm::TransportService;
    assert_eq!(reason(&|req| req.transport_service = TransportService::RD), Some(RejectReason::INVALID_TRANSPORT_TYPE));
    assert_eq!(
        reason(&|req| req.transport_service = TransportService::EXTENDED),
        Some(RejectReason::INVALID_TRANSPORT_TYPE)
    );
    assert_eq!(reason(&|req| req.path_mtu = 0), Some(RejectReason::INVALID_MTU));
    assert_eq!(reason(&|req| req.path_mtu = 6), Some(RejectReason::INVALID_MTU));
    assert_eq!(reason(&|req| req.primary.local_gid[15] ^= 1), Some(RejectReason::INVALID_GID));
    assert_eq!(reason(&|req| req.primary.remote_gid[15] ^= 1), Some(RejectReason::INVALID_GID));
    assert_eq!(reason(&|req| req.service_id = ServiceId(1)), Some(RejectReason::INVALID_SERVICE_ID));
    assert_eq!(reason(&|_| ()), None);
    assert_eq!(net.ends[1].connections(), 1);
}

#[test]
fn a_flood_of_requests_stops_growing() {
    let mut net = Net::new();
    net.ends[1].listen(SERVICE, u64::MAX).unwrap();
    net.ends[0].send_req(net.now, &req(0)).unwrap();
    let (_, mad) = net.ends[0].poll_transmit().unwrap();
    let CmMessage::Req(mut req) = parse(&mad) else { panic!() };
    let extra = 1000;
    for number in 0..PENDING_REQUESTS_MAX as u32 + extra {
        req.local_comm_id = number + 1;
        req.local_qpn = number & 0xff_ffff;
        net.ends[1].handle_mad(net.now, &address(1), &bytes(req.clone()));
        while net.ends[1].poll_event().is_some() {}
    }
    assert_eq!(net.ends[1].connections(), PENDING_REQUESTS_MAX);
    assert_eq!(net.ends[1].stats().rx_no_room, u64::from(extra));
    let mut answers = 0;
    while let Some((_, mad)) = net.ends[1].poll_transmit() {
        let CmMessage::Rej(rej) = parse(&mad) else { panic!() };
        assert_eq!(rej.reason, RejectReason::NO_RESOURCES);
        answers += 1;
    }
    assert_eq!(answers, extra);
}

#[test]
fn answers_that_nobody_fetches_do_not_pile_up() {
    let mut net = Net::new();
    for number in 0..TRANSMIT_QUEUE_MAX as u32 + 10 {
        let dreq = Dreq { local_comm_id: number, remote_comm_id: number, ..Dreq::default() };
        net.ends[1].handle_mad(net.now, &address(1), &bytes(dreq));
    }
    assert_eq!(net.ends[1].tables.transmit.len(), TRANSMIT_QUEUE_MAX);
    assert_eq!(net.ends[1].stats().tx_dropped, 10);
}

#[test]
fn a_peer_that_repeats_itself_does_not_make_answers_pile_up() {
    let mut net = Net::new();
    net.ends[1].listen(SERVICE, u64::MAX).unwrap();
    net.ends[0].send_req(net.now, &req(0)).unwrap();
    let (_, mad) = net.ends[0].poll_transmit().unwrap();
    net.ends[1].handle_mad(net.now, &address(1), &mad);
    let passive = net.ends[1].poll_event().unwrap().conn;
    net.ends[1].send_rep(net.now, passive, &rep(1)).unwrap();
    for _ in 0..TRANSMIT_QUEUE_MAX + 10 {
        net.ends[1].handle_mad(net.now, &address(1), &mad);
    }
    assert_eq!(net.ends[1].tables.transmit.len(), TRANSMIT_QUEUE_MAX);
    assert_eq!(net.ends[1].stats().tx_dropped, 11);
}

#[test]
fn any_bytes_are_survived() {
    let mut net = Net::new();
    let (active, passive) = net.connect();
    let pending = net.ends[0].send_req(net.now, &ReqParams { qpn: 5, ..req(0) }).unwrap();
    net.settle();
    let ids = [active.0, passive.0, pending.0];
    let mut seed = 1_u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u32
    };
    for round in 0..20_000_u32 {
        let mut mad = [0_u8; 256];
        mad.iter_mut().for_each(|byte| *byte = next() as u8);
        if !round.is_multiple_of(16) {
            // A CM message about an existing connection.
            mad[..4].copy_from_slice(&[1, 7, 2, 3]);
            mad[16..18].copy_from_slice(&[0, 0x10 + (next() % 12) as u8]);
            mad[24..28].copy_from_slice(&ids[next() as usize % 3].to_be_bytes());
            mad[28..32].copy_from_slice(&ids[next() as usize % 3].to_be_bytes());
        }
        let end = (round & 1) as usize;
        net.ends[end].handle_mad(net.now, &address(end), &mad);
        net.now = net.now + ms(u64::from(next() % 100));
        net.ends[end].handle_timeout(net.now);
        while net.ends[end].poll_transmit().is_some() {}
        while net.ends[end].poll_event().is_some() {}
    }
    assert!(net.ends[0].stats().rx_malformed > 0);
}

#[test]
fn a_peer_cannot_make_us_wait_for_days() {
    let mut net = Net::losing(|_, name| name != "REQ");
    net.ends[1].listen(SERVICE, u64::MAX).unwrap();
    net.ends[0].send_req(net.now, &ReqParams { local_cm_response_timeout: 31, ..req(0) }).unwrap();
    let passive = net.event(1).conn;
    net.ends[1].send_rep(net.now, passive, &rep(1)).unwrap();
    net.wait(ms(16 << (RESPONSE_TIMEOUT_MAX - 8)));
    let ends: Vec<_> = net.events[1].drain(..).map(|event| event.kind).collect();
    assert!(matches!(ends[..], [EventKind::RepError]), "{ends:?}");
}
