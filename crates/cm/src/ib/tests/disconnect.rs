//! Connections end, in every way there is.

use super::*;

#[test]
fn one_side_ends_it_and_both_wait() {
    let mut net = Net::new();
    let (active, passive) = net.connect();
    net.ends[0].send_dreq(net.now, active, b"bye").unwrap();
    let event = net.event(1);
    assert_eq!((event.conn, &event.kind, &event.private_data[..3]), (passive, &EventKind::DreqReceived, &b"bye"[..]));
    net.ends[1].send_drep(net.now, passive, b"bye bye").unwrap();
    let event = net.event(0);
    assert_eq!((event.kind, &event.private_data[..7]), (EventKind::DrepReceived, &b"bye bye"[..]));
    assert_eq!((net.state(0, active), net.state(1, passive)), (State::Timewait, State::Timewait));
    // Twice the life time of a packet, rounded as in the ACK timeout: 2^(19-8) ms.
    net.wait(ms(2047));
    net.quiet();
    net.wait(ms(1));
    assert_eq!(net.event_of(0, active), EventKind::TimewaitExit);
    assert_eq!(net.event_of(1, passive), EventKind::TimewaitExit);
    net.ends[0].destroy(net.now, active);
    net.ends[1].destroy(net.now, passive);
    net.assert_empty();
}

#[test]
fn ends_that_cross_are_both_answered() {
    let mut net = Net::new();
    let (active, passive) = net.connect();
    net.ends[0].send_dreq(net.now, active, &[]).unwrap();
    net.ends[1].send_dreq(net.now, passive, &[]).unwrap();
    assert_eq!(net.event_of(0, active), EventKind::DreqReceived);
    assert_eq!(net.event_of(1, passive), EventKind::DreqReceived);
    net.ends[0].send_drep(net.now, active, &[]).unwrap();
    assert_eq!(net.event_of(1, passive), EventKind::DrepReceived);
    assert_eq!((net.state(0, active), net.state(1, passive)), (State::Timewait, State::Timewait));
    net.wait(ms(30_000));
    assert_eq!(net.ends[0].stats().tx_retries, [0; 11]);
}

/// Destroys one end in a state. Returns the messages sent and the other end's event, and checks that neither end keeps
/// anything.
fn destroyed(reach: impl FnOnce(&mut Net) -> (ConnId, ConnId), end: usize) -> (Vec<&'static str>, EventKind) {
    let mut net = Net::new();
    let (active, passive) = reach(&mut net);
    let [own, other] = if end == 0 { [active, passive] } else { [passive, active] };
    net.log();
    net.ends[end].destroy(net.now, own);
    assert_eq!(net.ends[end].state(own), None);
    let told = net.event_of(1 - end, other);
    let log = net.log().into_iter().map(|(_, name)| name).collect();
    net.ends[1 - end].destroy(net.now, other);
    net.wait(ms(100_000));
    net.quiet();
    net.assert_empty();
    (log, told)
}

fn rejected(reason: RejectReason, ari: &[u8]) -> EventKind {
    EventKind::RejReceived(RejReceived { reason, ari: ari.to_vec() })
}

#[test]
fn destroying_tells_the_peer_in_every_state() {
    let consumer = rejected(RejectReason::CONSUMER_DEFINED, &[]);
    // The requester does not know the id of its peer: it names itself by its CA's GUID.
    let timeout = rejected(RejectReason::TIMEOUT, &GUIDS[0].to_be_bytes());
    assert_eq!(destroyed(Net::request, 0), (vec!["REJ"], timeout));
    assert_eq!(destroyed(Net::request, 1), (vec!["REJ"], consumer.clone()));
    assert_eq!(destroyed(Net::reply, 0), (vec!["REJ"], consumer.clone()));
    assert_eq!(destroyed(Net::reply, 1), (vec!["REJ"], consumer.clone()));
    assert_eq!(destroyed(Net::connect, 0), (vec!["DREQ"], EventKind::DreqReceived));
    assert_eq!(destroyed(Net::connect, 1), (vec!["DREQ"], EventKind::DreqReceived));
    let asked = |net: &mut Net| {
        let (active, passive) = net.connect();
        net.ends[0].send_dreq(net.now, active, &[]).unwrap();
        assert_eq!(net.event_of(1, passive), EventKind::DreqReceived);
        (active, passive)
    };
    assert_eq!(destroyed(asked, 1), (vec!["DREP"], EventKind::DrepReceived));
}

#[test]
fn a_goodbye_without_an_owner_is_repeated() {
    let mut seen = 0;
    let mut net = Net::losing(move |_, name| {
        seen += usize::from(name == "DREQ");
        name == "DREQ" && seen <= 2
    });
    let (active, passive) = net.connect();
    net.ends[0].destroy(net.now, active);
    assert_eq!(net.ends[0].state(active), None);
    assert!(net.ends[0].send_dreq(net.now, active, &[]).is_err());
    net.quiet();
    net.wait(ms(10_000));
    assert_eq!(net.event_of(1, passive), EventKind::DreqReceived);
    net.ends[1].send_drep(net.now, passive, &[]).unwrap();
    net.wait(ms(10_000));
    assert_eq!(net.event_of(1, passive), EventKind::TimewaitExit);
    net.ends[1].destroy(net.now, passive);
    net.assert_empty();
}

#[test]
fn a_goodbye_that_nobody_hears_ends() {
    let mut net = Net::losing(|_, name| name == "DREQ");
    let (active, _) = net.connect();
    net.ends[0].destroy(net.now, active);
    net.wait(ms(5 * REQ_TRY_MS));
    assert_eq!(net.ends[0].connections(), 0);
    assert_eq!(net.ends[0].poll_timeout(), None);
}

#[test]
fn a_peer_that_forgot_everything_agrees_to_the_end() {
    let mut net = Net::new();
    let (active, _) = net.connect();
    let fresh = Net::new();
    let [_, one] = fresh.ends;
    net.ends[1] = one;
    net.ends[0].send_dreq(net.now, active, &[]).unwrap();
    assert_eq!(net.event_of(0, active), EventKind::DrepReceived);
}

#[test]
fn a_peer_that_was_born_again_ends_its_old_connection() {
    let mut net = Net::new();
    let (_, old) = net.connect();
    // The host of end 0 restarts: other ids, but the same CA and by chance the same queue pair.
    net.ends[0] = Cm::new(77);
    net.ends[0].set_device(3, CaInfo { node_guid: GUIDS[0], ack_delay: 15 });
    let again = net.ends[0].send_req(net.now, &req(0)).unwrap();
    assert_eq!(net.event_of(0, again), rejected(RejectReason::STALE_CONN, &[]));
    // The old connection was ended in the process, and the restarted host does not know it.
    assert_eq!(net.event_of(1, old), EventKind::DrepReceived);
    assert_eq!(net.log()[3..], [(0, "REQ"), (1, "DREQ"), (0, "DREP"), (1, "REJ")]);
    // The next try succeeds.
    let again = net.ends[0].send_req(net.now, &req(0)).unwrap();
    assert!(matches!(net.event(1).kind, EventKind::ReqReceived(_)));
    assert_eq!(net.state(0, again), State::ReqSent);
}

#[test]
fn an_answer_from_a_queue_pair_that_is_connected_is_stale() {
    let mut net = Net::new();
    let (old, old_passive) = net.connect();
    let again = net.ends[0].send_req(net.now, &ReqParams { qpn: 0x12, ..req(0) }).unwrap();
    let passive = net.event(1).conn;
    net.ends[1].send_rep(net.now, passive, &rep(1)).unwrap();
    assert_eq!(net.event_of(1, passive), rejected(RejectReason::STALE_CONN, &[]));
    assert_eq!(net.event_of(1, old_passive), EventKind::DreqReceived);
    assert_eq!((net.state(0, old), net.state(0, again)), (State::DreqSent, State::ReqSent));
    // The repeated request gets the same "stale" reject.
    net.wait(ms(REQ_TRY_MS));
    assert_eq!(net.event_of(0, again), rejected(RejectReason::STALE_CONN, &[]));
}

#[test]
fn a_queue_pair_whose_peer_said_goodbye_may_connect_anew() {
    let mut net = Net::new();
    let (active, passive) = net.connect();
    net.ends[0].destroy(net.now, active);
    assert_eq!(net.event_of(1, passive), EventKind::DreqReceived);
    // The program on the other side is slow, and meanwhile the same queue pair requests again.
    let again = net.ends[0].send_req(net.now, &req(0)).unwrap();
    assert!(matches!(net.event(1).kind, EventKind::ReqReceived(_)));
    assert_eq!((net.state(0, again), net.state(1, passive)), (State::ReqSent, State::DreqRcvd));
}
