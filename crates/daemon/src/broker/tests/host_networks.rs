//! Requests about the networks of virtual hosts.

use libc::{ECANCELED, EEXIST, EINVAL, ENODEV, EPERM};

use weft_ipc::ethernet::{EthernetFailure, EthernetSpec};
use weft_ipc::fabric::FabricRequest;
use weft_ipoib::Mode;

use super::paths::Pair;
use super::*;
use crate::host_networks::Helper;

#[test]
fn a_host_sets_the_modes_of_its_own_interfaces_once_it_has_a_network() {
    let mut pair = Pair::of(false);
    let client = pair.programs[0].0;
    let set = |name: &str, connected| Request::SetIpoibMode { interface: name.to_owned(), connected };
    assert_eq!(pair.world.ask(client, set("ib0", true)), Err(ENODEV), "no network yet");
    assert_eq!(pair.world.ask(client, Request::HostNetwork), Ok(Response::HostNetwork { has_user: false }));
    let mode = |pair: &Pair| {
        let networks = &pair.world.broker.networks;
        networks.interface_modes().collect::<Vec<_>>()
    };
    assert_eq!(mode(&pair), [Some(Mode::Datagram)]);
    for (connected, expected) in [(true, Mode::Connected), (false, Mode::Datagram)] {
        assert_eq!(pair.world.ask(client, set("ib0", connected)), Ok(Response::Done));
        assert_eq!(mode(&pair), [Some(expected)]);
    }
    for name in ["ib1", "", "lo", "ib00"] {
        assert_eq!(pair.world.ask(client, set(name, true)), Err(ENODEV), "{name:?}");
    }
    // A program of no host, and another user's.
    let machine = pair.world.session(OWN);
    assert_eq!(pair.world.ask(machine, set("ib0", true)), Err(ENODEV));
    let stranger = pair.world.session(OWN + 1);
    assert_eq!(pair.world.ask(stranger, set("ib0", true)), Err(EPERM));
}

#[test]
fn a_host_loses_its_interfaces_with_their_module_and_gets_them_back() {
    let mut pair = Pair::of(false);
    let client = pair.programs[0].0;
    let set = |loaded| Request::SetModule { name: "ib_ipoib".to_owned(), loaded };
    assert_eq!(pair.world.ask(client, set(false)), Err(ENODEV), "no network yet");
    assert_eq!(pair.world.ask(client, Request::HostNetwork), Ok(Response::HostNetwork { has_user: false }));
    let interfaces = |pair: &Pair| pair.world.broker.networks.interface_modes().count();
    for loaded in [false, true, true, false, true] {
        assert_eq!(pair.world.ask(client, set(loaded)), Ok(Response::Done));
        assert_eq!(interfaces(&pair), usize::from(loaded));
        let modules = if loaded { vec!["ib_ipoib".to_owned()] } else { Vec::new() };
        assert_eq!(pair.world.ask(client, Request::Modules), Ok(Response::Modules(modules)));
    }
    let machine = pair.world.session(OWN);
    assert_eq!(pair.world.ask(machine, Request::Modules), Ok(Response::Modules(Vec::new())));
    let stranger = pair.world.session(OWN + 1);
    assert_eq!(pair.world.ask(stranger, set(false)), Err(EPERM));
    let bad = Request::SetModule { name: "a b".to_owned(), loaded: true };
    assert_eq!(pair.world.ask(machine, bad), Err(EINVAL));
}

const SPEC: EthernetSpec =
    EthernetSpec { hosts: 10, mtu: 1500, rate_mbps: None, delay: Duration::ZERO, loss_ppm: 0, seed: 1 };

/// Sends the request for a network, or sends it again as the server does with a deferred one. `None`: it is deferred.
fn bring_up(world: &mut World, client: ClientId) -> Option<Result<Response, i32>> {
    world.sent.remove(&client);
    let frame = encode(&ClientFrame { id: 5, request: Request::EthernetUp(SPEC) }).unwrap();
    if world.say(client, &frame, &[]) == Handled::Deferred {
        assert!(world.broker.poll_timeout().is_some_and(|at| at <= world.now), "it comes again at once");
        return None;
    }
    let (bytes, _) = world.sent.remove(&client)?.remove(0);
    match decode(&bytes).unwrap() {
        DaemonFrame::Reply { result, .. } => Some(result.map_err(|refusal| refusal.errno)),
        other => panic!("{other:?}"),
    }
}

fn failure(world: &mut World, client: ClientId) -> Option<Option<EthernetFailure>> {
    match world.ask(client, Request::EthernetStatus) {
        Ok(Response::Ethernet(status)) => status.map(|status| status.failure),
        other => panic!("{other:?}"),
    }
}

#[test]
fn other_requests_are_answered_while_the_hosts_of_an_ethernet_network_are_made() {
    let mut world = World::new(false);
    let (client, other) = (world.session(OWN), world.session(OWN));
    let mut turns = 0;
    let answer = loop {
        match bring_up(&mut world, client) {
            Some(answer) => break answer,
            None => turns += 1,
        }
        assert_eq!(failure(&mut world, other), None, "not up yet");
        assert_eq!(world.ask(other, Request::EthernetUp(SPEC)), Err(EEXIST));
    };
    assert_eq!((answer, turns), (Ok(Response::Done), 2));
    assert_eq!(failure(&mut world, other), Some(None));
    for helper in [Helper::Shaper, Helper::Provisioner] {
        world.broker.note_ended(helper);
        assert_eq!(failure(&mut world, other), Some(Some(EthernetFailure::Cables)), "the first failure");
    }
}

#[test]
fn an_ethernet_network_on_its_way_up_can_be_taken_down() {
    let mut world = World::new(false);
    let (client, other) = (world.session(OWN), world.session(OWN));
    assert_eq!(bring_up(&mut world, client), None);
    assert!(world.ask(other, Request::Fabric(FabricRequest::Down)).is_ok());
    assert_eq!(bring_up(&mut world, client), Some(Err(ECANCELED)));
    assert_eq!(bring_up(&mut world, client), None, "another attempt");
    world.broker.disconnect(world.now, client, &mut world.host);
    assert_eq!(bring_up(&mut world, other), None, "the network of a client that is gone is not in the way");
}
