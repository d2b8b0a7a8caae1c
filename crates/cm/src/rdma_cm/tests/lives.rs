//! Programs that end, and devices that disappear, at any point: nothing is left behind, and peers are informed.

use weft_verbs::Duration;

use super::lab::{Lab, Program, at};
use crate::rdma_cm::errno::*;
use crate::rdma_cm::*;

/// A client and a server brought to some point of a connection's life.
type Scene = (&'static str, fn(&mut Lab, Program, Program));

const SCENES: &[Scene] = &[
    ("nothing", |_, _, _| ()),
    ("bound", |lab, client, _| {
        let id = lab.tcp(client);
        lab.order(client, Command::Bind { id, addr: at("10.0.0.1", 7000) });
    }),
    ("resolving", |lab, client, _| {
        let id = lab.tcp(client);
        lab.answers = false;
        lab.order(client, Command::ResolveAddr { id, src: None, dst: at("10.0.0.2", 7174), timeout_ms: 2000 });
        lab.settle();
    }),
    ("resolved", |lab, client, _| {
        let id = lab.tcp(client);
        lab.route(client, id, at("10.0.0.2", 7174));
    }),
    ("asked, and nothing arrived", |lab, client, _| {
        lab.cable = false;
        lab.asking(client, at("10.0.0.2", 7174), &[]);
        lab.settle();
        lab.cable = true;
    }),
    ("asked", |lab, client, server| {
        lab.asking(client, at("10.0.0.2", 7174), &[]);
        lab.event(server, EventKind::ConnectRequest);
    }),
    ("answered", |lab, client, server| {
        lab.asking(client, at("10.0.0.2", 7174), &[]);
        let id = lab.event(server, EventKind::ConnectRequest).id;
        lab.accept(server, id, &[]);
        lab.event(client, EventKind::ConnectResponse);
    }),
    ("answered, and nothing arrived", |lab, client, server| {
        lab.asking(client, at("10.0.0.2", 7174), &[]);
        let id = lab.event(server, EventKind::ConnectRequest).id;
        lab.cable = false;
        lab.accept(server, id, &[]);
        lab.settle();
        lab.cable = true;
    }),
    ("rejected", |lab, client, server| {
        lab.asking(client, at("10.0.0.2", 7174), &[]);
        let id = lab.event(server, EventKind::ConnectRequest).id;
        lab.order(server, Command::Reject { id, private_data: vec![], reason: 0 });
        lab.event(client, EventKind::Rejected);
    }),
    ("connected", |lab, client, server| {
        lab.connection(client, server, at("10.0.0.2", 7174));
    }),
    ("disconnecting", |lab, client, server| {
        let (id, _) = lab.connection(client, server, at("10.0.0.2", 7174));
        lab.order(client, Command::Disconnect { id });
        lab.event(server, EventKind::Disconnected);
    }),
    ("disconnected", |lab, client, server| {
        let (id, other) = lab.connection(client, server, at("10.0.0.2", 7174));
        lab.order(client, Command::Disconnect { id });
        lab.order(server, Command::Disconnect { id: other });
        lab.settle();
    }),
];

/// Plays a scene and ends one side; both must be clean once the other side's id is destroyed as well.
fn end_in(scene: &Scene, first: usize) {
    let (name, play) = scene;
    let mut lab = Lab::new();
    let programs = [lab.program(0), lab.program(1)];
    lab.listener(programs[1], at("0.0.0.0", 7174), 10);
    play(&mut lab, programs[0], programs[1]);
    for host in [first, 1 - first] {
        let client = programs[host].client;
        lab.hosts[host].service.close_client(lab.now, client);
        lab.pass(Duration::from_secs(5));
        assert_eq!(lab.ids(host), 0, "{name}");
    }
    assert!(lab.is_clean(0), "{name}: the client's host");
    assert!(lab.is_clean(1), "{name}: the server's host");
}

#[test]
fn a_client_killed_in_any_state_leaves_nothing() {
    for scene in SCENES {
        end_in(scene, 0);
    }
}

#[test]
fn a_server_killed_in_any_state_leaves_nothing() {
    for scene in SCENES {
        end_in(scene, 1);
    }
}

#[test]
fn the_peer_of_a_killed_program_is_told() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    lab.listener(server, at("0.0.0.0", 7174), 10);
    lab.connection(client, server, at("10.0.0.2", 7174));
    lab.hosts[0].service.close_client(lab.now, client.client);
    lab.event(server, EventKind::Disconnected);
    let client = lab.program(0);
    lab.asking(client, at("10.0.0.2", 7174), &[]);
    lab.event(server, EventKind::ConnectRequest);
    lab.hosts[1].service.close_client(lab.now, server.client);
    lab.event(client, EventKind::Rejected);
}

#[test]
fn a_removed_device_ends_what_is_on_it() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    let listener = lab.listener(server, at("0.0.0.0", 7174), 10);
    let (asking, answering) = lab.connection(client, server, at("10.0.0.2", 7174));
    lab.hosts[1].service.remove_device(lab.now, 1);
    assert_eq!(lab.event(server, EventKind::DeviceRemoval).id, answering);
    assert_eq!(lab.command(server, Command::Disconnect { id: answering }), Err(EINVAL));
    assert_eq!(lab.destroy(server, answering), 2);
    lab.order(client, Command::Disconnect { id: asking });
    lab.hosts[0].service.remove_device(lab.now, 1);
    assert_eq!(lab.kinds(client).last(), Some(&EventKind::DeviceRemoval));
    lab.destroy(server, listener);
    lab.destroy(client, asking);
    assert!(lab.is_clean(0) && lab.is_clean(1));
}

#[test]
fn an_address_that_goes_is_told_to_those_who_use_it() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    let id = lab.tcp(p);
    lab.order(p, Command::Bind { id, addr: at("10.0.0.1", 7000) });
    let other = lab.tcp(p);
    lab.order(p, Command::Bind { id: other, addr: at("fd00::1", 7000) });
    lab.change_addresses(0, &["10.0.0.7", "fd00::1", "fe80::1"]);
    assert_eq!(lab.event(p, EventKind::AddrChange).id, id);
    lab.change_addresses(0, &["10.0.0.7", "fd00::1", "fe80::1", "10.0.0.8"]);
    assert!(lab.events(p).is_empty(), "told once");
}

#[test]
fn what_nobody_has_read_is_not_reported() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    let listener = lab.listener(server, at("10.0.0.2", 7174), 2);
    for _ in 0..2 {
        lab.asking(client, at("10.0.0.2", 7174), &[]);
    }
    let requests = lab.events(server);
    assert_eq!(requests.len(), 2);
    let service = &mut lab.hosts[1].service;
    assert_eq!(service.recalls(&Command::Query { id: listener }), None);
    assert_eq!(service.recalls(&Command::DestroyId { id: listener }), Some(server.channel));
    service.put_back(server.channel, requests.clone());
    assert_eq!(lab.events(server), requests, "in their order");
    lab.hosts[1].service.put_back(server.channel, requests[1..].to_vec());
    assert_eq!(lab.destroy(server, listener), 1);
    assert_eq!(lab.event(client, EventKind::Rejected).status, 28);
    assert_eq!(lab.ids(1), 1, "the one that was read");
}
