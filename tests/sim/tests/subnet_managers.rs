//! Several managers of one subnet: one is master, the others stand by, and mastership moves between them without
//! changing a LID.

use weft_fabric::PortRef;
use weft_fabric::topology::NodeKind;
use weft_fabric::topology::generate::Shape;
use weft_sim::subnet::{Fault, World, check, garble_a_name};
use weft_sm::manager::{Event, Setup};
use weft_verbs::Duration;
use weft_wire::mad::subn::{NodeDescription, SmState};

const SECOND: Duration = Duration::from_secs(1);

fn tree() -> World {
    World::new(Shape::FatTree { radix: 4, levels: 2, hosts: None, hosts_per_leaf: None }, 1)
}

fn faults(world: &World) -> Vec<Fault> {
    let [at] = world.masters()[..] else { panic!("masters: {:?}{}", world.masters(), world.log()) };
    check(&world.fabric, at, &world.managers[&at].manager)
}

fn quick(setup: &mut Setup, priority: u8) {
    setup.sm_priority = priority;
    setup.sminfo_polling_timeout = SECOND;
}

fn lids(world: &World) -> Vec<(PortRef, u16)> {
    let ports = (0..world.fabric.node_count()).flat_map(|node| (0..=1).map(move |port| PortRef::new(node, port)));
    ports.filter_map(|at| Some((at, world.fabric.port_info(at)?.lid))).filter(|(_, lid)| *lid != 0).collect()
}

/// Starts managers of these priorities at the first hosts, a second apart.
fn started(priorities: &[u8]) -> (World, Vec<PortRef>) {
    let mut world = tree();
    let ports: Vec<PortRef> = (0..priorities.len()).map(|number| world.host(number)).collect();
    for (at, priority) in ports.iter().zip(priorities) {
        world.start(*at, |setup| quick(setup, *priority));
        world.pass(SECOND);
    }
    world.pass(3 * SECOND);
    (world, ports)
}

#[test]
fn the_highest_priority_rules_whoever_came_first() {
    for priorities in [[1, 2, 3], [3, 2, 1], [2, 3, 1], [0, 0, 0]] {
        let (world, ports) = started(&priorities);
        let first = (0..3).max_by_key(|place| (priorities[*place], std::cmp::Reverse(*place))).expect("three");
        assert_eq!(world.masters(), [ports[first]], "{priorities:?}{}", world.log());
        let standing = world.states().iter().filter(|state| **state == SmState::STANDBY).count();
        assert_eq!((standing, faults(&world)), (2, vec![]), "{priorities:?}{}", world.log());
        let warned = world.count(|event| matches!(event, Event::OtherManager { .. }));
        assert!(warned >= 2, "whoever meets another says so");
    }
}

#[test]
fn who_stands_by_takes_over_and_nobody_has_another_lid() {
    let (mut world, ports) = started(&[3, 2, 1]);
    let before = lids(&world);
    for (dead, heir) in [(0, 1), (1, 2)] {
        world.kill(ports[dead]);
        // Four unanswered polls, a second apart, each sent four times.
        let taken = world.until(10 * SECOND, |world| world.masters() == [ports[heir]]);
        assert!(taken, "{}", world.log());
        world.pass(3 * SECOND);
        assert_eq!((faults(&world), lids(&world)), (vec![], before.clone()), "{}", world.log());
    }
    // The first returns, and the other hands over to it.
    world.start(ports[0], |setup| quick(setup, 3));
    world.pass(5 * SECOND);
    assert_eq!(world.masters(), [ports[0]], "{}", world.log());
    assert_eq!((faults(&world), lids(&world)), (vec![], before), "{}", world.log());
}

#[test]
fn who_stood_by_and_ends_is_told_of_once_and_not_as_an_error() {
    let (mut world, ports) = started(&[3, 2, 1]);
    let standing = world.fabric.port_guid(ports[2]).expect("a port");
    world.kill(ports[2]);
    world.pass(3 * SECOND);
    let gone = |event: &Event| matches!(event, Event::ManagerGone { guid, silent: false, .. } if *guid == standing);
    assert_eq!(world.count(gone), 1, "the master says so{}", world.log());
    assert_eq!(world.count(|event| matches!(event, Event::Refused { .. })), 0, "{}", world.log());
    assert_eq!(faults(&world), vec![], "{}", world.log());
}

#[test]
fn saved_lids_count_when_everything_begins_anew() {
    let (mut world, ports) = started(&[0]);
    let before = lids(&world);
    let text = world.manager(ports[0]).guid2lid();
    let other = world.host(3);
    let mut again = tree();
    again.start(other, |setup| setup.guid2lid = text);
    again.pass(SECOND);
    assert_eq!((faults(&again), lids(&again)), (vec![], before.clone()));
    let mut fresh = tree();
    fresh.start(other, |_| {});
    fresh.pass(SECOND);
    assert_ne!(lids(&fresh), before, "else the file says nothing");
}

#[test]
fn who_is_never_to_be_master_never_is() {
    let mut world = tree();
    let (at, other) = (world.host(0), world.host(1));
    world.start(at, |setup| setup.never_master = true);
    world.pass(60 * SECOND);
    assert_eq!(world.masters(), []);
    world.start(other, |setup| quick(setup, 0));
    world.pass(30 * SECOND);
    assert_eq!((world.masters(), faults(&world)), (vec![other], vec![]));
    assert_eq!(world.manager(at).status().state, SmState::STANDBY, "{}", world.log());
    world.kill(other);
    world.pass(60 * SECOND);
    assert_eq!(world.masters(), []);
}

#[test]
fn who_yields_hands_over_to_anybody_and_takes_over_when_they_are_gone() {
    let mut world = tree();
    let (at, other) = (world.host(0), world.host(3));
    world.start(at, |setup| {
        quick(setup, 0);
        setup.yields = true;
    });
    world.pass(SECOND);
    assert_eq!(world.masters(), [at]);
    let before = lids(&world);
    world.start(other, |setup| quick(setup, 0));
    world.pass(20 * SECOND);
    assert_eq!((world.masters(), faults(&world)), (vec![other], vec![]), "{}", world.log());
    world.kill(other);
    world.pass(20 * SECOND);
    assert_eq!((world.masters(), faults(&world), lids(&world)), (vec![at], vec![], before), "{}", world.log());
}

#[test]
fn who_shuts_down_hands_over_first() {
    let (mut world, ports) = started(&[3, 2]);
    world.manager(ports[0]).shut_down();
    world.settle();
    assert_eq!(world.masters(), [ports[1]], "{}", world.log());
    world.kill(ports[0]);
    world.pass(SECOND);
    assert_eq!(faults(&world), []);
}

#[test]
fn a_fabric_that_was_split_is_one_again() {
    let mut world = World::new(Shape::Torus { sizes: vec![4], hosts_per_switch: 1, wraps: false }, 1);
    let is_switch = |world: &World, at: PortRef| world.fabric.kind(at.node) == Some(NodeKind::Switch);
    let middle: Vec<[PortRef; 2]> = world.fabric.cables().map(|cable| cable.ends).collect();
    let ends = middle.into_iter().filter(|ends| ends.iter().all(|end| is_switch(&world, *end))).nth(1).expect("three");
    let ports = [world.host(0), world.host(3)];
    world.start(ports[0], |setup| quick(setup, 1));
    world.pass(SECOND);
    world.start(ports[1], |setup| quick(setup, 2));
    world.pass(5 * SECOND);
    let before = lids(&world);
    assert_eq!((world.masters(), faults(&world)), (vec![ports[1]], vec![]), "{}", world.log());
    world.fabric.cut(world.now, ends[0]).expect("a cable");
    world.pass(20 * SECOND);
    assert_eq!(world.masters(), ports, "each rules its part{}", world.log());
    world.fabric.join(world.now, ends[0], ends[1]).expect("free ports");
    world.pass(30 * SECOND);
    assert_eq!((world.masters(), faults(&world)), (vec![ports[1]], vec![]), "{}", world.log());
    assert_eq!(lids(&world), before);
}

fn is_naming(world: &World, at: PortRef) -> bool {
    let manager = &world.managers[&at].manager;
    manager.status().is_up && !manager.has_names()
}

fn nameless(world: &World, at: PortRef) -> usize {
    let nodes = world.managers[&at].manager.subnet().nodes();
    nodes.filter(|(_, node)| node.description == NodeDescription::default()).count()
}

#[test]
fn who_dies_while_it_asks_for_names_is_followed_by_one_that_has_them() {
    let (mut world, ports) = started(&[1]);
    let (at, other) = (ports[0], world.host(1));
    let before = lids(&world);
    world.twist = Some(garble_a_name);
    world.start(other, |setup| quick(setup, 2));
    assert!(world.until(10 * SECOND, |world| is_naming(world, other)), "{}", world.log());
    world.kill(other);
    world.twist = None;
    world.pass(20 * SECOND);
    assert_eq!((world.masters(), faults(&world), lids(&world)), (vec![at], vec![], before), "{}", world.log());
    assert_eq!((world.manager(at).has_names(), nameless(&world, at)), (true, 0));
}

#[test]
fn who_hands_over_while_it_asks_for_names_has_them_when_it_rules_again() {
    let mut world = tree();
    let (at, other) = (world.host(0), world.host(1));
    world.twist = Some(garble_a_name);
    world.start(at, |setup| quick(setup, 1));
    assert!(world.until(SECOND, |world| is_naming(world, at)), "{}", world.log());
    let before = lids(&world);
    world.start(other, |setup| quick(setup, 2));
    // It waits four times 200 ms for the name.
    let soon = Duration::from_millis(500);
    assert!(world.until(soon, |world| world.masters() == [other]), "{}", world.log());
    world.twist = None;
    world.pass(5 * SECOND);
    assert_eq!((faults(&world), lids(&world)), (vec![], before.clone()), "{}", world.log());
    world.kill(other);
    world.pass(20 * SECOND);
    assert_eq!((world.masters(), faults(&world), lids(&world)), (vec![at], vec![], before), "{}", world.log());
    assert_eq!((world.manager(at).has_names(), nameless(&world, at)), (true, 0));
}
