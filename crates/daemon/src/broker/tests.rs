//! The broker driven by hand, and by random requests.

use std::collections::BTreeMap;
use std::fs::File;
use std::time::Duration;

use proptest::prelude::*;
use weft_cm::rdma_cm::{Command, PortSpace, Reply};
use weft_ipc::{
    ClientFrame, DaemonFrame, Event, Hello, HelloReply, HelloStatus, McastGroup, PROTOCOL_VERSION, Purpose, Request,
    Response, SlotGrant, decode, encode,
};

use super::*;
use crate::host::{Adopted, FakeHost};
use crate::left::Left;
use crate::refusal;
use crate::rtnl::{AddressMessage, LinkMessage, RouteMessage};
use crate::slots::SavedSlot;

mod captures;
mod dispatch;
mod faults;
mod host_files;
mod host_networks;
mod ipoib_interfaces;
mod ledgers;
mod packet_channels;
mod paths;
mod peers;

struct World {
    now: Instant,
    broker: Broker,
    host: FakeHost,
    sent: BTreeMap<ClientId, Vec<(Vec<u8>, Attach)>>,
    closed: Vec<ClientId>,
    stopped: bool,
}

const OWN: u32 = 500;

impl World {
    fn new(survivors: bool) -> World {
        let config = BrokerConfig {
            pid: 1,
            uid: OWN,
            uid_is_ours_alone: true,
            namespace: 7,
            slots_per_user_max: 3,
            slot_quarantine: crate::limits::SLOT_QUARANTINE,
            connections_per_user_max: 5,
            idle_exit: Some(Duration::from_secs(10)),
            survivors,
            socket_name: String::new(),
        };
        let now = Instant::now();
        let mut broker = Broker::new(now, config);
        for message in interface(1, "lo", 0x1_0049, "127.0.0.1") {
            broker.devices().netdevs.apply(&message);
        }
        broker.refresh(now);
        let (sent, closed) = (BTreeMap::new(), Vec::new());
        World { now, broker, host: FakeHost::default(), sent, closed, stopped: false }
    }

    fn settle(&mut self) {
        while let Some(output) = self.broker.poll_output() {
            match output {
                Output::Send { client, bytes, attach, .. } => {
                    self.sent.entry(client).or_default().push((bytes, attach));
                }
                Output::Close { client } => {
                    self.closed.push(client);
                    self.broker.disconnect(self.now, client, &mut self.host);
                }
                Output::Stop => self.stopped = true,
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.broker.handle_timeout(self.now, &mut self.host);
        self.settle();
    }

    fn connect(&mut self, uid: u32) -> ClientId {
        self.broker.connect(self.now, Credentials { pid: 9, uid, gid: uid }).unwrap()
    }

    fn say(&mut self, client: ClientId, bytes: &[u8], fds: &[std::os::fd::OwnedFd]) -> Handled {
        let handled = self.broker.handle_message(self.now, client, bytes, fds, &mut self.host);
        self.settle();
        handled
    }

    fn hello(&mut self, client: ClientId, hello: &Hello) -> HelloReply {
        self.say(client, &hello.encode(), &[]);
        let (bytes, _) = self.sent.get_mut(&client).unwrap().remove(0);
        HelloReply::decode(&bytes).unwrap()
    }

    fn session(&mut self, uid: u32) -> ClientId {
        let client = self.connect(uid);
        assert_eq!(self.hello(client, &Hello::new(Purpose::Session, "x")).status, HelloStatus::Welcome);
        client
    }

    fn ask_with(
        &mut self,
        client: ClientId,
        request: Request,
        fds: &[std::os::fd::OwnedFd],
    ) -> Result<(Response, Attach), Refusal> {
        self.sent.remove(&client);
        let frame = encode(&ClientFrame { id: 5, request }).unwrap();
        assert_eq!(self.say(client, &frame, fds), Handled::Done);
        let sent = self.sent.remove(&client).unwrap_or_default();
        let reply = sent.iter().find_map(|(bytes, attach)| match decode(bytes).unwrap() {
            DaemonFrame::Reply { id: 5, result } => Some(result.map(|response| (response, *attach))),
            _ => None,
        });
        reply.unwrap()
    }

    fn ask(&mut self, client: ClientId, request: Request) -> Result<Response, i32> {
        self.ask_with(client, request, &[]).map(|(response, _)| response).map_err(|refusal| refusal.errno)
    }

    fn slot(&mut self, client: ClientId) -> Result<SlotGrant, i32> {
        match self.ask(client, Request::AllocateSlot)? {
            Response::Slot(grant) => Ok(grant),
            other => panic!("{other:?}"),
        }
    }

    fn events(&mut self, client: ClientId) -> Vec<Event> {
        let sent = self.sent.remove(&client).unwrap_or_default();
        let event = |(bytes, _): &(Vec<u8>, Attach)| match decode(bytes).unwrap() {
            DaemonFrame::Event(event) => Some(event),
            DaemonFrame::Reply { .. } => None,
        };
        sent.iter().filter_map(event).collect()
    }
}

fn interface(ifindex: u32, name: &str, flags: u32, ip: &str) -> [RouteMessage; 2] {
    let ip = ip.parse().unwrap();
    let name = Some(name.to_owned());
    [
        RouteMessage::NewLink(LinkMessage {
            ifindex,
            flags,
            name,
            mtu: Some(1500),
            mac: Some([0; 6]),
            is_operational: false,
        }),
        RouteMessage::NewAddress(AddressMessage { ifindex, ip, scope: 0, flags: 0 }),
    ]
}

fn some_fd() -> std::os::fd::OwnedFd {
    File::open("/dev/null").unwrap().into()
}

#[test]
fn other_versions_are_told_apart() {
    let mut world = World::new(false);
    let client = world.connect(7);
    let hello = Hello { protocol: PROTOCOL_VERSION + 1, ..Hello::new(Purpose::Session, "x") };
    let reply = world.hello(client, &hello);
    assert_eq!((reply.status, reply.protocol), (HelloStatus::OtherVersion, PROTOCOL_VERSION));
    assert!(reply.text.contains("weft daemon --stop"));
    assert_eq!(world.closed, [client]);
}

#[test]
fn only_the_trusted_end_it_in_whatever_version() {
    let mut world = World::new(false);
    let stop = Hello { protocol: 99, ..Hello::new(Purpose::Stop, "x") };
    let stranger = world.connect(7);
    assert_eq!(world.hello(stranger, &stop).status, HelloStatus::Refused);
    assert!(!world.stopped);
    let own = world.connect(OWN);
    assert_eq!(world.hello(own, &stop).status, HelloStatus::Stopping);
    assert!(world.stopped);
}

#[test]
fn only_the_trusted_configure() {
    let mut world = World::new(false);
    let add = Request::LinkAdd { name: "a".into(), kind: "rxe".into(), netdev: "lo".into() };
    let (stranger, root) = (world.session(7), world.session(0));
    assert_eq!(world.ask(stranger, add.clone()), Err(refusal::EPERM));
    assert_eq!(world.ask(stranger, Request::LinkDel { name: "rxe_lo".into() }), Err(refusal::EPERM));
    assert_eq!(world.ask(stranger, Request::DevRename { old: "rxe_lo".into(), new: "b".into() }), Err(refusal::EPERM));
    assert_eq!(world.ask(root, Request::Subscribe), Ok(Response::Done));
    assert_eq!(world.ask(stranger, Request::Subscribe), Ok(Response::Done));
    assert_eq!(world.ask(root, add), Ok(Response::Done));
    assert!(matches!(&world.events(stranger)[..], [Event::DeviceChanged(info)] if info.name == "a" && !info.auto));
    // The device keeps the daemon alive until it goes with its interface.
    for client in [stranger, root] {
        world.broker.disconnect(world.now, client, &mut world.host);
    }
    world.pass(Duration::from_secs(100));
    assert!(!world.stopped);
    world.broker.devices().netdevs.apply(&RouteMessage::DelLink { ifindex: 1 });
    world.broker.refresh(world.now);
    world.pass(Duration::from_secs(9));
    assert!(!world.stopped);
    world.pass(Duration::from_secs(1));
    assert!(world.stopped);
}

#[test]
fn slots_are_bounded_and_come_back() {
    let mut world = World::new(false);
    let clients: Vec<ClientId> = (0..4).map(|_| world.session(7)).collect();
    let granted: Vec<_> = clients.iter().map(|&client| world.slot(client).map(|grant| grant.slot)).collect();
    assert_eq!(granted, [Ok(1), Ok(2), Ok(3), Err(refusal::EAGAIN)]);
    assert_eq!(world.slot(clients[0]), Err(refusal::EALREADY));
    let root = world.session(0);
    let grant = world.slot(root).unwrap();
    assert_eq!((grant.slot, grant.has_anchor), (4, true));
    world.broker.disconnect(world.now, clients[1], &mut world.host);
    assert_eq!(world.host.open, [1, 3, 4].into());
    assert_eq!(world.slot(clients[3]).map(|grant| (grant.slot, grant.has_anchor)), Ok((5, false)));
}

#[test]
fn connections_are_bounded_and_the_refused_learn_why() {
    let mut world = World::new(false);
    let clients: Vec<ClientId> = (0..5).map(|_| world.session(7)).collect();
    let sixth = world.connect(7);
    let reply = world.hello(sixth, &Hello::new(Purpose::Session, "x"));
    assert_eq!(reply.status, HelloStatus::Refused);
    assert!(reply.text.contains("5 connections"), "{}", reply.text);
    world.session(0);
    world.broker.disconnect(world.now, clients[0], &mut world.host);
    world.session(7);
    // Clients that never say hello are bounded in number.
    let kept = (0..100).filter(|_| world.broker.connect(world.now, Credentials { pid: 9, uid: 7, gid: 7 }).is_some());
    assert!(kept.count() <= DOOMED_CLIENTS_MAX);
}

#[test]
fn what_is_not_understood_ends_the_connection_alone() {
    let mut world = World::new(false);
    let (bad, good, mute) = (world.session(7), world.session(7), world.connect(7));
    world.slot(bad).unwrap();
    world.say(bad, b"\xff\xff\xff\xff\xff\xff\xff", &[]);
    world.say(mute, b"no hello", &[]);
    assert_eq!(world.closed, [bad, mute]);
    assert!(world.host.open.is_empty());
    assert!(world.slot(good).is_ok());
}

#[test]
fn a_taken_port_is_passed_on() {
    let mut world = World::new(false);
    world.host.port_trouble = Some(refusal::refuse(refusal::EADDRINUSE, "UDP port 4791 is taken"));
    let client = world.session(7);
    assert_eq!(world.slot(client), Err(refusal::EADDRINUSE));
    assert!(matches!(world.ask(client, Request::ListDevices { offset: 0 }), Ok(Response::Devices { .. })));
    world.host.port_trouble = None;
    assert!(world.slot(client).is_ok());
}

fn open_channel(world: &mut World, client: ClientId) -> Result<u32, i32> {
    match world.ask_with(client, Request::OpenCmChannel, &[]) {
        Ok((Response::CmChannel { channel }, attach)) => {
            assert_eq!(attach.channel, Some(channel));
            Ok(channel)
        }
        Ok(other) => panic!("{other:?}"),
        Err(refusal) => Err(refusal.errno),
    }
}

fn create_id(world: &mut World, client: ClientId, channel: u32) -> Result<u32, i32> {
    let create = Command::CreateId { channel, port_space: PortSpace::Tcp, qp_type: 2, cookie: 1 };
    match world.ask(client, Request::Cm(create))? {
        Response::Cm(Reply::Id(id)) => Ok(id),
        other => panic!("{other:?}"),
    }
}

#[test]
fn channels_belong_to_who_opened_them_and_end_with_it() {
    let mut world = World::new(false);
    let (a, b) = (world.session(7), world.session(8));
    let (of_a, of_b) = (open_channel(&mut world, a).unwrap(), open_channel(&mut world, b).unwrap());
    assert_eq!(create_id(&mut world, b, of_a), Err(refusal::EINVAL));
    let id = create_id(&mut world, a, of_a).unwrap();
    assert_eq!(world.ask(b, Request::CloseCmChannel { channel: of_a }), Ok(Response::Done));
    assert_eq!(world.host.channels, [of_a, of_b].into());
    assert_eq!(world.ask(b, Request::Cm(Command::DestroyId { id })), Err(2));
    assert_eq!(world.ask(b, Request::CloseCmChannel { channel: of_b }), Ok(Response::Done));
    world.broker.disconnect(world.now, a, &mut world.host);
    assert!(world.host.channels.is_empty());
    let Ok(Response::Status(status)) = world.ask(b, Request::Status { offset: 0 }) else { panic!() };
    assert_eq!((status.cm.processes, status.cm.channels, status.cm.idle_ids), (1, 0, 0));
}

#[test]
fn event_channels_are_bounded() {
    let mut world = World::new(false);
    let client = world.session(7);
    for _ in 0..limits::CM_CHANNELS_PER_USER_MAX {
        open_channel(&mut world, client).unwrap();
    }
    assert_eq!(open_channel(&mut world, client), Err(refusal::EMFILE));
    let root = world.session(0);
    open_channel(&mut world, root).unwrap();
}

#[test]
fn queue_pair_1_is_opened_by_who_listens_and_stays() {
    let mut world = World::new(false);
    let client = world.session(7);
    let channel = open_channel(&mut world, client).unwrap();
    let id = create_id(&mut world, client, channel).unwrap();
    assert_eq!((world.host.gsi, world.host.slots), (false, 0));
    let listen = || Request::Cm(Command::Listen { id, backlog: 1 });
    world.host.port_trouble = Some(refusal::refuse(refusal::EADDRINUSE, "UDP port 4791 is taken"));
    assert_eq!(world.ask(client, listen()), Err(refusal::EADDRINUSE));
    world.host.port_trouble = None;
    assert!(matches!(world.ask(client, listen()), Ok(Response::Cm(Reply::Route(_)))));
    assert!(world.host.gsi);
    assert_eq!(world.slot(client).map(|grant| grant.slot), Ok(1));
    world.broker.disconnect(world.now, client, &mut world.host);
    assert!(world.host.gsi);
    // An open queue pair 1 alone does not keep the daemon alive.
    world.pass(Duration::from_secs(10));
    assert!(world.stopped);
}

fn predecessor(world: &mut World) {
    let slots = [(1, 7, true), (2, 0, true), (3, OWN, true), (4, 7, false)];
    let slots = slots.map(|(slot, uid, owned)| SavedSlot { slot, uid, owned }).to_vec();
    let (next_device, devices) = world.broker.shared.devices.save();
    world.host.anchored =
        Some(Adopted { slots: 64, saved: Saved { next_device, devices, slots, left: Left::default() } });
}

#[test]
fn survivors_bring_the_pool_and_the_others_wait_for_it() {
    let mut world = World::new(true);
    predecessor(&mut world);
    let (stranger, user, own) = (world.session(7), world.session(7), world.session(OWN));
    let allocate = encode(&ClientFrame { id: 5, request: Request::AllocateSlot }).unwrap();
    assert_eq!(world.say(stranger, &allocate, &[]), Handled::Deferred);
    // An ordinary user's anchor is not trusted; another user may still bring one.
    let back = |slot| Request::Reattach { slot, groups: Vec::new() };
    let frame = encode(&ClientFrame { id: 5, request: back(1) }).unwrap();
    assert_eq!(world.say(user, &frame, &[some_fd(), some_fd()]), Handled::Deferred);
    assert!(world.host.anchored.is_some());
    let (_, attach) = world.ask_with(own, back(3), &[some_fd(), some_fd()]).unwrap();
    assert_eq!(attach, Attach { anchor: true, ..Attach::default() });
    assert_eq!(world.say(user, &frame, &[some_fd()]), Handled::Done);
    assert_eq!(world.broker.shared.slots.waiting(), [2]);
    assert!(world.slot(stranger).unwrap().slot > 4);
    // No process takes another's slot.
    let thief = world.session(7);
    assert_eq!(world.ask_with(thief, back(2), &[some_fd()]).unwrap_err().errno, refusal::ENODEV);
    assert_eq!(world.ask_with(thief, back(3), &[some_fd()]).unwrap_err().errno, refusal::ENODEV);
    assert_eq!(world.ask_with(thief, back(0), &[some_fd()]).unwrap_err().errno, refusal::ENODEV);
    assert_eq!(world.ask_with(thief, back(9999), &[some_fd()]).unwrap_err().errno, refusal::ENODEV);
    assert_eq!(world.ask_with(thief, back(4), &[]).unwrap_err().errno, refusal::ENODEV);
    world.pass(limits::RECOVERY_GRACE);
    assert!(world.broker.shared.slots.waiting().is_empty());
    assert!(!world.host.open.contains(&2) && world.host.open.contains(&3));
}

#[test]
fn who_comes_back_too_late_may_claim_any_groups() {
    // Found by fuzz_ipc: groups listed twice, or invalid ones, left the slot open and without an owner.
    let mut world = World::new(true);
    predecessor(&mut world);
    let own = world.session(OWN);
    let group = |text: &str| McastGroup { group: text.parse().unwrap(), ifindex: 1 };
    let groups = vec![group("239.1.1.1"), group("239.1.1.1"), group("10.0.0.1")];
    world.ask_with(own, Request::Reattach { slot: 3, groups: groups.clone() }, &[some_fd(), some_fd()]).unwrap();
    world.pass(limits::RECOVERY_GRACE);
    let late = world.session(7);
    world.ask_with(late, Request::Reattach { slot: 1, groups }, &[some_fd()]).unwrap();
    assert_eq!(world.host.groups, [(1, group("239.1.1.1"))].into());
    world.broker.disconnect(world.now, late, &mut world.host);
    assert_eq!(world.host.open, [3].into());
}

#[test]
fn a_recovery_without_survivors_ends() {
    let mut world = World::new(true);
    let client = world.session(7);
    let list = encode(&ClientFrame { id: 5, request: Request::ListDevices { offset: 0 } }).unwrap();
    assert_eq!(world.say(client, &list, &[]), Handled::Deferred);
    assert!(matches!(world.ask(client, Request::Status { offset: 0 }), Ok(Response::Status(_))));
    world.pass(limits::RECOVERY_WAIT);
    assert_eq!(world.say(client, &list, &[]), Handled::Done);
    let request = Request::Reattach { slot: 1, groups: Vec::new() };
    assert_eq!(world.ask_with(client, request, &[some_fd(), some_fd()]).unwrap_err().errno, refusal::ENODEV);
}

#[test]
fn lists_come_in_pages() {
    let mut world = World::new(false);
    for n in 2..=10 {
        for message in interface(n, &format!("eth{n}"), 0x1_1043, &format!("10.0.0.{n}")) {
            world.broker.devices().netdevs.apply(&message);
        }
    }
    world.broker.refresh(world.now);
    let client = world.session(7);
    let mut names = Vec::new();
    loop {
        let offset = names.len() as u32;
        let Ok(Response::Devices { devices, more }) = world.ask(client, Request::ListDevices { offset }) else {
            panic!()
        };
        names.extend(devices.into_iter().map(|info| info.name));
        if !more {
            break;
        }
    }
    assert_eq!((names.len(), names[0].as_str(), names[9].as_str()), (10, "rxe_eth2", "rxe_lo"));
}

#[test]
fn the_first_device_is_one_that_a_program_can_use() {
    let mut world = World::new(false);
    for (n, ip) in [(2, "fe80::2"), (4, "10.0.0.4"), (5, "fd00::5")] {
        for message in interface(n, &format!("eth{n}"), 0x1_1043, ip) {
            world.broker.devices().netdevs.apply(&message);
        }
    }
    world.broker.refresh(world.now);
    let client = world.session(7);
    let Ok(Response::Devices { devices, .. }) = world.ask(client, Request::ListDevices { offset: 0 }) else { panic!() };
    let names: Vec<_> = devices.iter().map(|info| info.name.as_str()).collect();
    assert_eq!(names, ["rxe_eth4", "rxe_eth5", "rxe_lo", "rxe_eth2"]);
}

proptest! {
    #[test]
    fn any_messages_are_survived(messages in proptest::collection::vec((0u64..6, proptest::collection::vec(any::<u8>(), 0..40)), 0..40)) {
        let mut world = World::new(false);
        for uid in [0, 7, OWN] {
            world.session(uid);
        }
        world.connect(7);
        for (client, bytes) in messages {
            world.say(client, &bytes, &[]);
            // Small numbers are valid requests more often.
            let low: Vec<u8> = bytes.iter().map(|byte| byte % 16).collect();
            world.say(client, &low, &[]);
        }
    }
}
