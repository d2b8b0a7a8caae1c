//! Groups.

use super::lab::{Lab, Program, at};
use crate::rdma_cm::errno::*;
use crate::rdma_cm::*;

fn bound(lab: &mut Lab, program: Program) -> IdNumber {
    let id = lab.udp(program);
    lab.order(program, Command::Bind { id, addr: at("10.0.0.1", 0) });
    id
}

fn join(lab: &mut Lab, program: Program, id: IdNumber, group: &str, cookie: u64) -> Result<GroupNumber, Errno> {
    let join = JoinKind::FullMember;
    match lab.command(program, Command::JoinMulticast { id, addr: at(group, 0), join, cookie })? {
        Reply::Group(group) => Ok(group),
        other => panic!("{other:?}"),
    }
}

fn wishes(lab: &mut Lab) -> Vec<(String, bool)> {
    lab.settle();
    std::mem::take(&mut lab.hosts[0].groups).iter().map(|wish| (wish.ip.to_string(), wish.join)).collect()
}

#[test]
fn a_group_is_joined_and_left() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    let id = bound(&mut lab, p);
    let group = join(&mut lab, p, id, "239.1.2.3", 55).unwrap();
    let joined = lab.event(p, EventKind::MulticastJoin);
    assert_eq!((joined.cookie, joined.group, joined.id, joined.status), (55, Some(group), id, 0));
    let EventParam::Ud(ud) = joined.param else { panic!() };
    assert_eq!((ud.qp_num, ud.qkey), (0xff_ffff, 0x0123_4567));
    assert_eq!(ip_of_gid(ud.ah_attr.dgid).to_string(), "239.1.2.3");
    assert_eq!((ud.ah_attr.is_global, ud.ah_attr.hop_limit), (true, 64));
    assert_eq!(wishes(&mut lab), [("239.1.2.3".to_owned(), true)]);
    assert_eq!(lab.command(p, Command::LeaveMulticast { group }), Ok(Reply::EventsReported(1)));
    assert_eq!(lab.command(p, Command::LeaveMulticast { group }), Err(ENOENT));
    assert_eq!(wishes(&mut lab), [("239.1.2.3".to_owned(), false)]);
}

#[test]
fn the_host_joins_once_and_leaves_with_the_last() {
    let mut lab = Lab::new();
    let (p, q) = (lab.program(0), lab.program(0));
    let (a, b) = (bound(&mut lab, p), bound(&mut lab, q));
    join(&mut lab, p, a, "ff0e::7", 1).unwrap();
    join(&mut lab, q, b, "ff0e::7", 2).unwrap();
    lab.event(p, EventKind::MulticastJoin);
    lab.event(q, EventKind::MulticastJoin);
    assert_eq!(wishes(&mut lab), [("ff0e::7".to_owned(), true)]);
    lab.destroy(p, a);
    assert!(wishes(&mut lab).is_empty());
    lab.hosts[0].service.close_client(lab.now, q.client);
    assert_eq!(wishes(&mut lab), [("ff0e::7".to_owned(), false)]);
}

#[test]
fn a_host_that_cannot_join_says_so() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    let id = bound(&mut lab, p);
    join(&mut lab, p, id, "239.1.2.3", 55).unwrap();
    let wish = lab.hosts[0].service.poll_multicast().unwrap();
    lab.hosts[0].service.handle_multicast(lab.now, wish.group, Err(ENOBUFS));
    assert_eq!(lab.event(p, EventKind::MulticastError).status, -ENOBUFS);
    join(&mut lab, p, id, "239.1.2.3", 56).unwrap();
    lab.event(p, EventKind::MulticastJoin);
}

#[test]
fn who_only_sends_needs_no_membership_of_the_host() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    let id = bound(&mut lab, p);
    let join = JoinKind::SendOnlyFullMember;
    lab.command(p, Command::JoinMulticast { id, addr: at("239.1.2.3", 0), join, cookie: 1 }).unwrap();
    lab.event(p, EventKind::MulticastJoin);
    assert!(wishes(&mut lab).is_empty());
}

#[test]
fn joins_that_cannot_be() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    let tcp = lab.tcp(p);
    lab.order(p, Command::Bind { id: tcp, addr: at("10.0.0.1", 0) });
    assert_eq!(join(&mut lab, p, tcp, "239.1.2.3", 1), Err(EINVAL), "connected");
    let idle = lab.udp(p);
    assert_eq!(join(&mut lab, p, idle, "239.1.2.3", 1), Err(EINVAL), "no device");
    let id = bound(&mut lab, p);
    assert_eq!(join(&mut lab, p, id, "0.0.0.0", 1), Err(EINVAL), "no group");
    let other = lab.program(0);
    let group = join(&mut lab, p, id, "239.1.2.3", 1).unwrap();
    assert_eq!(lab.command(other, Command::LeaveMulticast { group }), Err(ENOENT), "another's");
    for cookie in 2..=limits::GROUPS_PER_ID_MAX as u64 {
        join(&mut lab, p, id, "239.1.2.3", cookie).unwrap();
    }
    assert_eq!(join(&mut lab, p, id, "239.1.2.3", 99), Err(ENOMEM));
}
