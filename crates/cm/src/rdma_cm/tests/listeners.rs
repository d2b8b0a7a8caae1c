//! Choice of the listener for a request, backlogs, and channels.

use weft_verbs::Duration;

use super::lab::{Lab, Program, at, param};
use crate::ib::limits::LISTENER_GRACE;
use crate::rdma_cm::*;

/// Returns whether a request to an address finds a listener at another.
fn reaches(listen: SockAddr, afonly: bool, dst: SockAddr) -> bool {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    let id = lab.tcp(server);
    if afonly {
        lab.order(server, Command::SetOption { id, option: IdOption::AfOnly(true) });
    }
    lab.order(server, Command::Bind { id, addr: listen });
    lab.order(server, Command::Listen { id, backlog: 1 });
    lab.asking(client, dst, &[]);
    lab.pass(LISTENER_GRACE);
    match lab.kinds(server).as_slice() {
        [] => assert_eq!(lab.kinds(client), [EventKind::Rejected]),
        kinds => assert_eq!(kinds, [EventKind::ConnectRequest]),
    }
    lab.ids(1) == 2
}

#[test]
fn wildcards_specific_addresses_and_families() {
    for (listen, afonly, dst, expected) in [
        ("0.0.0.0", false, "10.0.0.2", true),
        ("0.0.0.0", false, "fd00::2", false),
        ("::", false, "fd00::2", true),
        ("::", false, "10.0.0.2", true),
        ("::", true, "10.0.0.2", false),
        ("10.0.0.2", false, "10.0.0.2", true),
        ("fd00::2", false, "fd00::2", true),
        ("fd00::2", false, "10.0.0.2", false),
        ("127.0.0.1", false, "10.0.0.2", false),
    ] {
        let found = reaches(at(listen, 7174), afonly, at(dst, 7174));
        assert_eq!(found, expected, "{listen} {afonly} {dst}");
    }
    assert!(!reaches(at("0.0.0.0", 7174), false, at("10.0.0.2", 7175)), "another port");
}

#[test]
fn a_path_mtu_above_the_ports_is_rejected_before_the_program_hears_of_it() {
    for (mtu, rejected) in [(2, false), (3, false), (4, true), (5, true)] {
        let mut lab = Lab::new();
        let (client, server) = (lab.program(0), lab.program(1));
        lab.change_mtu(0, mtu);
        lab.listener(server, at("0.0.0.0", 7174), 1);
        lab.asking(client, at("10.0.0.2", 7174), &[]);
        lab.pass(LISTENER_GRACE);
        if rejected {
            assert_eq!(lab.event(client, EventKind::Rejected).status, 26);
            assert!(lab.kinds(server).is_empty());
        } else {
            assert_eq!(lab.kinds(server), [EventKind::ConnectRequest]);
        }
    }
}

#[test]
fn a_datagram_listener_takes_no_connections() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    let id = lab.id_of(server, PortSpace::Ib, 4);
    lab.order(server, Command::Bind { id, addr: at("0.0.0.0", 7174) });
    lab.order(server, Command::Listen { id, backlog: 1 });
    let id = lab.id_of(client, PortSpace::Ib, 2);
    lab.route(client, id, at("10.0.0.2", 7174));
    lab.order(client, Command::Connect { id, param: param(1, &[]), ece: Ece::default() });
    assert_eq!(lab.event(client, EventKind::Rejected).status, 28);
}

#[test]
fn an_unbound_id_listens_on_a_port_of_our_choice() {
    let mut lab = Lab::new();
    let server = lab.program(1);
    let id = lab.tcp(server);
    lab.order(server, Command::Listen { id, backlog: 0 });
    let Ok(Reply::Route(route)) = lab.command(server, Command::Query { id }) else { panic!() };
    assert!(route.src.is_some_and(|src| src.is_zero() && src.port() >= 32768));
}

#[test]
fn a_full_backlog_rejects_until_events_are_fetched() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    lab.listener(server, at("10.0.0.2", 7174), 2);
    lab.hosts[1].service.set_channel_ready(server.channel, false);
    for _ in 0..2 {
        lab.asking(client, at("10.0.0.2", 7174), &[]);
        assert!(lab.events(client).is_empty());
    }
    let before = lab.ids(1);
    lab.asking(client, at("10.0.0.2", 7174), &[]);
    assert_eq!(lab.event(client, EventKind::Rejected).status, 3, "no resources");
    assert_eq!(lab.ids(1), before);
    lab.hosts[1].service.set_channel_ready(server.channel, true);
    assert_eq!(lab.kinds(server), [EventKind::ConnectRequest; 2]);
    lab.asking(client, at("10.0.0.2", 7174), &[]);
    lab.event(server, EventKind::ConnectRequest);
}

#[test]
fn a_repeated_request_makes_one_id() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    lab.listener(server, at("10.0.0.2", 7174), 10);
    lab.asking(client, at("10.0.0.2", 7174), &[]);
    lab.event(server, EventKind::ConnectRequest);
    lab.pass(Duration::from_secs(30));
    assert!(lab.events(server).is_empty());
    assert_eq!(lab.ids(1), 2);
}

#[test]
fn a_destroyed_listener_rejects_what_nobody_fetched() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    let listener = lab.listener(server, at("10.0.0.2", 7174), 10);
    lab.hosts[1].service.set_channel_ready(server.channel, false);
    lab.asking(client, at("10.0.0.2", 7174), &[]);
    lab.settle();
    assert_eq!(lab.destroy(server, listener), 0);
    assert_eq!(lab.event(client, EventKind::Rejected).status, 28);
    assert_eq!(lab.ids(1), 0);
    lab.hosts[1].service.set_channel_ready(server.channel, true);
    assert!(lab.events(server).is_empty());
}

#[test]
fn a_fetched_request_outlives_its_listener() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    let listener = lab.listener(server, at("10.0.0.2", 7174), 10);
    let asking = lab.asking(client, at("10.0.0.2", 7174), &[]);
    let id = lab.event(server, EventKind::ConnectRequest).id;
    lab.destroy(server, listener);
    lab.accept(server, id, &[]);
    lab.event(client, EventKind::ConnectResponse);
    lab.confirm(client, asking);
    lab.event(server, EventKind::Established);
}

#[test]
fn a_migrated_id_tells_the_other_channel() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    let listener = lab.listener(server, at("10.0.0.2", 7174), 10);
    let other = lab.hosts[1].service.open_channel(server.client).unwrap();
    let stranger = lab.program(1).channel;
    lab.hosts[1].service.set_channel_ready(server.channel, false);
    lab.asking(client, at("10.0.0.2", 7174), &[]);
    lab.settle();
    let migrate = |channel: ChannelId| Command::MigrateId { id: listener, channel: channel.0 };
    assert_eq!(lab.command(server, migrate(stranger)), Err(errno::EINVAL));
    assert_eq!(lab.command(server, migrate(other)), Ok(Reply::EventsReported(0)));
    let moved = Program { channel: other, ..server };
    let request = lab.event(moved, EventKind::ConnectRequest);
    lab.accept(moved, request.id, &[]);
    lab.hosts[1].service.close_channel(lab.now, server.channel);
    lab.event(client, EventKind::ConnectResponse);
    lab.hosts[1].service.close_channel(lab.now, other);
    assert_eq!(lab.ids(1), 0);
}

#[test]
fn two_listeners_share_a_port_on_two_addresses() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    let a = lab.listener(server, at("10.0.0.2", 7174), 10);
    let b = lab.listener(server, at("fd00::2", 7174), 10);
    lab.asking(client, at("10.0.0.2", 7174), &[]);
    assert_eq!(lab.event(server, EventKind::ConnectRequest).listener, Some(a));
    lab.asking(client, at("fd00::2", 7174), &[]);
    assert_eq!(lab.event(server, EventKind::ConnectRequest).listener, Some(b));
    lab.destroy(server, a);
    lab.asking(client, at("10.0.0.2", 7174), &[]);
    assert_eq!(lab.event(client, EventKind::Rejected).status, 28);
    lab.asking(client, at("fd00::2", 7174), &[]);
    lab.event(server, EventKind::ConnectRequest);
}
