//! IPoIB interfaces of two hosts: what a host's tools hear of them, and children that come and go.

use weft_ipc::IpoibInterface;

use super::paths::Pair;
use super::*;
use crate::refusal::{EEXIST, EINVAL, ENODEV, ENOTUNIQ};

impl Pair {
    fn interfaces(&mut self) -> Vec<IpoibInterface> {
        match self.world.ask(self.programs[0].0, Request::IpoibInterfaces) {
            Ok(Response::IpoibInterfaces(all)) => all,
            other => panic!("{other:?}"),
        }
    }

    fn add(&mut self, parent: &str, pkey: u16, name: Option<&str>) -> Result<Response, i32> {
        let (parent, name) = (parent.to_owned(), name.map(str::to_owned));
        self.world.ask(self.programs[0].0, Request::AddIpoibChild { parent, pkey, name })
    }

    fn delete(&mut self, parent: &str, pkey: u16) -> Result<Response, i32> {
        let parent = parent.to_owned();
        self.world.ask(self.programs[0].0, Request::DeleteIpoibChild { parent, pkey })
    }

    fn open_network(&mut self) {
        let answer = self.world.ask(self.programs[0].0, Request::HostNetwork);
        assert!(matches!(answer, Ok(Response::HostNetwork { .. })), "{answer:?}");
    }
}

#[test]
fn children_come_and_go_with_numbers_of_their_own() {
    let mut pair = Pair::of(false);
    assert_eq!(pair.world.ask(pair.programs[0].0, Request::IpoibInterfaces), Err(ENODEV));
    pair.open_network();
    let [ib0] = &pair.interfaces()[..] else { panic!("one port") };
    assert_eq!((ib0.name.as_str(), ib0.pkey, ib0.parent, ib0.port), ("ib0", 0xffff, None, 1));
    // The full-member bit is set in any case.
    assert_eq!(pair.add("ib0", 2, None), Ok(Response::Done));
    assert_eq!(pair.add("ib0", 0x8003, Some("blue")), Ok(Response::Done));
    let all = pair.interfaces();
    let described: Vec<_> = all.iter().map(|one| (one.name.as_str(), one.pkey, one.parent, one.address[3])).collect();
    let expected = [("ib0", 0xffff, None, 0x48), ("ib0.8002", 0x8002, Some(0), 0x49), ("blue", 0x8003, Some(0), 0x4a)];
    assert_eq!(described, expected);
    assert_eq!(all[1].broadcast[4..10], [0xff, 0x12, 0x40, 0x1b, 0x80, 0x02]);
    for (parent, pkey, name, errno) in [
        ("ib0", 0x8002, None, ENOTUNIQ),
        ("ib0", 0x7fff, None, ENOTUNIQ),
        ("ib0", 0x8000, None, EINVAL),
        ("blue", 5, None, EINVAL),
        ("eth0", 5, None, ENODEV),
        ("ib0", 5, Some("blue"), EEXIST),
        ("ib0", 5, Some("a name of 16 b"), EINVAL),
    ] {
        assert_eq!(pair.add(parent, pkey, name), Err(errno), "{parent} {pkey:#x} {name:?}");
    }
    assert_eq!(pair.delete("ib0", 0x8002), Ok(Response::Done));
    assert_eq!(pair.delete("ib0", 0x8002), Err(ENODEV));
    // Its place and its queue pair are free again.
    assert_eq!(pair.add("ib0", 9, None), Ok(Response::Done));
    assert_eq!(pair.interfaces()[1].address[3], 0x49);
}

#[test]
fn a_host_has_a_bounded_number_of_children() {
    let mut pair = Pair::of(false);
    pair.open_network();
    let added = (1..200).take_while(|pkey| pair.add("ib0", *pkey, None).is_ok()).count();
    assert_eq!(added, weft_ipc::IPOIB_INTERFACES_MAX - 1);
    assert_eq!(pair.interfaces().len(), weft_ipc::IPOIB_INTERFACES_MAX);
}

#[test]
fn only_a_trusted_user_changes_interfaces() {
    let mut pair = Pair::of(false);
    pair.open_network();
    let other = pair.world.connect(7);
    let hello = Hello { host: "node1".to_owned(), ..Hello::new(Purpose::Session, "x") };
    assert_eq!(pair.world.hello(other, &hello).status, HelloStatus::Welcome);
    let request = Request::AddIpoibChild { parent: "ib0".to_owned(), pkey: 2, name: None };
    assert_eq!(pair.world.ask(other, request), Err(libc::EPERM));
    assert!(matches!(pair.world.ask(other, Request::IpoibInterfaces), Ok(Response::IpoibInterfaces(_))));
}
