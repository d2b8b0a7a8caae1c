//! Requests about the networks of virtual hosts.

use libc::{EINVAL, ENODEV, EPERM};

use weft_ipoib::Mode;

use super::paths::Pair;
use super::*;

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
