//! Requests about the networks of virtual hosts.

use libc::{ENODEV, EPERM};
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
