//! Options of opensm.conf that matter to an administrator, each read back from the fabric.

use weft_fabric::PortRef;
use weft_fabric::topology::generate::Shape;
use weft_sim::subnet::World;
use weft_sm::manager::{Event, Setup};
use weft_sm::options::{self, Level, Options};
use weft_verbs::Duration;
use weft_wire::mad::subn::{LinkSpeed, LinkSpeedExt, LinkSpeedExt2, LinkWidth, PortInfo, SmState};

const SECOND: Duration = Duration::from_secs(1);

/// Returns the settings of a manager with this file.
fn configured(own: u64, text: &str, file: &str) -> Setup {
    let (options, diagnostics) = options::parse(text, "opensm.conf", Options::default());
    assert!(diagnostics.iter().all(|diagnostic| diagnostic.level < Level::Error), "{text}: {diagnostics:?}");
    assert!(diagnostics.iter().all(|diagnostic| !diagnostic.what.contains("no effect")), "{text}: {diagnostics:?}");
    Setup::configured(own, &options, &mut |_| if file.is_empty() { Err("none".into()) } else { Ok(file.into()) }).0
}

fn tree() -> World {
    World::new(Shape::FatTree { radix: 4, levels: 2, hosts: None, hosts_per_leaf: None }, 1)
}

/// Creates a fabric under a manager with this file, at the first host.
fn under(text: &str) -> World {
    let mut world = tree();
    let at = world.host(0);
    world.start(at, |setup| *setup = configured(setup.own_guid, text, ""));
    world.pass(SECOND);
    assert_eq!(world.masters(), [at], "{text}{}", world.log());
    world
}

/// Returns a host's port, a switch's port that faces a host, one that faces a switch, and a switch's port 0.
fn ports(world: &World) -> [PortInfo; 4] {
    let host = world.host(1);
    let leaf = world.fabric.peer(host).expect("a cable");
    let mut up = (1..=4).map(|port| PortRef::new(leaf.node, port));
    let up = up.rfind(|at| world.fabric.peer(*at).is_some_and(|peer| world.fabric.port_count(peer.node) == 4));
    let of = |at: PortRef| world.fabric.port_info(at).expect("a port");
    [of(host), of(leaf), of(up.expect("an uplink")), of(PortRef::new(leaf.node, 0))]
}

fn serves(world: &World, at: PortRef) -> bool {
    world.managers[&at].manager.status().is_up
}

/// A line of the file, and a check that the ports follow it.
type Row = (&'static str, fn([PortInfo; 4]) -> bool);

const ROWS: &[Row] = &[
    ("lmc 2", |[host, ..]| host.lmc == 2),
    ("lmc 1\nlmc_esp0 TRUE", |[.., zero]| zero.lmc == 1),
    ("sm_sl 3", |[host, ..]| host.master_sm_sl == 3),
    ("subnet_prefix 0xfec0000000000001", |[host, ..]| host.gid_prefix == 0xfec0_0000_0000_0001),
    ("subnet_timeout 10", |[host, .., zero]| (host.subnet_timeout, zero.subnet_timeout) == (10, 10)),
    ("m_key 0x1234\nm_key_protection_level 1\nm_key_lease_period 60", |[host, ..]| {
        (host.mkey, host.mkey_protect_bits, host.mkey_lease_period) == (0x1234, 1, 60)
    }),
    ("max_op_vls 2", |[host, leaf, up, _]| [host, leaf, up].iter().all(|port| port.operational_vls == 2)),
    ("head_of_queue_lifetime 9\nleaf_head_of_queue_lifetime 8", |[_, leaf, up, _]| {
        (leaf.hoq_life, up.hoq_life) == (8, 9)
    }),
    ("vl_stall_count 3\nleaf_vl_stall_count 2", |[_, leaf, up, _]| (leaf.vl_stall_count, up.vl_stall_count) == (2, 3)),
    ("local_phy_errors_threshold 5\noverrun_errors_threshold 6", |[host, leaf, ..]| {
        [host, leaf].iter().all(|port| (port.local_phy_errors, port.overrun_errors) == (5, 6))
    }),
    ("force_link_width 1", |[host, leaf, up, _]| {
        [host, leaf, up].iter().all(|port| port.link_width_enabled == LinkWidth::X1)
    }),
    ("force_link_speed 1", |[host, leaf, up, _]| {
        [host, leaf, up].iter().all(|port| port.link_speed_enabled == LinkSpeed::from_bits_retain(1))
    }),
    ("force_link_speed_ext 30", |[host, leaf, up, _]| {
        let none = |port: &PortInfo| port.link_speed_ext_enabled.is_empty() && port.link_speed_ext_enabled2.is_empty();
        [host, leaf, up].iter().all(none)
    }),
    ("force_link_speed_ext 2", |[host, leaf, up, _]| {
        let edr = LinkSpeedExt::from_bits_retain(2);
        [host, leaf, up]
            .iter()
            .all(|port| (port.link_speed_ext_enabled, port.link_speed_ext_enabled2) == (edr, LinkSpeedExt2::empty()))
    }),
];

#[test]
fn ports_have_what_the_file_says() {
    for (text, holds) in ROWS {
        let world = under(text);
        assert!(holds(ports(&world)), "{text}: {:#?}", ports(&world));
        let default = under("");
        assert!(!holds(ports(&default)), "{text} would hold by itself");
    }
}

#[test]
fn forced_speeds_are_set_once_and_freed_again() {
    let mut world = under("force_link_speed_ext 2\nforce_link_width 1");
    let at = world.host(0);
    let own = world.fabric.port_guid(at).expect("a port");
    let sent = world.manager(at).status().wire.sent;
    world.manager(at).sweep(true);
    world.pass(SECOND);
    let again = world.manager(at).status().wire.sent - sent;
    assert!(again * 2 < sent, "{again} SMPs after {sent}");
    world.manager(at).reload(configured(own, "", ""));
    world.pass(SECOND);
    let [host, leaf, up, _] = ports(&world);
    for port in [host, leaf, up] {
        assert_eq!(port.link_width_enabled, port.link_width_supported);
        assert_eq!(port.link_speed_ext_enabled, port.link_speed_ext_supported);
    }
}

#[test]
fn a_switch_lets_packets_live_as_long_as_the_file_says() {
    let world = under("packet_life_time 7");
    assert_eq!(world.fabric.switch_info(world.switch(0)).expect("a switch").life_time_value, 7);
}

#[test]
fn nodes_are_called_as_the_map_says() {
    let mut world = tree();
    let (at, guid) = (world.host(0), world.fabric.port_guid(PortRef::new(world.switch(0), 0)).expect("a switch"));
    let map = format!("{guid:#x} \"the first leaf\"\n");
    world.start(at, |setup| *setup = configured(setup.own_guid, "node_name_map_name map", &map));
    world.pass(SECOND);
    let called = world.count(|event| matches!(event, Event::Appeared { name, .. } if name == "the first leaf"));
    assert_eq!(called, 1, "{}", world.log());
}

#[test]
fn hosts_register_again_unless_they_are_not_to() {
    for (text, wanted) in [("", true), ("no_clients_rereg TRUE", false)] {
        let world = under(text);
        assert_eq!(world.reregistered > 0, wanted, "{text}");
    }
}

#[test]
fn no_sweep_begins_while_sweeping_is_off() {
    let mut world = under("sweep_interval 1");
    let at = world.host(0);
    world.manager(at).set_sweeping(false);
    world.pass(2 * SECOND);
    let before = world.manager(at).status().sweeps;
    world.manager(at).sweep(true);
    world.pass(10 * SECOND);
    assert_eq!(world.manager(at).status().sweeps, before);
    world.manager(at).set_sweeping(true);
    world.pass(5 * SECOND);
    assert!(world.manager(at).status().sweeps > before + 2, "{}", world.log());
}

#[test]
fn who_stands_by_takes_over_within_twice_the_time_between_its_polls() {
    for retries in ["1", "2", "4", "9"] {
        for polling in ["10000", "1000", "200"] {
            let text = format!("sminfo_polling_timeout {polling}\npolling_retry_number {retries}");
            let mut world = tree();
            let (first, second) = (world.host(0), world.host(3));
            for (at, priority) in [(first, 3), (second, 2)] {
                world.start(at, |setup| {
                    *setup = configured(setup.own_guid, &text, "");
                    setup.sm_priority = priority;
                });
                world.pass(3 * SECOND);
            }
            assert_eq!(world.masters(), [first], "{}", world.log());
            let polling = Duration::from_millis(polling.parse().expect("a number"));
            for answers in [true, false] {
                // Once dead, its system rejects queries or answers nothing at all; alive, it stays master.
                world.pass(5 * polling);
                assert_eq!(world.masters(), [first], "{text}{}", world.log());
                if !answers {
                    world.fabric.power_off(world.now, first.node).expect("a host");
                }
                let began = world.now;
                world.kill(first);
                let taken = world.until(2 * polling, |world| world.masters() == [second] && serves(world, second));
                assert!(taken, "{text}, {answers}: {:?}{}", world.now.since(began), world.log());
                if !answers {
                    continue;
                }
                world.start(first, |setup| {
                    *setup = configured(setup.own_guid, &text, "");
                    setup.sm_priority = 3;
                });
                world.pass(5 * SECOND + 5 * polling);
                assert_eq!(world.manager(second).status().state, SmState::STANDBY, "{}", world.log());
            }
        }
    }
}

#[test]
fn an_m_key_is_changed_while_ports_are_guarded_by_another() {
    let text = |key: &str| format!("m_key {key}\nm_key_protection_level 2\nm_key_lease_period 600\nsweep_interval 5");
    let mut world = under(&text("0x1234"));
    let at = world.host(0);
    let own = world.fabric.port_guid(at).expect("a port");
    let has = |world: &World, key: u64| {
        let [host, .., zero] = ports(world);
        (host.mkey, zero.mkey) == (key, key)
    };
    assert!(has(&world, 0x1234));
    world.manager(at).reload(configured(own, &text("0x5678"), ""));
    world.pass(5 * SECOND);
    assert!(has(&world, 0x5678), "{}", world.log());
    assert_eq!(world.count(|event| matches!(event, Event::Gone { .. })), 0, "{}", world.log());
    // Another manager, at another host, that knows only the earlier keys.
    let keys = world.manager(at).guid2mkey();
    world.kill(at);
    let other = world.host(3);
    world.start(other, |setup| {
        *setup = configured(setup.own_guid, &text("0x9abc"), "");
        setup.guid2mkey = keys;
    });
    world.pass(30 * SECOND);
    assert!(has(&world, 0x9abc), "{}", world.log());
    assert!(world.managers[&other].manager.status().is_up, "{}", world.log());
}
