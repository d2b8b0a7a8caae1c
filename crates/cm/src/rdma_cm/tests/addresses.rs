//! Binding, ports, and address resolution.

use super::lab::{Lab, Program, at};
use crate::rdma_cm::errno::*;
use crate::rdma_cm::*;

fn bind(lab: &mut Lab, program: Program, addr: SockAddr) -> Result<IdNumber, Errno> {
    let id = lab.tcp(program);
    lab.command(program, Command::Bind { id, addr }).map(|_| id)
}

fn reusable(lab: &mut Lab, program: Program) -> IdNumber {
    let id = lab.tcp(program);
    lab.order(program, Command::SetOption { id, option: IdOption::ReuseAddr(true) });
    id
}

fn src_of(lab: &mut Lab, program: Program, id: IdNumber) -> SockAddr {
    match lab.command(program, Command::Query { id }) {
        Ok(Reply::Route(route)) => route.src.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn device_of(lab: &mut Lab, program: Program, id: IdNumber) -> Option<u32> {
    match lab.command(program, Command::Query { id }) {
        Ok(Reply::Route(route)) => route.device.map(|device| device.index),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_specific_address_has_its_device_and_a_wildcard_none() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    let id = bind(&mut lab, p, at("10.0.0.1", 7000)).unwrap();
    assert_eq!(device_of(&mut lab, p, id), Some(1));
    for any in ["0.0.0.0", "::", "127.0.0.1", "::1"] {
        let id = bind(&mut lab, p, at(any, 0)).unwrap();
        assert_eq!(device_of(&mut lab, p, id), None, "{any}");
        assert_ne!(src_of(&mut lab, p, id).port(), 0);
    }
}

#[test]
fn addresses_of_others_and_of_interfaces_without_a_device_are_refused() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    assert_eq!(bind(&mut lab, p, at("10.0.0.2", 7000)), Err(EADDRNOTAVAIL));
    assert_eq!(bind(&mut lab, p, at("172.16.0.1", 7000)), Err(ENODEV));
    assert_eq!(bind(&mut lab, p, at("fe80::1", 7000)), Err(EINVAL), "no scope");
    let scoped = SockAddr::V6 { addr: "fe80::1".parse().unwrap(), port: 7000, flowinfo: 0, scope_id: 2 };
    assert!(bind(&mut lab, p, scoped).is_ok());
    let elsewhere = SockAddr::V6 { addr: "fe80::1".parse().unwrap(), port: 7001, flowinfo: 0, scope_id: 5 };
    assert!(bind(&mut lab, p, elsewhere).is_err());
}

#[test]
fn a_refused_id_can_be_bound_anew_and_a_bound_one_cannot() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    let id = lab.tcp(p);
    assert_eq!(lab.command(p, Command::Bind { id, addr: at("10.0.0.9", 1) }), Err(EADDRNOTAVAIL));
    lab.order(p, Command::Bind { id, addr: at("10.0.0.1", 7000) });
    assert_eq!(lab.command(p, Command::Bind { id, addr: at("10.0.0.1", 7001) }), Err(EINVAL));
}

#[test]
fn ports_below_1024_need_privilege() {
    let mut lab = Lab::new();
    let (root, user) = (lab.program(0), lab.program_of(0, 1000));
    assert_eq!(bind(&mut lab, user, at("10.0.0.1", 1023)), Err(EACCES));
    assert!(bind(&mut lab, user, at("10.0.0.1", 1024)).is_ok());
    assert!(bind(&mut lab, root, at("10.0.0.1", 1023)).is_ok());
}

#[test]
fn the_same_address_once_and_wildcards_with_nobody() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    bind(&mut lab, p, at("10.0.0.1", 7000)).unwrap();
    assert_eq!(bind(&mut lab, p, at("10.0.0.1", 7000)), Err(EADDRINUSE));
    assert_eq!(bind(&mut lab, p, at("0.0.0.0", 7000)), Err(EADDRNOTAVAIL));
    assert!(bind(&mut lab, p, at("fd00::1", 7000)).is_ok(), "another address");
    bind(&mut lab, p, at("0.0.0.0", 7001)).unwrap();
    assert_eq!(bind(&mut lab, p, at("10.0.0.1", 7001)), Err(EADDRNOTAVAIL));
    assert_eq!(bind(&mut lab, p, at("::", 7001)), Err(EADDRNOTAVAIL));
    let id = lab.tcp(p);
    lab.order(p, Command::SetOption { id, option: IdOption::AfOnly(true) });
    lab.order(p, Command::Bind { id, addr: at("::", 7001) });
}

#[test]
fn port_spaces_do_not_meet() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    bind(&mut lab, p, at("10.0.0.1", 7000)).unwrap();
    let id = lab.udp(p);
    lab.order(p, Command::Bind { id, addr: at("10.0.0.1", 7000) });
    let id = lab.id_of(p, PortSpace::Ib, 2);
    lab.order(p, Command::Bind { id, addr: at("10.0.0.1", 7000) });
    let id = lab.id_of(p, PortSpace::Ipoib, 4);
    assert_eq!(lab.command(p, Command::Bind { id, addr: at("10.0.0.1", 7000) }), Err(EINVAL), "no IPoIB on RoCE");
}

#[test]
fn a_port_is_free_again_when_its_id_is_gone() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    let id = bind(&mut lab, p, at("10.0.0.1", 7000)).unwrap();
    assert_eq!(lab.command(p, Command::DestroyId { id }), Ok(Reply::EventsReported(0)));
    assert!(bind(&mut lab, p, at("10.0.0.1", 7000)).is_ok());
}

#[test]
fn reusable_addresses_are_shared_until_one_listens() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    let (a, b) = (reusable(&mut lab, p), reusable(&mut lab, p));
    let addr = at("10.0.0.1", 7000);
    lab.order(p, Command::Bind { id: a, addr });
    lab.order(p, Command::Bind { id: b, addr });
    assert_eq!(lab.command(p, Command::Listen { id: a, backlog: 0 }), Err(EADDRINUSE));
    lab.command(p, Command::DestroyId { id: b }).unwrap();
    lab.order(p, Command::Listen { id: a, backlog: 0 });
    let c = reusable(&mut lab, p);
    assert_eq!(lab.command(p, Command::Bind { id: c, addr }), Err(EADDRINUSE), "a listener shares nothing");
}

#[test]
fn options_count_only_in_their_states() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    let id = bind(&mut lab, p, at("10.0.0.1", 7000)).unwrap();
    lab.order(p, Command::Listen { id, backlog: 1 });
    for option in [IdOption::AfOnly(true), IdOption::ReuseAddr(true), IdOption::AckTimeout(32)] {
        assert_eq!(lab.command(p, Command::SetOption { id, option }), Err(EINVAL));
    }
    lab.order(p, Command::SetOption { id, option: IdOption::Tos(0x20) });
    let udp = lab.udp(p);
    let option = IdOption::AckTimeout(14);
    assert_eq!(lab.command(p, Command::SetOption { id: udp, option }), Err(EINVAL));
}

#[test]
fn resolving_finds_the_device_and_the_path() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    let id = lab.tcp(p);
    lab.order(p, Command::SetOption { id, option: IdOption::Tos(0x68) });
    lab.order(p, Command::ResolveAddr { id, src: None, dst: at("10.0.0.2", 7174), timeout_ms: 2000 });
    assert_eq!(lab.event(p, EventKind::AddrResolved).status, 0);
    lab.order(p, Command::ResolveRoute { id, timeout_ms: 2000 });
    lab.event(p, EventKind::RouteResolved);
    let Ok(Reply::Route(route)) = lab.command(p, Command::Query { id }) else { panic!() };
    assert_eq!(route.src.map(|src| src.ip().to_string()).as_deref(), Some("10.0.0.1"));
    assert_eq!(route.device.map(|device| device.index), Some(1));
    let path = &route.paths[0];
    assert_eq!(ip_of_gid(path.sgid).to_string(), "10.0.0.1");
    assert_eq!(ip_of_gid(path.dgid).to_string(), "10.0.0.2");
    assert_eq!((path.traffic_class, path.hop_limit, path.mtu, path.pkey), (0x68, 64, 3, 0xffff));
    assert_eq!(path.packet_life_time, 18);
    assert_eq!(lab.command(p, Command::ResolveRoute { id, timeout_ms: 2000 }), Err(EINVAL), "twice");
}

#[test]
fn local_and_loopback_destinations_have_their_own_device() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    for (dst, device, src) in [
        ("127.0.0.1", 0, "127.0.0.1"),
        ("127.7.7.7", 0, "127.0.0.1"),
        ("::1", 0, "::1"),
        ("0.0.0.0", 0, "127.0.0.1"),
        ("10.0.0.1", 1, "10.0.0.1"),
        ("fd00::1", 1, "fd00::1"),
    ] {
        let id = lab.tcp(p);
        lab.order(p, Command::ResolveAddr { id, src: None, dst: at(dst, 7), timeout_ms: 2000 });
        lab.event(p, EventKind::AddrResolved);
        assert_eq!(device_of(&mut lab, p, id), Some(device), "{dst}");
        assert_eq!(src_of(&mut lab, p, id).ip().to_string(), src, "{dst}");
    }
}

#[test]
fn what_cannot_be_resolved_says_so_and_can_be_tried_again() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    let id = lab.tcp(p);
    let resolve = |dst| Command::ResolveAddr { id, src: None, dst, timeout_ms: 500 };
    lab.order(p, resolve(at("192.0.2.1", 7)));
    assert_eq!(lab.event(p, EventKind::AddrError).status, -EHOSTUNREACH);
    lab.answers = false;
    lab.order(p, resolve(at("10.0.0.2", 7)));
    assert_eq!(lab.command(p, resolve(at("10.0.0.2", 7))), Err(EINVAL), "one at a time");
    lab.pass(weft_verbs::Duration::from_millis(499));
    assert!(lab.events(p).is_empty());
    lab.pass(weft_verbs::Duration::from_millis(1));
    assert_eq!(lab.event(p, EventKind::AddrError).status, -ETIMEDOUT);
    lab.answers = true;
    lab.order(p, resolve(at("10.0.0.2", 7)));
    lab.event(p, EventKind::AddrResolved);
}

#[test]
fn a_local_address_without_a_device_and_another_family_fail() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    let id = lab.tcp(p);
    let src = Some(at("fd00::1", 0));
    let command = Command::ResolveAddr { id, src, dst: at("10.0.0.2", 7), timeout_ms: 500 };
    assert_eq!(lab.command(p, command), Err(EINVAL));
    let id = lab.tcp(p);
    assert_eq!(lab.command(p, Command::ResolveRoute { id, timeout_ms: 500 }), Err(EINVAL));
    assert_eq!(lab.command(p, Command::InitQpAttr { id, qp_state: 1 }), Err(EINVAL), "no device");
}

#[test]
fn an_id_that_goes_takes_its_question_along() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    let id = lab.tcp(p);
    lab.answers = false;
    lab.order(p, Command::ResolveAddr { id, src: None, dst: at("10.0.0.2", 7), timeout_ms: 500 });
    let Some(ResolveRequest::Ask(ask)) = lab.hosts[0].service.poll_resolve() else { panic!() };
    lab.command(p, Command::DestroyId { id }).unwrap();
    assert_eq!(lab.hosts[0].service.poll_resolve(), Some(ResolveRequest::Forget(ask.question)));
    assert_eq!(lab.hosts[0].service.poll_timeout(), None);
    lab.hosts[0].service.handle_resolved(lab.now, ask.question, Err(EHOSTUNREACH));
    assert!(lab.events(p).is_empty());
}

#[test]
fn an_ib_address_chooses_the_space_by_its_service_id() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    let gid = gid_of_ip("10.0.0.1".parse().unwrap());
    let id = lab.id_of(p, PortSpace::Ib, 2);
    let sid_mask = 0xffff_ffff_ffff_0000;
    let addr = SockAddr::Ib(SockAddrIb { gid, sid: 0x0106_0000, sid_mask, ..SockAddrIb::default() });
    lab.order(p, Command::Bind { id, addr });
    let SockAddr::Ib(bound) = src_of(&mut lab, p, id) else { panic!() };
    assert_eq!((bound.sid >> 16, bound.sid_mask), (0x0106, u64::MAX));
    assert_ne!(bound.sid & 0xffff, 0);
    let udp = lab.udp(p);
    assert_eq!(lab.command(p, Command::Bind { id: udp, addr }), Err(EPROTONOSUPPORT));
}

#[test]
fn defaults_of_a_device_are_the_administrator_s() {
    let mut lab = Lab::new();
    let (root, user) = (lab.program(0), lab.program_of(0, 1000));
    let set = Command::SetDefaults { device: 1, roce_mode: None, roce_tos: Some(0x40) };
    assert_eq!(lab.command(user, set.clone()), Err(EPERM));
    let expected = Ok(Reply::Defaults { roce_mode: RoceMode::V2, roce_tos: 0x40 });
    assert_eq!(lab.command(root, set), expected);
    assert_eq!(lab.command(user, Command::QueryDefaults { device: 1 }), expected);
    assert_eq!(lab.command(user, Command::QueryDefaults { device: 9 }), Err(ENODEV));
    let v1 = Command::SetDefaults { device: 1, roce_mode: Some(RoceMode::V1), roce_tos: None };
    assert_eq!(lab.command(root, v1), Err(EINVAL), "no GID of RoCE v1");
    let id = lab.tcp(user);
    lab.order(user, Command::ResolveAddr { id, src: None, dst: at("10.0.0.2", 7), timeout_ms: 500 });
    lab.settle();
    lab.order(user, Command::ResolveRoute { id, timeout_ms: 500 });
    let Ok(Reply::Route(route)) = lab.command(user, Command::Query { id }) else { panic!() };
    assert_eq!(route.paths[0].traffic_class, 0x40);
}

#[test]
fn a_refused_question_leaves_the_id_bound_and_tells_nothing() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    let id = lab.tcp(p);
    let resolve = Command::ResolveAddr { id, src: None, dst: at("10.0.0.2", 7), timeout_ms: 500 };
    lab.order(p, resolve.clone());
    let Some(ResolveRequest::Ask(ask)) = lab.hosts[0].service.poll_resolve() else { panic!() };
    lab.hosts[0].service.refuse_question(ask.question);
    assert_eq!(lab.hosts[0].service.poll_timeout(), None);
    assert!(lab.events(p).is_empty());
    lab.order(p, resolve);
    lab.event(p, EventKind::AddrResolved);
}
