//! Peers that return without state, late messages, and strangers who use a peer's name.

use super::*;

/// An adapter that returns with the same queue pair number has lost the old connection: its request is rejected as
/// stale, the old connection ends, and then a new one succeeds (IBA 12.9.8.3).
#[test]
fn a_peer_that_comes_back_ends_its_old_connection() {
    let mut lab = lab();
    let (_, b) = lab.connect(0x11, 0x21);
    lab.restart(A);
    let again = lab.ask(A, 0x11);
    assert_eq!(lab.count(A, again, |k| is_rej(k, RejectReason::STALE_CONN)), 1, "{:?}", lab.told);
    // The passive side sent a DREQ for the old connection, and the peer agreed although it knew nothing of it.
    assert_eq!(lab.count(B, b, |k| matches!(k, EventKind::DrepReceived)), 1, "{:?}", lab.told);
    assert_eq!(lab.cm(B).state(b), Some(State::Timewait));
    let (now, old) = (lab.now(), again);
    lab.cm(A).destroy(now, old);
    lab.connect(0x11, 0x22);
}

/// No stranger can end it that way, even one that knows the adapter's GUID and the queue pair's number.
#[test]
fn a_stranger_with_the_peers_names_ends_nothing() {
    let mut lab = lab();
    let (a, b) = lab.connect(0x11, 0x21);
    let mad = lab.heard(AttrId::CM_REQ);
    let mut forged = Req::parse(&mad.data);
    forged.local_comm_id ^= 0x5555;
    lab.arrive(B, stranger(), &CmMessage::from(forged).to_mad(9));
    lab.arrive(B, stranger(), &mad);
    lab.soon();
    lab.both_stand(a, b);
    assert_eq!(lab.told.iter().filter(|t| matches!(t.2, EventKind::ReqReceived(_))).count(), 1);
}

#[test]
fn a_peer_without_memory_agrees_that_a_connection_ends() {
    let mut lab = lab();
    let (a, _) = lab.connect(0x11, 0x21);
    lab.restart(B);
    let now = lab.now();
    lab.cm(A).send_dreq(now, a, &[]).unwrap();
    lab.soon();
    assert_eq!(lab.cm(A).state(a), Some(State::Timewait));
    assert_eq!(lab.count(A, a, |k| matches!(k, EventKind::DrepReceived)), 1);
    lab.pass(Duration::from_secs(10));
    assert_eq!(lab.count(A, a, |k| matches!(k, EventKind::TimewaitExit)), 1);
}

#[test]
fn a_peer_that_lost_its_memory_over_the_answer_is_told() {
    let mut lab = lab();
    lab.ask(A, 0x11);
    let b = lab.asked(B);
    lab.restart(A);
    let now = lab.now();
    lab.cm(B).send_rep(now, b, &rep(0x21)).unwrap();
    lab.pass(Duration::from_secs(60));
    let told = |k: &EventKind| matches!(k, EventKind::RepError | EventKind::RejReceived(_));
    assert_eq!(lab.count(B, b, told), 1, "{:?}", lab.told);
}

/// Messages that name an established connection by its true ids, but come from elsewhere, or lack other facts.
#[test]
fn forged_messages_change_nothing() {
    let mut lab = lab();
    let (a, b) = lab.connect(0x11, 0x21);
    let peer = lab.world.hosts[A].ip;
    let (local, remote) = (a.0, b.0);
    let dreq = Dreq { local_comm_id: local, remote_comm_id: remote, remote_qpn: 0x21, ..Dreq::default() };
    let rej = Rej { local_comm_id: local, remote_comm_id: remote, reason: RejectReason::TIMEOUT, ..Rej::default() };
    let guid = PrivateData::new(&node_guid(A).to_be_bytes()).unwrap();
    let by_guid = Rej { ari: guid, reject_info_len: 8, ..rej.clone() };
    let strangers: [CmMessage; 5] = [
        dreq.clone().into(),
        rej.clone().into(),
        by_guid.into(),
        Drep { local_comm_id: local, remote_comm_id: remote, ..Drep::default() }.into(),
        Lap { local_comm_id: local, remote_comm_id: remote, remote_qpn: 0x21, ..Lap::default() }.into(),
    ];
    let before = lab.told.len();
    for message in &strangers {
        lab.arrive(B, stranger(), &message.to_mad(1));
    }
    // From the peer's address, but without the right queue pair number, local id or remote id.
    let blind: [CmMessage; 5] = [
        Dreq { remote_qpn: 0x22, ..dreq.clone() }.into(),
        Dreq { local_comm_id: local ^ 1, ..dreq.clone() }.into(),
        Dreq { remote_comm_id: remote ^ 1, ..dreq }.into(),
        Rej { local_comm_id: local ^ 1, ..rej.clone() }.into(),
        Rej { remote_comm_id: remote ^ 1, ..rej }.into(),
    ];
    for message in &blind {
        lab.arrive(B, peer, &message.to_mad(1));
    }
    lab.soon();
    lab.both_stand(a, b);
    assert_eq!(lab.told.len(), before, "{:?}", &lab.told[before..]);
    assert_eq!(lab.cm(B).stats().rx_spoofed, strangers.len() as u64);
}

/// A REQ delayed until after its connection ended creates no new one.
#[test]
fn a_late_request_is_stale() {
    let mut lab = lab();
    let (a, b) = lab.connect(0x11, 0x21);
    let (late, peer) = (lab.heard(AttrId::CM_REQ), lab.world.hosts[A].ip);
    let now = lab.now();
    lab.cm(A).send_dreq(now, a, &[]).unwrap();
    lab.soon();
    let now = lab.now();
    lab.cm(B).send_drep(now, b, &[]).unwrap();
    lab.soon();
    assert_eq!(lab.cm(B).state(b), Some(State::Timewait));
    lab.arrive(B, peer, &late);
    lab.soon();
    assert_eq!(Rej::parse(&lab.heard(AttrId::CM_REJ).data).reason, RejectReason::STALE_CONN);
    assert_eq!(lab.told.iter().filter(|t| matches!(t.2, EventKind::ReqReceived(_))).count(), 1);
    // The sender of the REQ, which has ended the connection too, gets no event.
    assert_eq!(lab.count(A, a, |k| matches!(k, EventKind::RejReceived(_))), 0);
}
