//! Adapters with several ports: each port has an agent of its own, which the manager configures. A port that refuses
//! its configuration keeps the subnet from counting as up.

use std::sync::atomic::{AtomicU32, Ordering};

use weft_fabric::topology::file;
use weft_fabric::{Delivery, MadAddress, MadOut, PortRef};
use weft_sim::subnet::{World, check};
use weft_sm::manager::Event;
use weft_verbs::Duration;
use weft_wire::lrh::LID_PERMISSIVE;
use weft_wire::mad::subn::{PhysState, PortInfo, PortState, Smp};
use weft_wire::mad::{AttrId, Method, Status};

const SECOND: Duration = Duration::from_secs(1);

/// Two rails: each host has a port on each of two switches, which are cabled to each other.
const TWO_RAILS: &str = r#"
cables = ["node[1-4]:1 - rail1", "node[1-4]:2 - rail2", "rail1 - rail2", "rail1 - rail2"]
[[switch]]
name = "rail"
count = 2
ports = 8
[[host]]
name = "node"
count = 4
ports = 2
"#;

fn started(text: &str, twist: Option<fn(&mut Delivery)>) -> (World, PortRef) {
    let mut world = World::of(&file::read("rails", text).expect("a topology"), 1);
    world.twist = twist;
    let at = world.host(0);
    world.start(at, |_| {});
    world.pass(SECOND);
    (world, at)
}

fn assert_all_reachable(world: &World, at: PortRef) {
    assert_eq!(check(&world.fabric, at, &world.managers[&at].manager), [], "{}", world.log());
    for host in 0..4 {
        for port in 1..=2 {
            let at = PortRef::new(world.host(host).node, port);
            let info = world.fabric.port_info(at).expect("a port");
            assert!(info.lid != 0 && info.port_state == PortState::ACTIVE, "{at}: {info:?}");
        }
    }
}

#[test]
fn every_port_of_the_managers_own_adapter_comes_up() {
    let (mut world, at) = started(TWO_RAILS, None);
    assert_all_reachable(&world, at);
    let refused = |event: &Event| matches!(event, Event::Refused { .. } | Event::Incomplete { .. });
    assert_eq!(world.count(refused), 0, "{}", world.log());

    let second = PortRef::new(at.node, 2);
    let peer = world.fabric.peer(second).expect("a cable");
    world.fabric.cut(world.now, second).expect("a cable");
    world.pass(SECOND);
    world.manager(at).sweep(true);
    world.pass(SECOND);
    assert_eq!(check(&world.fabric, at, &world.managers[&at].manager), [], "{}", world.log());
    world.fabric.join(world.now, second, peer).expect("free ports");
    world.pass(SECOND);
    assert_all_reachable(&world, at);

    world.fabric.reboot(world.now, peer.node, Duration::from_millis(100)).expect("a switch");
    world.pass(SECOND * 15);
    assert_all_reachable(&world, at);
    assert_eq!(world.count(|event| matches!(event, Event::Refused { .. })), 0, "{}", world.log());
}

#[test]
fn a_port_that_refuses_its_configuration_keeps_the_subnet_from_being_up() {
    // Once it has its LID, one host's port answers every PortInfo with an error, and echoes the request's data.
    let refuses = |delivery: &mut Delivery| {
        let mut smp = *Smp::ref_from_mad(&delivery.mad);
        let header = smp.header;
        let answers = header.class().is_subn() && header.method() == Method::GET_RESP;
        if answers && header.attr_id() == AttrId::PORT_INFO && PortInfo::parse(&smp.data).lid == 2 {
            smp.set_status(Status::INVALID_FIELD);
            delivery.mad = smp.to_mad();
        }
    };
    let (world, _) = started(TWO_RAILS, Some(refuses));
    assert_eq!(world.count(|event| *event == Event::SubnetUp), 0, "{}", world.log());
    let told = |event: &Event| matches!(event, Event::Incomplete { what } if what.contains("refuses to be configured"));
    assert!(world.count(told) > 0, "{}", world.log());
}

#[test]
fn a_port_that_keeps_another_lid_keeps_the_subnet_from_being_up() {
    let keeps = |delivery: &mut Delivery| {
        let mut smp = *Smp::ref_from_mad(&delivery.mad);
        let header = smp.header;
        let answers = header.class().is_subn() && header.method() == Method::GET_RESP;
        let info = PortInfo::parse(&smp.data);
        if answers && header.attr_id() == AttrId::PORT_INFO && info.lid == 2 {
            smp.set_attribute(&PortInfo { lid: 98, ..info });
            delivery.mad = smp.to_mad();
        }
    };
    let (mut world, _) = started(TWO_RAILS, Some(keeps));
    world.pass(SECOND * 10);
    assert_eq!(world.count(|event| *event == Event::SubnetUp), 0, "{}", world.log());
    let told = |event: &Event| matches!(event, Event::Incomplete { what } if what.contains("LID 98 instead of LID 2"));
    assert!(world.count(told) > 1, "{}", world.log());
}

/// Answers of the port with LID 2 after it was armed.
static ANSWERS: AtomicU32 = AtomicU32::new(0);

/// Refuses the Set that arms the port with LID 2, and loses the first answer to the read-back.
fn refuse_and_delay(delivery: &mut Delivery) {
    let mut smp = *Smp::ref_from_mad(&delivery.mad);
    let header = smp.header;
    let answers = header.class().is_subn() && header.method() == Method::GET_RESP;
    let info = PortInfo::parse(&smp.data);
    if !answers || header.attr_id() != AttrId::PORT_INFO || info.lid != 2 || info.port_state != PortState::ARMED {
        return;
    }
    match ANSWERS.fetch_add(1, Ordering::Relaxed) {
        0 => smp.set_status(Status::INVALID_FIELD),
        1 => smp.header.set_tid(u64::MAX),
        _ => return,
    }
    delivery.mad = smp.to_mad();
}

#[test]
fn a_lid_that_another_manager_wrote_before_the_read_back_is_written_over() {
    const OTHER: u16 = 99;
    let mut world = World::of(&file::read("rails", TWO_RAILS).expect("a topology"), 1);
    world.twist = Some(refuse_and_delay);
    let master = world.host(0);
    world.start(master, |_| {});
    assert!(world.until(SECOND, |_| ANSWERS.load(Ordering::Relaxed) == 2), "{}", world.log());

    // Another manager writes the port between the refused Set and the second try of the read-back.
    let ports = (0..4).flat_map(|host| [1, 2].map(|port| PortRef::new(world.host(host).node, port)));
    let lid = |world: &World, at: PortRef| world.fabric.port_info(at).map_or(0, |info| info.lid);
    let at = ports.into_iter().find(|at| lid(&world, *at) == 2).expect("a port with LID 2");
    let info = world.fabric.port_info(at).expect("a port");
    let mut smp =
        Smp::directed(Method::SET, 1, AttrId::PORT_INFO, at.port.into(), info.mkey, &[]).expect("a route of no hops");
    let (state, physical) = (PortState::NO_CHANGE, PhysState::NO_CHANGE);
    smp.set_attribute(&PortInfo { lid: OTHER, port_state: state, port_physical_state: physical, ..info });
    let mad = MadOut { to: MadAddress::smi(LID_PERMISSIVE), mad: smp.to_mad() };
    world.fabric.send(world.now, at, &mad).expect("a host with power");
    world.settle();
    assert_eq!(lid(&world, at), OTHER);

    world.pass(SECOND * 5);
    assert_eq!(lid(&world, at), 2, "{}", world.log());
    assert_all_reachable(&world, master);
    let told =
        |event: &Event| matches!(event, Event::Incomplete { what } if what.contains("has LID 99 instead of LID 2"));
    assert_eq!(world.count(told), 1, "{}", world.log());
}
