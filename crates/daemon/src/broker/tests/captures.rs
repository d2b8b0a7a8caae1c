//! Captures: who may, how many, of which hosts, and that the tap is closed when none is left.

use weft_fabric::{MadAddress, MadOut, PortRef};
use weft_ipc::Captured;
use weft_wire::lrh::LID_PERMISSIVE;
use weft_wire::mad::subn::Smp;
use weft_wire::mad::{AttrId, Method};

use super::paths::Pair;
use super::*;
use crate::limits::CAPTURES_MAX;

fn capture(world: &mut World, client: ClientId, hosts: &[&str]) -> Result<(), i32> {
    let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
    world.ask(client, Request::Capture { hosts }).map(|response| assert_eq!(response, Response::Capture))
}

fn fabric(world: &mut World) -> &mut weft_fabric::Fabric {
    world.broker.shared.fabric.running_mut().expect("a fabric").fabric_mut()
}

/// The first host asks its own port.
fn ask_own_port(world: &mut World) {
    let smp = Smp::directed(Method::GET, 9, AttrId::PORT_INFO, 1, 0, &[]).expect("no way");
    let out = MadOut { to: MadAddress::smi(LID_PERMISSIVE), mad: smp.to_mad() };
    let fabric = fabric(world);
    fabric.send(weft_verbs::Instant(0), PortRef::new(0, 1), &out).expect("a host's port");
    assert!(fabric.poll_delivery().is_some());
    let now = world.now;
    world.broker.carry_captured(now, &mut world.host);
}

#[test]
fn each_capture_has_its_hosts_packets() {
    let mut pair = Pair::of(false);
    let world = &mut pair.world;
    let [all, first, second] = [&[][..], &["node1"], &["node2"]].map(|hosts| {
        let client = world.session(0);
        assert_eq!(capture(world, client, hosts), Ok(()));
        client
    });
    ask_own_port(world);
    let directions = |world: &World, client| -> Vec<bool> {
        let packets = world.host.captures[&client].iter();
        packets.map(|packet| matches!(packet, Captured::Packet { sent: true, .. })).collect()
    };
    assert_eq!(
        [all, first, second].map(|client| directions(world, client)),
        [vec![true, false], vec![true, false], vec![]]
    );
    for client in [all, first, second] {
        assert!(fabric(world).is_tapped());
        world.broker.disconnect(world.now, client, &mut world.host);
    }
    assert!(!fabric(world).is_tapped() && world.host.captures.is_empty());
}

#[test]
fn captures_are_bounded_and_for_the_trusted() {
    let mut world = World::new(false);
    let client = world.session(0);
    assert_eq!(capture(&mut world, client, &[]), Err(refusal::ENODEV), "there is no fabric");
    let mut pair = Pair::of(false);
    let world = &mut pair.world;
    let stranger = world.session(OWN + 1);
    assert_eq!(capture(world, stranger, &[]), Err(refusal::EPERM));
    let client = world.session(0);
    assert_eq!(capture(world, client, &["nobody"]), Err(refusal::ENODEV));
    assert_eq!(capture(world, client, &["node1"; weft_ipc::CAPTURE_HOSTS_MAX + 1]), Err(refusal::EINVAL));
    assert!(!fabric(world).is_tapped());
    assert_eq!(capture(world, client, &[]), Ok(()));
    assert_eq!(capture(world, client, &[]), Err(refusal::EALREADY));
    for _ in 1..CAPTURES_MAX {
        let client = world.session(0);
        assert_eq!(capture(world, client, &[]), Ok(()));
    }
    let client = world.session(0);
    assert_eq!(capture(world, client, &[]), Err(refusal::EMFILE));
}
