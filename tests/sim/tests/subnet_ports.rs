//! Adapters with several ports: each port has an agent of its own, and a manager sets what that agent says. A port that
//! refuses to be set keeps the subnet from counting as up.

use weft_fabric::topology::file;
use weft_fabric::{Delivery, PortRef};
use weft_sim::subnet::{World, check};
use weft_sm::manager::Event;
use weft_verbs::Duration;
use weft_wire::mad::subn::{PortInfo, PortState, Smp};
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
    // From its LID on, one host's port answers every PortInfo with an error, and sends back what it was sent.
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
