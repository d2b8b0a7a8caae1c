//! Ids on an InfiniBand fabric: addresses come from interfaces, paths from subnet administration.

use weft_verbs::Duration;

use super::lab::{Lab, PARTITION, at, port_gid};
use crate::rdma_cm::*;

fn attributes(lab: &mut Lab, program: super::lab::Program, id: IdNumber, qp_state: u32) -> QpAttributes {
    match lab.command(program, Command::InitQpAttr { id, qp_state }) {
        Ok(Reply::QpAttributes(attributes)) => *attributes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_takes_the_path_that_was_asked_for() {
    let mut lab = Lab::on_fabric();
    let (client, server) = (lab.program(0), lab.program(1));
    lab.listener(server, at("10.0.0.2", 7174), 10);
    let (asking, answering) = lab.connection(client, server, at("10.0.0.2", 7174));
    let here = attributes(&mut lab, client, asking, 2).ah_attr;
    let there = attributes(&mut lab, server, answering, 2).ah_attr;
    assert_eq!((here.dlid, there.dlid), (12, 11));
    assert_eq!((here.dgid, there.dgid), (port_gid(1), port_gid(0)));
    assert_eq!((here.is_global, there.is_global, here.sl, there.sl), (false, false, 3, 3));
    assert_eq!(attributes(&mut lab, client, asking, 2).path_mtu, 5);
    assert_eq!(attributes(&mut lab, client, asking, 1).pkey_index, 1, "of the path, not the first");
    assert_eq!(attributes(&mut lab, server, answering, 1).pkey_index, 1);
    let Ok(Reply::Route(route)) = lab.command(client, Command::Query { id: asking }) else { panic!() };
    assert_eq!((route.pkey, route.paths[0].dlid, route.sgid), (PARTITION, 12, port_gid(0)));
    lab.order(client, Command::Disconnect { id: asking });
    lab.event(server, EventKind::Disconnected);
}

#[test]
fn where_there_is_no_path_the_route_fails_and_may_be_asked_for_again() {
    let mut lab = Lab::on_fabric();
    let client = lab.program(0);
    let id = lab.tcp(client);
    let dst = at("10.0.0.2", 7174);
    lab.order(client, Command::ResolveAddr { id, src: None, dst, timeout_ms: 2000 });
    lab.event(client, EventKind::AddrResolved);
    lab.answers = false;
    lab.order(client, Command::ResolveRoute { id, timeout_ms: 2000 });
    assert!(lab.events(client).is_empty());
    lab.pass(Duration::from_secs(3));
    assert_eq!(lab.event(client, EventKind::RouteError).status, -errno::ETIMEDOUT);
    lab.answers = true;
    lab.order(client, Command::ResolveRoute { id, timeout_ms: 2000 });
    lab.event(client, EventKind::RouteResolved);
    lab.destroy(client, id);
    assert!(lab.is_clean(0));
}

#[test]
fn an_id_that_goes_takes_its_question_along() {
    let mut lab = Lab::on_fabric();
    let client = lab.program(0);
    let id = lab.tcp(client);
    lab.order(client, Command::ResolveAddr { id, src: None, dst: at("10.0.0.2", 7174), timeout_ms: 2000 });
    lab.event(client, EventKind::AddrResolved);
    lab.answers = false;
    lab.order(client, Command::ResolveRoute { id, timeout_ms: 2000 });
    lab.destroy(client, id);
    assert!(lab.is_clean(0));
}

#[test]
fn gids_are_addresses_too() {
    let mut lab = Lab::on_fabric();
    let (client, server) = (lab.program(0), lab.program(1));
    let id = lab.tcp(server);
    let own = SockAddr::V6 { addr: port_gid(1).into(), port: 7174, flowinfo: 0, scope_id: 2 };
    lab.order(server, Command::Bind { id, addr: own });
    lab.order(server, Command::Listen { id, backlog: 1 });
    // The interface has another address: there is no listener on it.
    let asking = lab.asking(client, at("10.0.0.2", 7174), b"");
    assert_eq!(lab.event(client, EventKind::Rejected).id, asking);
    assert!(lab.events(server).is_empty());
}

#[test]
fn datagrams_and_groups_have_lids() {
    let mut lab = Lab::on_fabric();
    let (client, server) = (lab.program(0), lab.program(1));
    let listener = lab.udp(server);
    lab.order(server, Command::Bind { id: listener, addr: at("0.0.0.0", 7174) });
    lab.order(server, Command::Listen { id: listener, backlog: 1 });
    let id = lab.udp(client);
    lab.route(client, id, at("10.0.0.2", 7174));
    lab.order(client, Command::Connect { id, param: super::lab::param(0x11, b""), ece: Ece::default() });
    let request = lab.event(server, EventKind::ConnectRequest);
    lab.accept(server, request.id, b"");
    let EventParam::Ud(ud) = lab.event(client, EventKind::Established).param else { panic!() };
    assert_eq!((ud.ah_attr.dlid, ud.ah_attr.is_global, ud.qkey), (12, false, 0x0123_4567));

    let member = lab.udp(client);
    lab.order(client, Command::Bind { id: member, addr: at("10.0.0.1", 0) });
    let join = Command::JoinMulticast { id: member, addr: at("239.0.0.9", 0), join: JoinKind::FullMember, cookie: 9 };
    lab.command(client, join).unwrap();
    let EventParam::Ud(ud) = lab.event(client, EventKind::MulticastJoin).param else { panic!() };
    assert_eq!(
        (ud.ah_attr.dlid, ud.ah_attr.is_global, ud.ah_attr.dgid[..4].to_vec()),
        (0xc001, true, vec![0xff, 0x12, 0x40, 1])
    );
}
