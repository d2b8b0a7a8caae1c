//! Datagram ids: resolution of a service's queue pair.

use weft_verbs::Duration;

use super::lab::{Lab, Program, at, param};
use crate::ib::limits::LISTENER_GRACE;
use crate::rdma_cm::errno::*;
use crate::rdma_cm::*;

const QKEY: u32 = 0x0123_4567;

fn ud_of(event: &CmEvent) -> &UdParam {
    match &event.param {
        EventParam::Ud(param) => param,
        other => panic!("{other:?}"),
    }
}

fn listener(lab: &mut Lab, server: Program) -> IdNumber {
    let id = lab.udp(server);
    lab.order(server, Command::Bind { id, addr: at("0.0.0.0", 7174) });
    lab.order(server, Command::Listen { id, backlog: 8 });
    id
}

fn asking(lab: &mut Lab, client: Program, private_data: &[u8]) -> IdNumber {
    let id = lab.udp(client);
    lab.route(client, id, at("10.0.0.2", 7174));
    lab.order(client, Command::Connect { id, param: param(0x11, private_data), ece: Ece::default() });
    id
}

#[test]
fn a_service_is_found() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    let listener = listener(&mut lab, server);
    let id = asking(&mut lab, client, b"who");
    let request = lab.event(server, EventKind::ConnectRequest);
    assert_eq!(request.listener, Some(listener));
    assert_eq!((&ud_of(&request).private_data[..4], ud_of(&request).private_data.len()), (&b"who\0"[..], 180));
    let Ok(Reply::QpAttributes(init)) = lab.command(server, Command::InitQpAttr { id: request.id, qp_state: 1 }) else {
        panic!()
    };
    assert_eq!((init.qkey, init.mask), (QKEY, 1 | 1 << 4 | 1 << 5 | 1 << 6));
    lab.accept(server, request.id, b"me");
    let established = lab.event(client, EventKind::Established);
    let ud = ud_of(&established);
    assert_eq!((established.id, ud.qp_num, ud.qkey), (id, 0x11, QKEY));
    assert_eq!((&ud.private_data[..3], ud.private_data.len()), (&b"me\0"[..], 136));
    assert_eq!(ip_of_gid(ud.ah_attr.dgid).to_string(), "10.0.0.2");
    assert_eq!((ud.ah_attr.is_global, ud.ah_attr.port_num, ud.ah_attr.hop_limit), (true, 1, 64));
    assert!(lab.events(server).is_empty());
    lab.order(client, Command::Disconnect { id });
    lab.destroy(client, id);
    lab.destroy(server, request.id);
    lab.destroy(server, listener);
    assert!(lab.is_clean(0) && lab.is_clean(1));
}

#[test]
fn an_address_handle_is_for_the_port_that_found_the_service() {
    let mut lab = Lab::on_second_ports();
    let (client, server) = (lab.program(0), lab.program(1));
    listener(&mut lab, server);
    asking(&mut lab, client, b"who");
    let request = lab.event(server, EventKind::ConnectRequest);
    lab.accept(server, request.id, b"me");
    let established = lab.event(client, EventKind::Established);
    assert_eq!(ud_of(&established).ah_attr.port_num, 2);
}

#[test]
fn a_refusal_nobody_and_silence_are_unreachable() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    asking(&mut lab, client, &[]);
    lab.pass(LISTENER_GRACE);
    assert_eq!(lab.event(client, EventKind::Unreachable).status, 1, "no such service");
    listener(&mut lab, server);
    asking(&mut lab, client, &[]);
    let id = lab.event(server, EventKind::ConnectRequest).id;
    lab.order(server, Command::Reject { id, private_data: b"no".to_vec(), reason: 0 });
    assert_eq!(lab.event(client, EventKind::Unreachable).status, 2, "rejected");
    lab.cable = false;
    asking(&mut lab, client, &[]);
    lab.pass(Duration::from_secs(120));
    assert_eq!(lab.event(client, EventKind::Unreachable).status, -ETIMEDOUT);
}

#[test]
fn private_data_of_a_request_has_its_room() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    listener(&mut lab, server);
    asking(&mut lab, client, &[7; 180]);
    let request = lab.event(server, EventKind::ConnectRequest);
    assert_eq!(ud_of(&request).private_data, [7; 180]);
    let id = lab.udp(client);
    lab.route(client, id, at("10.0.0.2", 7174));
    let command = Command::Connect { id, param: param(1, &[7; 181]), ece: Ece::default() };
    assert_eq!(lab.command(client, command), Err(EINVAL));
}

#[test]
fn a_full_backlog_refuses() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    listener(&mut lab, server);
    lab.hosts[1].service.set_channel_ready(server.channel, false);
    for _ in 0..8 {
        asking(&mut lab, client, &[]);
        assert!(lab.events(client).is_empty());
    }
    asking(&mut lab, client, &[]);
    lab.event(client, EventKind::Unreachable);
}
