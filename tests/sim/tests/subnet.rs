//! A manager brings up fabrics of every shape, keeps them up through faults, and hands them over to others.

use weft_fabric::topology::generate::Shape;
use weft_fabric::{Delivery, PortRef};
use weft_sim::subnet::{World, check, garble_a_name};
use weft_sm::manager::Event;
use weft_verbs::Duration;
use weft_wire::mad::subn::{PortInfo, Smp};
use weft_wire::mad::{AttrId, Method};

const SECOND: Duration = Duration::from_secs(1);

fn shapes() -> Vec<Shape> {
    vec![
        Shape::Pair,
        Shape::Star { hosts: 5 },
        Shape::FatTree { radix: 4, levels: 2, hosts: None, hosts_per_leaf: None },
        Shape::FatTree { radix: 4, levels: 3, hosts: None, hosts_per_leaf: None },
    ]
}

fn ups(world: &World) -> usize {
    world.count(|event| *event == Event::SubnetUp)
}

fn faults(world: &World, at: PortRef) -> Vec<weft_sim::subnet::Fault> {
    check(&world.fabric, at, &world.managers[&at].manager)
}

#[test]
fn every_shape_comes_up() {
    for shape in shapes() {
        let mut world = World::new(shape.clone(), 1);
        let at = world.host(0);
        world.start(at, |_| {});
        world.pass(SECOND);
        assert_eq!(world.masters(), [at], "{shape:?}");
        assert!(ups(&world) > 0, "{shape:?}: {}", world.log());
        assert_eq!(faults(&world, at), [], "{shape:?}: {}", world.log());
    }
}

/// Brings up a fabric of this shape with a manager at its first host.
fn up(shape: Shape, seed: u64) -> (World, PortRef) {
    let mut world = World::new(shape, seed);
    let at = world.host(0);
    world.start(at, |_| {});
    world.pass(SECOND);
    assert_eq!(faults(&world, at), []);
    (world, at)
}

fn tree() -> Shape {
    Shape::FatTree { radix: 4, levels: 3, hosts: None, hosts_per_leaf: None }
}

fn lids(world: &World) -> Vec<(PortRef, u16)> {
    let ports = (0..world.fabric.node_count()).flat_map(|node| (0..=1).map(move |port| PortRef::new(node, port)));
    ports.filter_map(|at| Some((at, world.fabric.port_info(at)?.lid))).filter(|(_, lid)| *lid != 0).collect()
}

/// Returns one port of a cable between two switches.
fn trunk(world: &World, number: usize) -> PortRef {
    let is_switch = |at: PortRef| world.fabric.kind(at.node) == Some(weft_fabric::topology::NodeKind::Switch);
    let trunks = world.fabric.cables().map(|cable| cable.ends).filter(|ends| ends.iter().all(|end| is_switch(*end)));
    trunks.map(|ends| ends[0]).nth(number).expect("so many trunks")
}

#[test]
fn names_are_asked_when_the_subnet_carries_data() {
    let (mut world, at) = up(tree(), 1);
    let first = |wanted: fn(&Event) -> bool| world.events.iter().position(|(_, event)| wanted(event));
    let (up, named) =
        (first(|event| *event == Event::SubnetUp), first(|event| matches!(event, Event::Appeared { .. })));
    assert!(up.is_some() && up < named, "{}", world.log());
    assert_eq!(world.count(|event| matches!(event, Event::Appeared { .. })), world.fabric.node_count() as usize);
    assert!(world.manager(at).has_names());
}

#[test]
fn who_does_not_say_its_name_has_everything_else() {
    let mut world = World::new(tree(), 1);
    let at = world.host(0);
    world.twist = Some(garble_a_name);
    world.start(at, |setup| setup.sweep_interval = SECOND * 10);
    world.pass(SECOND * 5);
    assert_eq!(faults(&world, at), [], "{}", world.log());
    let nameless = |event: &Event| matches!(event, Event::Nameless { .. });
    assert_eq!(world.count(nameless), 1, "{}", world.log());
    let status = world.manager(at).status();
    assert!(status.is_up && status.heavy_sweeps == 1, "{status:?}");
    world.twist = None;
    world.manager(at).sweep(true);
    world.pass(SECOND);
    let came = |event: &Event| matches!(event, Event::Appeared { .. });
    assert_eq!(world.count(came), world.fabric.node_count() as usize);
}

#[test]
fn a_light_sweep_asks_each_switch_once() {
    let (mut world, at) = up(tree(), 1);
    let before = world.manager(at).status();
    world.manager(at).sweep(false);
    world.settle();
    let after = world.manager(at).status();
    assert_eq!(after.sweeps, before.sweeps + 1);
    // One from each of 20 switches, and one from the manager's own port.
    assert_eq!(after.wire.sent - before.wire.sent, 21);
}

#[test]
fn a_cut_is_routed_around_at_once_and_mended() {
    let (mut world, at) = up(tree(), 2);
    let cable = trunk(&world, 0);
    let other = world.fabric.peer(cable).expect("a cable");
    let before = lids(&world);
    let sent = world.manager(at).status().wire.sent;
    world.fabric.cut(world.now, cable).expect("a cable");
    world.pass(Duration::from_millis(500));
    assert_eq!(faults(&world, at), [], "{}", world.log());
    assert!(world.manager(at).status().wire.sent - sent < 150, "{}", world.manager(at).status().wire.sent - sent);
    world.fabric.join(world.now, cable, other).expect("free ports");
    world.pass(Duration::from_millis(500));
    assert_eq!(faults(&world, at), [], "{}", world.log());
    assert_eq!(lids(&world), before);
}

#[test]
fn nobody_is_asked_through_a_cable_that_was_cut() {
    let (mut world, at) = up(tree(), 2);
    let trunks: Vec<PortRef> = (0..32).map(|number| trunk(&world, number)).collect();
    for cable in trunks {
        let other = world.fabric.peer(cable).expect("a cable");
        let before = world.manager(at).status().wire.timeouts;
        world.fabric.cut(world.now, cable).expect("a cable");
        world.pass(SECOND);
        assert_eq!(world.manager(at).status().wire.timeouts, before, "{cable}: {}", world.log());
        world.fabric.join(world.now, cable, other).expect("free ports");
        world.pass(SECOND);
        assert_eq!(faults(&world, at), [], "{cable}: {}", world.log());
    }
}

#[test]
fn what_a_port_does_not_do_it_is_told_once() {
    let heavy_sweep = |twist: Option<fn(&mut Delivery)>| {
        let mut world = World::new(tree(), 4);
        world.twist = twist;
        let at = world.host(0);
        world.start(at, |_| {});
        world.pass(SECOND);
        assert_eq!(faults(&world, at), []);
        let before = world.manager(at).status().wire.sent;
        world.manager(at).sweep(true);
        world.settle();
        world.manager(at).status().wire.sent - before
    };
    // The port reports a timeout of zero, whatever the manager sets.
    let forgetful = |delivery: &mut Delivery| {
        let header = delivery.mad.header;
        if header.class().is_subn() && header.method() == Method::GET_RESP && header.attr_id() == AttrId::PORT_INFO {
            let mut smp = *Smp::ref_from_mad(&delivery.mad);
            smp.data = PortInfo { subnet_timeout: 0, ..PortInfo::parse(&smp.data) }.encode();
            delivery.mad = smp.to_mad();
        }
    };
    assert_eq!(heavy_sweep(Some(forgetful)), heavy_sweep(None));
}

#[test]
fn a_switch_that_boots_gets_everything_again() {
    let (mut world, at) = up(tree(), 3);
    let before = lids(&world);
    for number in 0..20 {
        let switch = world.switch(number);
        world.fabric.reboot(world.now, switch, Duration::from_millis(100)).expect("a switch");
        world.pass(Duration::from_secs(15));
        assert_eq!(faults(&world, at), [], "switch {number}: {}", world.log());
        assert_eq!(lids(&world), before, "switch {number}");
    }
}

#[test]
fn hosts_come_and_go() {
    let (mut world, at) = up(tree(), 4);
    let before = lids(&world);
    let host = world.host(7);
    world.fabric.power_off(world.now, host.node).expect("a host");
    world.pass(SECOND);
    assert_eq!((faults(&world, at), world.count(|event| matches!(event, Event::Gone { .. }))), (vec![], 1));
    world.fabric.power_on(world.now, host.node).expect("a host");
    world.pass(SECOND);
    assert_eq!((faults(&world, at), lids(&world)), (vec![], before));
}

#[test]
fn what_is_lost_is_asked_again() {
    for seed in 0..30 {
        let mut world = World::new(tree(), seed);
        let at = world.host(seed as usize % 16);
        world.loss_ppm = 50_000;
        world.start(at, |_| {});
        world.pass(Duration::from_secs(60));
        world.loss_ppm = 0;
        world.pass(Duration::from_secs(30));
        assert_eq!(faults(&world, at), [], "seed {seed}: {}", world.log());
    }
}
