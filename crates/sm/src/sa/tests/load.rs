//! Many requests, and sweeps between them.

use weft_wire::mad::sa::{JoinState, McMemberRecord, PathRecord};

use super::*;
use crate::sa::facts::Facts;
use crate::sa::limits::{MEMBERSHIPS_PER_PORT_MAX, QUESTIONS_PER_LID_MAX};

/// Sender LIDs in the order in which `count` requests are answered.
fn served(sa: &mut Administrator, fixture: &Fixture, count: usize) -> Vec<u16> {
    let mut order = Vec::new();
    // Long responses must be sent before more are built.
    while order.len() < count && sa.serve(Instant(0), &fixture.world(), count - order.len()) > 0 {
        order.extend(std::iter::from_fn(|| sa.poll_gmp()).map(|out| out.to.lid));
    }
    order
}

#[test]
fn who_asks_for_everything_over_and_over_delays_himself() {
    let (mut sa, fixture) = (Administrator::default(), super::fat_tree(16));
    let hosts: Vec<u16> = fixture.graph.ends.iter().map(|end| end.lid).collect();
    let (flooder, others) = hosts.split_first().expect("hosts");
    let all = SaMad::request(Method::GET_TABLE, 1, ComponentMask::NONE, &PathRecord::default());
    let ask = |sa: &mut Administrator, lid: u16, mad: &SaMad| {
        sa.handle(Instant(0), &fixture.world(), &Peer { lid, ..Peer::default() }, mad.as_bytes());
    };
    sa.refresh(Instant(0), &fixture.world());
    for _ in 0..10 * QUESTIONS_PER_LID_MAX {
        ask(&mut sa, *flooder, &all);
    }
    for round in 0..4 {
        for lid in others {
            let asked = PathRecord { slid: *lid, dlid: *flooder, ..PathRecord::default() };
            ask(&mut sa, *lid, &SaMad::request(Method::GET, round, PathRecord::SLID | PathRecord::DLID, &asked));
        }
    }
    // Its responses are 1.6 MB each; while it skips turns for one, all others are answered.
    let order = served(&mut sa, &fixture, 4 * others.len() + 1);
    assert_eq!(order.iter().filter(|lid| *lid == flooder).count(), 1, "{order:?}");
    assert_eq!(sa.waiting(), QUESTIONS_PER_LID_MAX - 1, "what is beyond a LID's bound is dropped");
    assert_eq!(served(&mut sa, &fixture, 1), [*flooder], "alone it is served");
}

#[test]
fn a_port_has_as_many_turns_as_another_however_many_lids_it_has() {
    let (mut sa, mut fixture) = (Administrator::default(), super::fat_tree(4));
    let at = fixture.subnet.by_lid[&fixture.graph.ends[0].lid];
    let port = fixture.subnet.nodes[at.node.0 as usize].as_mut().map(|node| &mut node.ports[usize::from(at.port)]);
    let port = port.expect("a port");
    (port.lid, port.lmc) = (0x100, 7);
    let other = fixture.graph.ends[1].lid;
    sa.refresh(Instant(0), &fixture.world());
    let mad = SaMad::request(Method::GET, 1, ComponentMask::NONE, &PathRecord::default());
    for lid in (0x100..0x180).chain([other; 3]) {
        sa.handle(Instant(0), &fixture.world(), &Peer { lid, ..Peer::default() }, mad.as_bytes());
    }
    let order = served(&mut sa, &fixture, 6);
    assert_eq!(order, [0x100, other, 0x101, other, 0x102, other]);
}

#[test]
fn answers_that_are_long_are_sent_before_there_are_more() {
    let (mut sa, fixture) = (Administrator::default(), super::fat_tree(16));
    let all = SaMad::request(Method::GET_TABLE, 1, ComponentMask::NONE, &PathRecord::default());
    for lid in 1..=16 {
        sa.handle(Instant(0), &fixture.world(), &Peer { lid, ..Peer::default() }, all.as_bytes());
    }
    assert_eq!(sa.serve(Instant(0), &fixture.world(), 16), 1, "each is of 1.6 MB");
    assert_eq!((std::iter::from_fn(|| sa.poll_gmp()).count(), sa.waiting()), (1, 15));
}

#[test]
fn one_port_does_not_fill_the_table_of_groups() {
    let (mut sa, fixture) = (Administrator::default(), super::fat_tree(4));
    let [host, other] = [0, 1].map(|at| fixture.graph.ends[at].clone());
    let mask = McMemberRecord::MGID
        | McMemberRecord::PORT_GID
        | McMemberRecord::JOIN_STATE
        | McMemberRecord::QKEY
        | McMemberRecord::TCLASS
        | McMemberRecord::PKEY
        | McMemberRecord::FLOW_LABEL
        | McMemberRecord::SL;
    let mut change = |method, asker: u16, member: u64, group: u32| {
        let (mut mgid, mut port_gid) = ([0; 16], [0; 16]);
        mgid[..4].copy_from_slice(&[0xff, 0x1e, 0xa0, 0x1b]);
        mgid[12..].copy_from_slice(&group.to_be_bytes());
        port_gid[..2].copy_from_slice(&[0xfe, 0x80]);
        port_gid[8..].copy_from_slice(&member.to_be_bytes());
        let join_state = JoinState::FULL_MEMBER;
        let asked = McMemberRecord { mgid, port_gid, pkey: 0xffff, join_state, ..McMemberRecord::default() };
        ask(&mut sa, &fixture, (asker, 0), method, mask, &asked).expect("an answer").status
    };
    let most = MEMBERSHIPS_PER_PORT_MAX as u32;
    assert!((0..most).all(|group| change(Method::SET, host.lid, host.guid, group) == Status::SUCCESS));
    let set = Method::SET;
    assert_eq!(change(set, host.lid, host.guid, most), Status::SA_NO_RESOURCES, "it has its share");
    assert_eq!(change(set, host.lid, other.guid, most), Status::SA_NO_RESOURCES, "whomever it asks for");
    assert_eq!(change(set, host.lid, host.guid, 7), Status::SUCCESS, "what it has it keeps");
    assert_eq!(change(set, other.lid, other.guid, most), Status::SUCCESS, "others have theirs");
    assert_eq!(change(Method::DELETE, host.lid, host.guid, 7), Status::SUCCESS);
    assert_eq!(change(set, host.lid, host.guid, most), Status::SUCCESS, "there is room again");
    assert_eq!(change(set, host.lid, host.guid, 7), Status::SA_NO_RESOURCES);
}

#[test]
fn look_ups_are_made_anew_only_if_a_sweep_found_something_else() {
    let mut fixture = super::fat_tree(8);
    let facts = Facts::of(&fixture.world());
    assert!(facts.are(&fixture.world()));
    fixture.generation += 1;
    assert!(facts.are(&fixture.world()), "another sweep is no other subnet");
    let at = fixture.subnet.by_lid[&fixture.graph.ends[5].lid];
    type Change = fn(&mut crate::subnet::Port);
    let changes: [Change; 6] = [
        |port| port.guid += 1,
        |port| port.lid += 1,
        |port| port.info.mtu_cap -= 1,
        |port| port.info.gid_prefix += 1,
        |port| port.pkeys.push(0x8001),
        |port| port.neighbor = None,
    ];
    for change in changes {
        let mut other = super::fat_tree(8);
        let node = other.subnet.nodes[at.node.0 as usize].as_mut().expect("a node");
        change(&mut node.ports[usize::from(at.port)]);
        assert!(!facts.are(&other.world()));
    }
    let mut other = super::fat_tree(8);
    other.graph.ends.pop();
    assert!(!facts.are(&other.world()));
}

#[test]
fn what_a_sweep_found_is_answered_from_then_on() {
    let (mut sa, mut fixture) = (Administrator::default(), super::fat_tree(4));
    let lid = fixture.graph.ends[0].lid;
    let asked = PathRecord { slid: lid, dlid: fixture.graph.ends[7].lid, ..PathRecord::default() };
    let mtu = |sa: &mut Administrator, fixture: &Fixture| {
        let found: Vec<PathRecord> = super::table(sa, fixture, PathRecord::SLID | PathRecord::DLID, &asked);
        found[0].mtu
    };
    let before = mtu(&mut sa, &fixture);
    let at = fixture.subnet.by_lid[&lid];
    let node = fixture.subnet.nodes[at.node.0 as usize].as_mut().expect("a node");
    node.ports[usize::from(at.port)].info.mtu_cap = before - 1;
    assert_eq!(mtu(&mut sa, &fixture), before, "no sweep is over");
    fixture.generation += 1;
    assert_eq!(mtu(&mut sa, &fixture), before - 1);
}
