use super::*;
use crate::finding::Cause;
use crate::names::errno;
use crate::recording::Life;
use crate::story::stories;
use crate::testing::*;
use weft_record::{Attributes, Event, Fate, LinkTrouble, PacketInfo, PathKind, Reachability, Record};

/// The causes of the failure of [`OWN`], which is in the first recording.
fn causes(recordings: &[Recording]) -> Vec<(Cause, Certainty)> {
    let all = stories(recordings);
    let qp = all.iter().find(|story| story.id.qpn == OWN).unwrap();
    let findings = diagnose(qp, &all, recordings).unwrap();
    for finding in &findings {
        assert!(!finding.evidence.is_empty() && !finding.advice.is_empty(), "{finding:?}");
    }
    findings.iter().map(|finding| (finding.cause, finding.certainty)).collect()
}

fn alone(events: &[(u64, Event)]) -> Vec<(Cause, Certainty)> {
    causes(&[recording(1, &own(events))])
}

fn with_peer(events: &[(u64, Event)], peer: &[Record]) -> Vec<(Cause, Certainty)> {
    causes(&[recording(1, &own(events)), recording(2, peer)])
}

const CERTAIN: Certainty = Certainty::Certain;
const LIKELY: Certainty = Certainty::Likely;

#[test]
fn one_side_alone_leaves_several_causes() {
    let found = alone(&unanswered(5));
    let possible = [Cause::Firewall, Cause::WrongGid, Cause::WrongQpn, Cause::PeerGone];
    assert_eq!(found, possible.map(|cause| (cause, Certainty::Possible)));
    let mut heard = vec![(2 * MS, Event::Sent(packet(4))), (3 * MS, Event::Received(answer(4, 0x1f), Fate::Delivered))];
    heard.extend(unanswered(5));
    assert_eq!(alone(&heard)[0], (Cause::PeerGone, Certainty::Possible), "it answered once");
}

#[test]
fn a_wrong_number_shows_at_the_queue_pair_that_waits() {
    let waiting = connected(0x4012, Attributes { dest_qpn: OWN, ..attributes() }, THERE, HERE);
    assert_eq!(with_peer(&unanswered(5), &waiting), [(Cause::WrongQpn, CERTAIN)]);
    let mut dropping = waiting.clone();
    dropping.extend(arrivals(5, Fate::UnknownQpn).into_iter().map(|(at, event)| Record { at, qpn: OTHER, event }));
    assert_eq!(with_peer(&unanswered(5), &dropping), [(Cause::WrongQpn, CERTAIN)]);
    let elsewhere = connected(OTHER, Attributes { dest_qpn: 0x99, ..attributes() }, THERE, HERE);
    assert_eq!(with_peer(&unanswered(5), &elsewhere)[0], (Cause::WrongQpn, CERTAIN));
}

#[test]
fn a_wrong_address_shows_at_the_peer_or_at_the_kernel() {
    let mut third = THERE;
    third.0[15] = 3;
    let waiting = connected(OTHER, Attributes { dest_qpn: OWN, ..attributes() }, third, HERE);
    assert_eq!(with_peer(&unanswered(5), &waiting), [(Cause::WrongGid, CERTAIN)]);
    let seen = Reachability { route_errno: 0, source_is_local: true, peer_is_local: false, has_neighbour: false };
    let mut events = unanswered(5);
    events.push((551 * MS, Event::Reachability(seen)));
    assert_eq!(alone(&events)[0], (Cause::WrongGid, LIKELY));
    let answered = Reachability { has_neighbour: true, ..seen };
    events.pop();
    events.push((551 * MS, Event::Reachability(answered)));
    assert_eq!(alone(&events)[0].0, Cause::Firewall, "the host is there");
}

#[test]
fn partitions_are_compared() {
    let with = |pkey| connected(OTHER, Attributes { dest_qpn: OWN, pkey, ..attributes() }, THERE, HERE);
    assert_eq!(with_peer(&unanswered(5), &with(0x8001))[0], (Cause::Pkey, CERTAIN));
    assert_ne!(with_peer(&unanswered(5), &with(0x7fff))[0].0, Cause::Pkey, "a limited member talks to a full one");
    let mut dropping = other(&[]);
    dropping.extend(arrivals(5, Fate::BadPkey).into_iter().map(|(at, event)| Record { at, qpn: OTHER, event }));
    assert_eq!(with_peer(&unanswered(5), &dropping)[0], (Cause::Pkey, CERTAIN));
    let own_drop = |packet| {
        let mut events = unanswered(5);
        events.push((100 * MS, Event::Received(packet, Fate::BadPkey)));
        alone(&events)[0]
    };
    assert_eq!(own_drop(answer(5, 0x1f)), (Cause::Pkey, CERTAIN));
    assert_ne!(own_drop(packet(77)).0, Cause::Pkey, "a stray packet");
}

#[test]
fn the_kernels_error_numbers_name_causes() {
    const REFUSED: u8 = weft_record::counters::REFUSED;
    const SOCKET: u8 = weft_record::counters::SOCKET_ERRORS;
    let with = |at, counter, amount, errno| {
        let mut events =
            vec![(2 * MS, Event::Sent(packet(4))), (3 * MS, Event::Received(answer(4, 0x1f), Fate::Delivered))];
        events.extend(unanswered(5));
        events.push((at, Event::Link(LinkTrouble { counter, amount, errno })));
        alone(&events)
    };
    for (number, cause) in
        [(errno::EPERM, Cause::Firewall), (errno::EMSGSIZE, Cause::Mtu), (errno::ENETDOWN, Cause::Cable)]
    {
        assert_eq!(with(20 * MS, REFUSED, 8, number)[0], (cause, CERTAIN), "every attempt: {number}");
        assert_eq!(with(20 * MS, REFUSED, 3, number)[0], (cause, LIKELY), "some attempts: {number}");
        assert_ne!(with(2 * MS, REFUSED, 8, number)[0].1, CERTAIN, "before an answer: {number}");
        assert_ne!(with(20 * MS, SOCKET, 8, number)[0].1, CERTAIN, "the packets left: {number}");
    }
    assert_eq!(with(20 * MS, SOCKET, 1, errno::ECONNREFUSED)[0], (Cause::PeerGone, LIKELY));
    let mut events = unanswered(5);
    events.push((20 * MS, Event::Link(LinkTrouble { counter: SOCKET, amount: 3, errno: errno::EHOSTUNREACH })));
    assert_eq!(alone(&events)[0], (Cause::WrongGid, LIKELY));
}

#[test]
fn clocks_of_two_hosts_prove_no_order() {
    let own = recording(1, &own(&unanswered(5)));
    let mut peer = recording(2, &other(&[(5 * MS, Event::Destroyed)]));
    assert_eq!(causes(&[own.clone(), peer.clone()])[0], (Cause::PeerGone, CERTAIN));
    peer.boot = 8;
    assert_eq!(causes(&[own.clone(), peer.clone()])[0], (Cause::PeerGone, LIKELY));
    peer.started_realtime = 3_600_000_000_000;
    assert_ne!(causes(&[own, peer])[0].0, Cause::PeerGone, "an hour later, by its clock");
}

#[test]
fn a_number_that_was_right_once_is_a_peer_that_went() {
    let mut peer = other(&[(5 * MS, Event::Destroyed)]);
    peer.extend(arrivals(5, Fate::UnknownQpn).into_iter().map(|(at, event)| Record { at, qpn: OTHER, event }));
    assert_eq!(with_peer(&unanswered(5), &peer), [(Cause::PeerGone, CERTAIN)]);
}

#[test]
fn attributes_of_the_failure_count() {
    let mut events = unanswered(5);
    events.push((600 * MS, Event::Attributes(Attributes { dest_qpn: 0x99, pkey: 0x8001, ..attributes() })));
    assert_eq!(with_peer(&events, &other(&[])), [(Cause::Firewall, LIKELY)], "they changed later");
}

#[test]
fn absence_is_proven_by_records_that_reach_back() {
    let own = recording(1, &own(&unanswered(5)));
    let mut peer = recording(2, &other(&[]));
    assert_eq!(causes(&[own.clone(), peer.clone()]), [(Cause::Firewall, LIKELY)]);
    peer.reaches_back_to[2] = Some(300 * MS);
    let all = [own, peer];
    assert_eq!(causes(&all)[0].1, Certainty::Possible);
    let stories = stories(&all);
    let findings = diagnose(&stories[0], &stories, &all).unwrap();
    let says = |text: &str| findings.iter().any(|finding| finding.evidence.iter().any(|line| line.contains(text)));
    assert!(!says("received it never") && !says("no longer reaches back to the request"), "{findings:?}");
    let [own, mut peer] = all;
    peer.reaches_back_to[2] = Some(u64::MAX);
    let all = [own, peer];
    let findings = diagnose(&stories[0], &stories, &all).unwrap();
    assert!(
        findings[0].evidence.iter().any(|line| line.contains("no longer reaches back to the request")),
        "{findings:?}"
    );
}

#[test]
fn an_address_that_went_is_missed() {
    let mut events = unanswered(5);
    let seen = Reachability { route_errno: 0, source_is_local: false, peer_is_local: false, has_neighbour: true };
    events.push((551 * MS, Event::Reachability(seen)));
    assert_eq!(alone(&events)[0], (Cause::AddressGone, CERTAIN));
    events.pop();
    events.push((5551 * MS, Event::Reachability(seen)));
    assert_eq!(alone(&events)[0], (Cause::AddressGone, LIKELY), "the program polled long after the failure");
    let change = |device| {
        let mut peer = other(&[]);
        peer.push(Record { at: 30 * MS, qpn: 0, event: Event::Async { event: 18, port: 1, device } });
        with_peer(&unanswered(5), &peer)[0]
    };
    assert_eq!(change(3), (Cause::AddressGone, LIKELY));
    assert_ne!(change(4).0, Cause::AddressGone, "of another device");
}

#[test]
fn a_port_that_went_down_is_a_cable() {
    let down = Record { at: 30 * MS, qpn: 0, event: Event::Async { event: 10, port: 1, device: 3 } };
    let up = Record { at: 40 * MS, qpn: 0, event: Event::Async { event: 9, port: 1, device: 3 } };
    for other_port in [Event::Async { event: 10, port: 2, device: 3 }, Event::Async { event: 10, port: 1, device: 4 }] {
        let mut records = own(&unanswered(5));
        records.push(Record { event: other_port, ..down });
        assert_ne!(causes(&[recording(1, &records)])[0].0, Cause::Cable, "{other_port:?}");
    }
    let mut records = own(&unanswered(5));
    records.push(down);
    records.sort_by_key(|record| record.at);
    assert_eq!(causes(&[recording(1, &records)]), [(Cause::Cable, CERTAIN)]);
    records.push(up);
    records.sort_by_key(|record| record.at);
    assert_ne!(causes(&[recording(1, &records)])[0], (Cause::Cable, CERTAIN), "it came back");
    let mut closed = unanswered(5);
    closed.push((5 * MS, Event::FabricPath { open: true }));
    closed.push((9 * MS, Event::FabricPath { open: false }));
    closed.sort_by_key(|(at, _)| *at);
    assert_eq!(alone(&closed), [(Cause::Cable, CERTAIN)]);
    let mut lost = own(&unanswered(5));
    lost.push(Record { at: 5 * MS, qpn: OWN, event: Event::FabricPath { open: true } });
    lost.push(Record { at: 9 * MS, qpn: 0, event: Event::FabricLost });
    assert_ne!(causes(&[recording(1, &lost)])[0].0, Cause::Cable, "the daemon ended");
}

#[test]
fn a_fabric_path_that_never_opened_may_be_a_partition() {
    let limited = |pkey| {
        let mut records = connected(OWN, Attributes { pkey, ..attributes() }, HERE, THERE);
        records.push(Record { at: 2, qpn: OWN, event: Event::FabricPath { open: false } });
        records.extend([completion(550 * MS, 12)].map(|(at, event)| Record { at, qpn: OWN, event }));
        causes(&[recording(1, &records)])
    };
    assert_eq!(limited(0x0001)[..2], [Cause::Pkey, Cause::Cable].map(|cause| (cause, Certainty::Possible)));
    assert_eq!(limited(0x8001)[0], (Cause::Cable, Certainty::Possible));
}

#[test]
fn a_peer_that_ended_is_told_from_one_that_hears_nothing() {
    let heard = |at, psn| (at, Event::Received(arrived(psn), Fate::Delivered));
    let mut dead = recording(2, &other(&[heard(2 * MS, 4)]));
    (dead.ended, dead.life) = (None, Life::Ended);
    let own_side = recording(1, &own(&unanswered(5)));
    assert_eq!(causes(&[own_side.clone(), dead.clone()]), [(Cause::PeerGone, LIKELY)], "killed, at some time");
    let killed = |at| Recording { killed: Some(crate::Killed { at, signal: 9 }), ..dead.clone() };
    assert_eq!(causes(&[own_side.clone(), killed(5 * MS)]), [(Cause::PeerGone, CERTAIN)], "killed before");
    assert_eq!(causes(&[own_side.clone(), killed(900 * MS)]), [(Cause::Firewall, LIKELY)], "killed later");
    let running = Recording { life: Life::Running, ..dead.clone() };
    assert_eq!(causes(&[own_side.clone(), running]), [(Cause::Firewall, LIKELY)], "it runs, and hears nothing");
    let unknown = Recording { life: Life::Unknown, ..dead.clone() };
    assert_eq!(causes(&[own_side.clone(), unknown])[0].1, Certainty::Possible, "it may have ended");
    let untold = Recording { records_end: false, ..dead.clone() };
    assert_eq!(causes(&[own_side.clone(), untold])[0].1, Certainty::Possible, "a regular end is not recorded");
    let exited = Recording { ended: Some(5 * MS), ..dead };
    assert_eq!(causes(&[own_side, exited])[0], (Cause::PeerGone, CERTAIN), "exited");
    assert_eq!(with_peer(&unanswered(5), &other(&[(5 * MS, Event::Destroyed)]))[0], (Cause::PeerGone, CERTAIN));
}

#[test]
fn slots_are_those_of_one_host() {
    let gone = |at, path| {
        let mut records = own(&[completion(550 * MS, 12)]);
        for record in &mut records {
            if let Event::State { path: of, .. } = &mut record.event {
                *of = path;
            }
        }
        records.insert(0, Record { at, qpn: 0, event: Event::PeerGone { slot: OTHER >> 14, generation: 4 } });
        causes(&[recording(1, &records)])[0]
    };
    assert_eq!(gone(5 * MS, PathKind::SameHost), (Cause::PeerGone, CERTAIN));
    assert_ne!(gone(0, PathKind::SameHost), (Cause::PeerGone, CERTAIN), "the slot's process before the peer");
    assert_ne!(gone(5 * MS, PathKind::Wire), (Cause::PeerGone, CERTAIN), "a slot of this host, not of the peer's");
}

#[test]
fn answers_that_are_filtered_are_told_from_requests_that_are() {
    let mut events = arrivals(5, Fate::Delivered);
    events.push((12 * MS, Event::Sent(PacketInfo { peer: HERE, ..answer(5, 0x1f) })));
    assert_eq!(with_peer(&unanswered(5), &other(&events)), [(Cause::Firewall, LIKELY)]);
}

#[test]
fn late_answers_are_a_short_timeout() {
    let mut events = unanswered(5);
    events.push((600 * MS, Event::Received(answer(5, 0x1f), Fate::Delivered)));
    assert_eq!(alone(&events)[0], (Cause::ShortTimeout, CERTAIN));
    events.pop();
    events.push((600 * MS, Event::Received(answer(4, 0x1f), Fate::Delivered)));
    assert_ne!(alone(&events)[0], (Cause::ShortTimeout, CERTAIN), "the answer to an earlier request");
    let late = [(700 * MS, Event::Received(arrived(5), Fate::Delivered))];
    assert_eq!(with_peer(&unanswered(5), &other(&late))[0], (Cause::ShortTimeout, CERTAIN));
    let mut slow =
        vec![(2 * MS, Event::Sent(packet(4))), (702 * MS, Event::Received(answer(4, 0x1f), Fate::Delivered))];
    slow.extend(unanswered(5).into_iter().map(|(at, event)| (at + 710 * MS, event)));
    let slow: Vec<_> = slow
        .into_iter()
        .map(|(at, event)| {
            if let Event::Completed(wc) = event {
                (at, Event::Completed(weft_record::CompletionInfo { made_at: at, ..wc }))
            } else {
                (at, event)
            }
        })
        .collect();
    assert_eq!(alone(&slow)[0], (Cause::ShortTimeout, LIKELY));
}

#[test]
fn long_packets_that_vanish_are_an_mtu() {
    let small = PacketInfo { bytes: 64, ..packet(4) };
    let answered = (3 * MS, Event::Received(answer(4, 0x1f), Fate::Delivered));
    let lose = |bytes| {
        let mut events = vec![(2 * MS, Event::Sent(small)), answered];
        events.extend((1..8).map(|nth| (nth * 50 * MS, Event::Sent(PacketInfo { bytes, ..packet(5) }))));
        events.push(completion(550 * MS, 12));
        events
    };
    assert_eq!(alone(&lose(4096))[0], (Cause::Mtu, Certainty::Possible));
    let there = other(&[(3 * MS, Event::Received(PacketInfo { bytes: 64, ..arrived(4) }, Fate::Delivered))]);
    assert_eq!(with_peer(&lose(4096), &there)[0], (Cause::Mtu, LIKELY));
    assert_eq!(with_peer(&lose(1024), &there), [(Cause::Firewall, LIKELY)], "every link carries that");
    let mut refused = vec![(2 * MS, Event::Sent(packet(5)))];
    refused.push((3 * MS, Event::Received(answer(5, 0x61), Fate::Delivered)));
    refused.push(completion(4 * MS, 9));
    assert_eq!(alone(&refused)[0], (Cause::Mtu, LIKELY), "a whole MTU was refused");
    let with = connected(OTHER, Attributes { dest_qpn: OWN, mtu: 512, ..attributes() }, THERE, HERE);
    assert_eq!(with_peer(&refused, &with)[0], (Cause::Mtu, CERTAIN));
}

#[test]
fn statuses_that_name_their_cause_do() {
    for (status, cause) in [
        (13, Cause::ReceiverNotReady),
        (10, Cause::RemoteAccess),
        (9, Cause::InvalidRequest),
        (4, Cause::LocalRequest),
        (11, Cause::RemoteOperation),
    ] {
        assert_eq!(alone(&[completion(MS, status)]), [(cause, CERTAIN)], "{status}");
    }
}

#[test]
fn a_queue_pair_that_works_has_no_causes() {
    let recordings = [recording(1, &own(&[completion(MS, 0)]))];
    let all = stories(&recordings);
    assert_eq!(diagnose(&all[0], &all, &recordings), None);
}
