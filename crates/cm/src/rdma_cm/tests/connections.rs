//! Connections from one host to the other.

use weft_verbs::Duration;

use super::lab::{COOKIE_ACCEPTED, Lab, at, param};
use crate::ib::limits::LISTENER_GRACE;
use crate::rdma_cm::errno::*;
use crate::rdma_cm::*;

fn conn_of(event: &CmEvent) -> &ConnParam {
    match &event.param {
        EventParam::Conn(param) => param,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_is_made_used_and_ended() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    let listener = lab.listener(server, at("0.0.0.0", 7174), 10);
    let asking = lab.asking(client, at("10.0.0.2", 7174), b"hello");

    let request = lab.event(server, EventKind::ConnectRequest);
    assert_eq!((request.listener, request.cookie), (Some(listener), 100));
    let param = conn_of(&request);
    assert_eq!(&param.private_data[..6], b"hello\0");
    assert_eq!(param.private_data.len(), 56);
    assert_eq!((param.qp_num, param.responder_resources, param.initiator_depth), (0x11, 3, 4));
    assert_eq!((param.retry_count, param.rnr_retry_count, param.srq), (7, 7, false));
    lab.accept(server, request.id, b"welcome");

    let response = lab.event(client, EventKind::ConnectResponse);
    assert_eq!(&conn_of(&response).private_data[..8], b"welcome\0");
    assert_eq!(conn_of(&response).private_data.len(), 196);
    assert_eq!(conn_of(&response).qp_num, 0x12);
    lab.confirm(client, asking);
    let established = lab.event(server, EventKind::Established);
    assert_eq!((established.id, established.cookie), (request.id, COOKIE_ACCEPTED));

    lab.order(client, Command::Disconnect { id: asking });
    assert_eq!(lab.event(server, EventKind::Disconnected).id, request.id);
    assert!(lab.events(client).is_empty(), "the server has not agreed yet");
    lab.order(server, Command::Disconnect { id: request.id });
    lab.event(client, EventKind::Disconnected);
    lab.pass(Duration::from_secs(60));
    lab.event(client, EventKind::TimewaitExit);
    lab.event(server, EventKind::TimewaitExit);
    assert_eq!(lab.destroy(client, asking), 5);
    assert_eq!(lab.destroy(server, request.id), 3);
    assert_eq!(lab.destroy(server, listener), 1);
    assert!(lab.is_clean(0) && lab.is_clean(1));
}

#[test]
fn both_sides_know_where_they_are_and_how_to_modify_their_queue_pairs() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    lab.listener(server, at("::", 7174), 10);
    let (asking, answering) = lab.connection(client, server, at("fd00::2", 7174));
    let mut ask = |program, command| lab.command(program, command).unwrap();
    let Reply::Route(here) = ask(client, Command::Query { id: asking }) else { panic!() };
    let Reply::Route(there) = ask(server, Command::Query { id: answering }) else { panic!() };
    assert_eq!((here.src, here.dst), (there.dst, there.src));
    assert_eq!((here.sgid, here.dgid), (there.dgid, there.sgid));
    assert_eq!(there.device.map(|device| device.index), Some(1));
    assert_eq!(there.paths.len(), 1);
    let mut attr = |program, id, qp_state| match ask(program, Command::InitQpAttr { id, qp_state }) {
        Reply::QpAttributes(attributes) => *attributes,
        other => panic!("{other:?}"),
    };
    let (client_rtr, server_rtr) = (attr(client, asking, 2), attr(server, answering, 2));
    let (client_rts, server_rts) = (attr(client, asking, 3), attr(server, answering, 3));
    assert_eq!((client_rtr.dest_qp_num, server_rtr.dest_qp_num), (0x12, 0x11));
    assert_eq!((client_rtr.rq_psn, server_rtr.rq_psn), (server_rts.sq_psn, client_rts.sq_psn));
    assert_eq!(ip_of_gid(client_rtr.ah_attr.dgid).to_string(), "fd00::2");
    assert_eq!(ip_of_gid(server_rtr.ah_attr.dgid).to_string(), "fd00::1");
    assert_eq!((client_rtr.path_mtu, client_rtr.ah_attr.hop_limit, client_rtr.ah_attr.sgid_index), (3, 64, 1));
    assert_eq!(client_rtr.mask, 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20);
    assert_eq!(client_rts.mask, 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16);
    assert_eq!((client_rts.timeout, client_rts.retry_cnt, client_rts.rnr_retry), (19, 7, 7));
    // The number that the peer said it accepts.
    assert_eq!(client_rts.max_rd_atomic, 4);
    let init = attr(client, asking, 1);
    assert_eq!((init.mask, init.port_num), (1 | 1 << 3 | 1 << 4 | 1 << 5, 1));
    // The peer may WRITE, READ, change by atomics, and FLUSH.
    assert_eq!(init.qp_access_flags, 2 | 4 | 8 | 1 << 8 | 1 << 9);
    assert_eq!(lab.command(client, Command::InitQpAttr { id: asking, qp_state: 5 }), Err(EINVAL));
}

#[test]
fn a_reject_carries_reason_and_data() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    lab.listener(server, at("10.0.0.2", 7174), 10);
    lab.asking(client, at("10.0.0.2", 7174), &[]);
    let id = lab.event(server, EventKind::ConnectRequest).id;
    assert_eq!(lab.command(server, Command::Reject { id, private_data: vec![], reason: 3 }), Err(EINVAL));
    lab.order(server, Command::Reject { id, private_data: b"no".to_vec(), reason: 0 });
    let rejected = lab.event(client, EventKind::Rejected);
    assert_eq!(rejected.status, 28);
    assert_eq!((&conn_of(&rejected).private_data[..3], conn_of(&rejected).private_data.len()), (&b"no\0"[..], 148));
    assert!(lab.events(server).is_empty());
}

#[test]
fn nobody_there_rejects_and_no_cable_is_unreachable() {
    let mut lab = Lab::new();
    let client = lab.program(0);
    lab.asking(client, at("10.0.0.2", 7174), &[]);
    lab.pass(LISTENER_GRACE);
    assert_eq!(lab.event(client, EventKind::Rejected).status, 8, "no such service");
    lab.cable = false;
    lab.asking(client, at("10.0.0.2", 7174), &[]);
    lab.pass(Duration::from_secs(50));
    assert!(lab.events(client).is_empty());
    lab.pass(Duration::from_secs(600));
    assert_eq!(lab.event(client, EventKind::Unreachable).status, -ETIMEDOUT);
}

#[test]
fn lost_packets_are_sent_again() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    lab.listener(server, at("10.0.0.2", 7174), 10);
    lab.cable = false;
    let asking = lab.asking(client, at("10.0.0.2", 7174), &[]);
    lab.settle();
    lab.cable = true;
    lab.pass(Duration::from_secs(10));
    let id = lab.event(server, EventKind::ConnectRequest).id;
    lab.cable = false;
    lab.accept(server, id, &[]);
    lab.settle();
    lab.cable = true;
    lab.pass(Duration::from_secs(300));
    lab.event(client, EventKind::ConnectResponse);
    lab.confirm(client, asking);
    lab.event(server, EventKind::Established);
}

#[test]
fn a_program_that_thinks_long_is_waited_for() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    lab.listener(server, at("10.0.0.2", 7174), 10);
    let asking = lab.asking(client, at("10.0.0.2", 7174), &[]);
    let id = lab.event(server, EventKind::ConnectRequest).id;
    lab.pass(Duration::from_secs(50));
    lab.accept(server, id, &[]);
    lab.event(client, EventKind::ConnectResponse);
    lab.pass(Duration::from_secs(50));
    lab.confirm(client, asking);
    lab.event(server, EventKind::Established);
}

#[test]
fn private_data_of_every_legal_length_and_none_longer() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    lab.listener(server, at("10.0.0.2", 7174), 100);
    for len in [0, 1, 55, 56] {
        let data = vec![0xa5; len];
        lab.asking(client, at("10.0.0.2", 7174), &data);
        let request = lab.event(server, EventKind::ConnectRequest);
        assert_eq!(conn_of(&request).private_data[..len], data);
        let data = vec![0x5a; len * 3 + 28];
        lab.accept(server, request.id, &data);
        let response = lab.event(client, EventKind::ConnectResponse);
        assert_eq!(conn_of(&response).private_data[..data.len()], data);
    }
    let id = lab.tcp(client);
    lab.route(client, id, at("10.0.0.2", 7174));
    let connect = |len: usize| Command::Connect { id, param: param(1, &vec![0; len]), ece: Ece::default() };
    for len in [57, 92, 255, 256, 4000] {
        assert_eq!(lab.command(client, connect(len)), Err(EINVAL), "{len}");
    }
    lab.order(client, connect(56));
}

#[test]
fn commands_in_the_wrong_state_are_refused() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    let listener = lab.listener(server, at("10.0.0.2", 7174), 10);
    let id = lab.tcp(client);
    let (ece, cookie) = (Ece::default(), 1);
    let commands = |id| {
        [
            Command::Connect { id, param: param(1, &[]), ece },
            Command::Accept { id, cookie, param: Some(param(1, &[])), ece },
            Command::Accept { id, cookie, param: None, ece },
            Command::Reject { id, private_data: vec![], reason: 0 },
            Command::Disconnect { id },
            Command::Notify { id, event: 4 },
        ]
    };
    for command in commands(id) {
        assert_eq!(lab.command(client, command), Err(EINVAL));
    }
    for command in commands(listener) {
        assert_eq!(lab.command(server, command), Err(EINVAL));
    }
    assert_eq!(lab.command(server, Command::Listen { id: listener, backlog: 1 }), Err(EINVAL), "listens already");
    for command in commands(9999) {
        assert_eq!(lab.command(client, command), Err(ENOENT));
    }
}

#[test]
fn establish_does_without_the_last_message() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    lab.listener(server, at("10.0.0.2", 7174), 10);
    let asking = lab.asking(client, at("10.0.0.2", 7174), &[]);
    let id = lab.event(server, EventKind::ConnectRequest).id;
    assert_eq!(lab.command(server, Command::Notify { id, event: 4 }), Err(EINVAL), "not answered yet");
    lab.accept(server, id, &[]);
    lab.event(client, EventKind::ConnectResponse);
    lab.order(server, Command::Notify { id, event: 4 });
    lab.event(server, EventKind::Established);
    assert_eq!(lab.command(server, Command::Notify { id, event: 4 }), Err(EISCONN));
    lab.confirm(client, asking);
    assert!(lab.events(server).is_empty(), "told once");
}

#[test]
fn a_peer_that_vanished_is_disconnected_from_all_the_same() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    lab.listener(server, at("10.0.0.2", 7174), 10);
    let (asking, _) = lab.connection(client, server, at("10.0.0.2", 7174));
    lab.cable = false;
    lab.order(client, Command::Disconnect { id: asking });
    lab.pass(Duration::from_secs(3600));
    let events = lab.events(client);
    let told: Vec<_> = events.iter().map(|event| (event.kind, event.status)).collect();
    assert_eq!(told, [(EventKind::Disconnected, -ETIMEDOUT), (EventKind::TimewaitExit, 0)]);
}

#[test]
fn both_sides_may_disconnect_at_once() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    lab.listener(server, at("10.0.0.2", 7174), 10);
    let (asking, answering) = lab.connection(client, server, at("10.0.0.2", 7174));
    for _ in 0..2 {
        lab.order(client, Command::Disconnect { id: asking });
        lab.order(server, Command::Disconnect { id: answering });
        lab.settle();
    }
    lab.pass(Duration::from_secs(600));
    assert_eq!(lab.kinds(client), [EventKind::Disconnected, EventKind::TimewaitExit]);
    assert_eq!(lab.kinds(server), [EventKind::Disconnected, EventKind::TimewaitExit]);
}

#[test]
fn options_of_a_vendor_travel_both_ways() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    lab.listener(server, at("10.0.0.2", 7174), 10);
    let id = lab.tcp(client);
    lab.route(client, id, at("10.0.0.2", 7174));
    let ece = Ece { vendor_id: 0x15b3, attr_mod: 7 };
    lab.order(client, Command::Connect { id, param: param(1, &[]), ece });
    let request = lab.event(server, EventKind::ConnectRequest);
    assert_eq!(request.ece, ece);
    let ece = Ece { vendor_id: 0x15b3, attr_mod: 0 };
    let param = Some(param(2, &[]));
    lab.order(server, Command::Accept { id: request.id, cookie: 5, param, ece });
    assert_eq!(lab.event(client, EventKind::ConnectResponse).ece.vendor_id, 0x15b3);
}

#[test]
fn one_host_connects_to_itself() {
    for dst in ["127.0.0.1", "::1", "10.0.0.1", "fd00::1"] {
        let mut lab = Lab::new();
        let (client, server) = (lab.program(0), lab.program(0));
        lab.listener(server, at("::", 7174), 10);
        let (asking, answering) = lab.connection(client, server, at(dst, 7174));
        assert_ne!(asking, answering);
        lab.order(server, Command::Disconnect { id: answering });
        lab.event(client, EventKind::Disconnected);
    }
}

#[test]
fn gids_connect_without_a_header() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    let gid = gid_of_ip("10.0.0.2".parse().unwrap());
    let ib = |gid, sid| SockAddr::Ib(SockAddrIb { gid, sid, sid_mask: u64::MAX, ..SockAddrIb::default() });
    lab.listener(server, ib([0; 16], 0x0106_1c06), 1);
    let id = lab.id_of(client, PortSpace::Ib, 2);
    lab.route(client, id, ib(gid, 0x0106_1c06));
    lab.order(client, Command::Connect { id, param: param(1, &[3; 92]), ece: Ece::default() });
    let request = lab.event(server, EventKind::ConnectRequest);
    assert_eq!(conn_of(&request).private_data, [3; 92]);
    let Ok(Reply::Route(route)) = lab.command(server, Command::Query { id: request.id }) else { panic!() };
    assert!(matches!(route.src, Some(SockAddr::Ib(own)) if own.gid == gid && own.sid == 0x0106_1c06));
    lab.accept(server, request.id, &[]);
    lab.event(client, EventKind::ConnectResponse);
}

#[test]
fn extended_connections_know_their_ends() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    let listener = lab.id_of(server, PortSpace::Ib, 10);
    lab.order(server, Command::Bind { id: listener, addr: at("0.0.0.0", 7174) });
    lab.order(server, Command::Listen { id: listener, backlog: 1 });
    let id = lab.id_of(client, PortSpace::Ib, 9);
    lab.route(client, id, at("10.0.0.2", 7174));
    lab.order(client, Command::Connect { id, param: param(1, &[]), ece: Ece::default() });
    let child = lab.event(server, EventKind::ConnectRequest).id;
    let mask = |lab: &mut Lab, program, id, qp_state| match lab.command(program, Command::InitQpAttr { id, qp_state }) {
        Ok(Reply::QpAttributes(attributes)) => attributes.mask,
        other => panic!("{other:?}"),
    };
    // The target answers, the initiator requests.
    assert_ne!(mask(&mut lab, server, child, 2) & (1 << 17), 0);
    assert_eq!(mask(&mut lab, server, child, 3) & (1 << 10 | 1 << 9), 1 << 9);
    lab.accept(server, child, &[]);
    lab.event(client, EventKind::ConnectResponse);
    assert_eq!(mask(&mut lab, client, id, 2) & (1 << 17), 0);
    assert_ne!(mask(&mut lab, client, id, 3) & (1 << 10), 0);
}
