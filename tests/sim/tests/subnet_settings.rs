//! Settings that a manager gives ports besides LIDs: P_Keys, enforcement by switches, lanes. Read back from the fabric
//! itself.

use weft_fabric::PortRef;
use weft_fabric::topology::generate::Shape;
use weft_sim::subnet::{World, check};
use weft_sm::manager::{Event, Setup};
use weft_sm::options::{self, Options};
use weft_sm::partition;
use weft_verbs::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn partitions(text: &str) -> impl FnOnce(&mut Setup) {
    let (config, diagnostics) = partition::parse(text, "partitions.conf");
    assert!(diagnostics.iter().all(|diagnostic| diagnostic.level < options::Level::Error), "{diagnostics:?}");
    move |setup| setup.partitions = config
}

fn keys(world: &World, at: PortRef) -> Vec<u16> {
    let keys = world.fabric.pkeys(at);
    let end = keys.iter().rposition(|key| *key != 0).map_or(0, |last| last + 1);
    keys[..end].to_vec()
}

#[test]
fn partitions_reach_hosts_and_switches_and_follow_the_file() {
    let mut world = World::new(Shape::Star { hosts: 4 }, 1);
    let hosts: Vec<PortRef> = (0..4).map(|number| world.host(number)).collect();
    let guids: Vec<u64> = hosts.iter().map(|host| world.fabric.port_guid(*host).expect("a port")).collect();
    let switch = world.switch(0);
    let text =
        format!("Default=0x7fff : ALL=full ; A=0x2 : ALL_CAS=full ; B=0x3 : {:#x}=full, {:#x} ;", guids[1], guids[2]);
    world.start(hosts[0], partitions(&text));
    world.pass(SECOND);
    assert_eq!(world.masters(), [hosts[0]]);
    assert_eq!(keys(&world, hosts[0]), [0xffff, 0x8002]);
    assert_eq!(keys(&world, hosts[1]), [0xffff, 0x8002, 0x8003]);
    assert_eq!(keys(&world, hosts[2]), [0xffff, 0x8002, 0x0003]);
    assert_eq!(keys(&world, PortRef::new(switch, 0)), [0xffff]);
    let facing: Vec<PortRef> = (1..=4).map(|port| PortRef::new(switch, port)).collect();
    let enforced = |world: &World, at: PortRef| {
        let info = world.fabric.port_info(at).expect("a port");
        (info.partition_enforcement_inbound, info.partition_enforcement_outbound)
    };
    assert!(facing.iter().any(|at| keys(&world, *at) == [0xffff, 0x8002, 0x0003]));
    assert!(facing.iter().all(|at| enforced(&world, *at) == (true, true)));
    assert_eq!(check(&world.fabric, hosts[0], &world.managers[&hosts[0]].manager), []);

    // With another file, keys stay at their indices, and a removed one leaves a hole.
    let mut setup = Setup::new(guids[0]);
    partitions(&format!("Default=0x7fff : ALL=full ; B=0x3 : {:#x}=full ; C=0x4 : ALL=full ;", guids[1]))(&mut setup);
    let (options, _) = options::parse("part_enforce out\n", "opensm.conf", Options::default());
    setup.options = options;
    world.manager(hosts[0]).reload(setup);
    world.pass(SECOND);
    assert_eq!(keys(&world, hosts[1]), [0xffff, 0, 0x8003, 0x8004]);
    assert_eq!(keys(&world, hosts[2]), [0xffff, 0, 0, 0x8004]);
    assert!(facing.iter().all(|at| enforced(&world, *at) == (false, true)));
}

#[test]
fn what_ports_have_is_not_written_again() {
    let mut world = World::new(Shape::FatTree { radix: 4, levels: 2, hosts: None, hosts_per_leaf: None }, 1);
    let at = world.host(0);
    world.start(at, |setup| {
        let (options, _) = options::parse("qos TRUE\nqos_swe_high_limit 9\n", "opensm.conf", Options::default());
        setup.options = options;
    });
    world.pass(SECOND);
    assert!(world.count(|event| *event == Event::SubnetUp) > 0, "{:?}", world.events);
    let high = |port: u8| world.fabric.port_info(PortRef::new(world.switch(0), port)).expect("a port").vl_high_limit;
    assert_eq!((1..=4).map(high).collect::<Vec<_>>(), [9; 4]);
    let sent = world.manager(at).status().wire.sent;
    world.manager(at).sweep(true);
    world.pass(SECOND);
    let again = world.manager(at).status().wire.sent - sent;
    assert!(again * 3 < sent, "{again} SMPs after {sent}");
}
