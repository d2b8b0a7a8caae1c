//! Two hosts on a cable, and a subnet administration that knows one path.

use std::time::Duration as StdDuration;

use weft_cm::rdma_cm::{
    CmEvent, Command, ConnParam, Credentials, Ece, EventKind, EventParam, JoinKind, PortSpace, Reply, SockAddr,
    SockAddrIb,
};
use weft_ipc::{IbPort, InfiniBand, PortState};
use weft_wire::mad::Status;

use super::*;
use crate::host::FakeHost;
use crate::slots::ClientId;

const CLIENT: ClientId = 5;
const PKEY: u16 = 0x8001;

/// LIDs are 1 and 2, nodes 0 and 1.
#[derive(Default)]
struct Cable {
    under_way: VecDeque<(PortRef, MadOut)>,
    /// Whether the ports have a subnet manager, at LID 1.
    managed: bool,
}

fn gid(node: u32) -> [u8; 16] {
    (0xfe80_u128 << 112 | u128::from(0x100 + node)).to_be_bytes()
}

fn address(node: u32) -> IpAddr {
    IpAddr::from([10, 0, 0, 1 + node as u8])
}

impl Subnet for Cable {
    fn ip(&self, port: PortRef) -> Option<IpAddr> {
        Some(address(port.node))
    }
    fn gid_of(&self, ip: IpAddr) -> Option<[u8; 16]> {
        match ip {
            IpAddr::V4(_) => (0..2).find(|node| address(*node) == ip).map(gid),
            IpAddr::V6(ip) => Some(ip.octets()),
        }
    }
    fn is_ethernet(&self, _ip: IpAddr) -> bool {
        false
    }
    fn gid_of_lid(&self, _at: PortRef, lid: u16) -> Option<[u8; 16]> {
        matches!(lid, 1 | 2).then(|| gid(u32::from(lid) - 1))
    }
    fn leads(&self, from: IpAddr, to: IpAddr) -> bool {
        self.gid_of(from).is_some() && self.gid_of(to).is_some()
    }
    fn manager(&self, _port: PortRef) -> Option<(u16, u8)> {
        self.managed.then_some((1, 0))
    }
    fn send(&mut self, from: PortRef, out: &MadOut) {
        self.under_way.push_back((from, *out));
    }
}

struct World {
    now: Instant,
    cable: Cable,
    hosts: [HostCm; 2],
    outside: FakeHost,
    channels: u32,
    /// Whether the subnet administration answers.
    answers: bool,
}

fn adapter(node: u32) -> DeviceInfo {
    let port = IbPort {
        number: 1,
        guid: 0x100 + u64::from(node),
        gid_prefix: 0xfe80 << 48,
        lid: node as u16 + 1,
        state: 4,
        active_mtu: 4096,
        pkeys: vec![PKEY, 0x7fff],
        ..IbPort::default()
    };
    let infiniband = InfiniBand { ports: vec![port], ..InfiniBand::default() };
    DeviceInfo {
        index: weft_ipc::IB_DEVICE_INDEX_BASE + node,
        name: "weft0".into(),
        kind: weft_ipc::DEVICE_KIND_IB.into(),
        netdev: String::new(),
        ifindex: 0,
        node_guid: 0x200 + u64::from(node),
        state: PortState::Active,
        mac: [0; 6],
        netdev_mtu: 0,
        phys_state: weft_ipc::PhysState::LinkUp,
        active_mtu: 4096,
        link_speed_mbps: None,
        gids: Vec::new(),
        pkeys: Vec::new(),
        auto: false,
        infiniband: Some(Box::new(infiniband)),
    }
}

impl World {
    fn new() -> World {
        let now = Instant::now();
        let cable = Cable { managed: true, ..Cable::default() };
        let hosts = [0, 1].map(|node| {
            let mut host = HostCm::new(now, 0x1234_5678_9abc_def0 + u64::from(node));
            host.follow(now, &[adapter(node)], |_| Some(node), &cable);
            let credentials = Credentials { pid: 1, uid: 0, comm: "test".into(), privileged_ports: true, admin: true };
            host.cm.open_client(CLIENT, credentials);
            host
        });
        World { now, cable, hosts, outside: FakeHost::default(), channels: 0, answers: true }
    }

    fn channel(&mut self, host: usize) -> u32 {
        self.channels += 1;
        self.hosts[host].cm.open_channel(self.now, CLIENT, self.channels, &mut self.outside).unwrap();
        self.channels
    }

    fn order(&mut self, host: usize, command: Command) -> Reply {
        let (cable, own) = (&self.cable, self.hosts[host].addresses().to_vec());
        let ask = |_: &mut FakeHost, asked: &ResolveQuestion| Some(HostCm::resolve(asked, &own, cable));
        let reply = self.hosts[host].cm.command(self.now, CLIENT, command, &mut self.outside, ask).unwrap();
        self.settle();
        reply
    }

    fn id(&mut self, host: usize, port_space: PortSpace) -> u32 {
        let channel = self.channel(host);
        match self.order(host, Command::CreateId { channel, port_space, qp_type: 2, cookie: 1 }) {
            Reply::Id(id) => id,
            other => panic!("{other:?}"),
        }
    }

    /// Carries datagrams until none is under way.
    fn settle(&mut self) {
        loop {
            for host in &mut self.hosts {
                host.perform(self.now, &mut self.cable);
            }
            let Some((from, out)) = self.cable.under_way.pop_front() else { return };
            let answer = if out.mad.header.class() == Class::SUBN_ADM { self.administer(&out) } else { None };
            let (to, mad) = match answer {
                Some(mad) => (from, mad),
                None if out.mad.header.class() == Class::SUBN_ADM => continue,
                None => (PortRef::new(u32::from(out.to.dlid) - 1, 1), out.mad),
            };
            let delivery = Delivery {
                port: to,
                slid: from.node as u16 + 1,
                path_bits: 0,
                sl: out.to.sl,
                src_qp: 1,
                dest_qp: 1,
                pkey_index: 0,
                pkey: out.to.pkey,
                grh: out.to.grh,
                mad,
            };
            assert!(self.hosts[to.node as usize].handle_delivery(self.now, &delivery, &self.cable));
        }
    }

    /// Returns the subnet administration's answer.
    fn administer(&self, out: &MadOut) -> Option<Mad> {
        let mut mad = *SaMad::ref_from_mad(&out.mad);
        mad.header.set_method(Method(mad.header.method().0 | 0x80));
        let known = if let (sa::PathRecord { dgid, sgid, .. }, true) =
            (mad.record()?, out.mad.header.method() == Method::GET)
        {
            let lid = |wanted| (0..2).find(|node| gid(*node) == wanted).map(|node| node as u16 + 1);
            let path = sa::PathRecord { dgid, sgid, mtu: 5, sl: 2, pkey: PKEY, ..sa::PathRecord::default() };
            lid(dgid).zip(lid(sgid)).map(|(dlid, slid)| sa::PathRecord { dlid, slid, ..path }.as_record(&mut mad))
        } else {
            let member = McMemberRecord { mlid: 0xc005, ..mad.record()? };
            weft_wire::mad::Attribute::write(&member, &mut mad.data);
            Some(())
        };
        if known.is_none() {
            mad.header.set_status(Status::SA_NO_RECORDS);
        }
        self.answers.then(|| mad.to_mad())
    }

    fn events(&mut self, host: usize) -> Vec<CmEvent> {
        std::iter::from_fn(|| self.hosts[host].cm.poll_event()).map(|(_, event)| event).collect()
    }

    fn kinds(&mut self, host: usize) -> Vec<EventKind> {
        self.events(host).iter().map(|event| event.kind).collect()
    }

    fn resolve(&mut self, id: u32) -> EventKind {
        let dst = SockAddr::new(address(1), 7174);
        self.order(0, Command::ResolveAddr { id, src: None, dst, timeout_ms: 1000 });
        assert_eq!(self.kinds(0), [EventKind::AddrResolved]);
        self.order(0, Command::ResolveRoute { id, timeout_ms: 1000 });
        self.kinds(0).pop().unwrap()
    }
}

trait AsRecord {
    fn as_record(&self, mad: &mut SaMad);
}

impl AsRecord for sa::PathRecord {
    fn as_record(&self, mad: &mut SaMad) {
        weft_wire::mad::Attribute::write(self, &mut mad.data);
    }
}

#[test]
fn programs_of_two_hosts_connect_by_address() {
    let mut world = World::new();
    let listener = world.id(1, PortSpace::Tcp);
    world.order(1, Command::Bind { id: listener, addr: SockAddr::new(address(1), 7174) });
    world.order(1, Command::Listen { id: listener, backlog: 3 });
    let id = world.id(0, PortSpace::Tcp);
    assert_eq!(world.resolve(id), EventKind::RouteResolved);
    let Reply::Route(route) = world.order(0, Command::Query { id }) else { panic!() };
    assert_eq!((route.paths[0].dlid, route.paths[0].sl, route.paths[0].pkey), (2, 2, PKEY));
    let param = ConnParam { qp_num: 0x11, ..ConnParam::default() };
    world.order(0, Command::Connect { id, param: param.clone(), ece: Ece::default() });
    let request = world.events(1).remove(0);
    assert_eq!(request.kind, EventKind::ConnectRequest);
    let accepted = Some(ConnParam { qp_num: 0x12, ..param });
    world.order(1, Command::Accept { id: request.id, cookie: 2, param: accepted, ece: Ece::default() });
    assert_eq!(world.kinds(0), [EventKind::ConnectResponse]);
    world.order(0, Command::Accept { id, cookie: 0, param: None, ece: Ece::default() });
    assert_eq!(world.kinds(1), [EventKind::Established]);
}

/// An SRP login as an InfiniBand initiator sends it begins with zeros, another program's may look like an IP CM header.
#[test]
fn gids_and_service_ids_connect_without_a_header() {
    let service = 0x013f_15b3;
    let at = |gid, sid, sid_mask, pkey| SockAddr::Ib(SockAddrIb { gid, sid, sid_mask, pkey, ..SockAddrIb::default() });
    let ip_header = [&[0, 0x40, 0x10, 0x20][..], &[0; 12], &[10, 0, 0, 1], &[0; 12], &[10, 0, 0, 2], &[7; 56]].concat();
    for private_data in [vec![0; 92], ip_header] {
        let mut world = World::new();
        let listener = world.id(1, PortSpace::Ib);
        world.order(1, Command::Bind { id: listener, addr: at(gid(1), service, u64::MAX, 0) });
        world.order(1, Command::Listen { id: listener, backlog: 3 });
        let id = world.id(0, PortSpace::Ib);
        let dst = at(gid(1), service, u64::MAX, PKEY);
        world.order(0, Command::ResolveAddr { id, src: None, dst, timeout_ms: 1000 });
        assert_eq!(world.kinds(0), [EventKind::AddrResolved]);
        world.order(0, Command::ResolveRoute { id, timeout_ms: 1000 });
        assert_eq!(world.kinds(0), [EventKind::RouteResolved]);
        let Reply::Route(route) = world.order(0, Command::Query { id }) else { panic!() };
        let path = route.paths[0];
        assert_eq!((path.dlid, path.sgid, path.dgid, path.pkey), (2, gid(0), gid(1), PKEY));
        let param = ConnParam { qp_num: 0x11, private_data: private_data.clone(), ..ConnParam::default() };
        world.order(0, Command::Connect { id, param, ece: Ece::default() });
        let request = world.events(1).remove(0);
        let EventParam::Conn(param) = request.param else { panic!("{request:?}") };
        assert_eq!((request.kind, param.private_data), (EventKind::ConnectRequest, private_data));
    }
}

#[test]
fn a_host_where_nobody_listens_says_so() {
    let mut world = World::new();
    let id = world.id(0, PortSpace::Tcp);
    world.resolve(id);
    world.order(0, Command::Connect { id, param: ConnParam::default(), ece: Ece::default() });
    assert_eq!(world.kinds(0), [], "it waits for a listener");
    world.now = world.hosts[1].poll_timeout().unwrap();
    world.hosts[1].handle_timeout(world.now, &world.cable);
    world.settle();
    assert_eq!(world.kinds(0), [EventKind::Rejected]);
}

#[test]
fn without_a_manager_or_its_answer_there_is_no_route() {
    let mut world = World::new();
    world.cable.managed = false;
    let id = world.id(0, PortSpace::Tcp);
    assert_eq!(world.resolve(id), EventKind::RouteError);
    world.cable.managed = true;
    world.answers = false;
    world.order(0, Command::ResolveRoute { id, timeout_ms: 20_000 });
    assert!(world.events(0).is_empty());
    let mut repeats = 0;
    while world.kinds(0).is_empty() {
        world.now = world.hosts[0].poll_timeout().unwrap() + StdDuration::from_nanos(1);
        world.hosts[0].handle_timeout(world.now, &world.cable);
        repeats += world.hosts[0].out.len();
        world.settle();
    }
    assert_eq!(repeats, 5, "asked again until the time was over");
}

#[test]
fn groups_are_the_administrations() {
    let mut world = World::new();
    let id = world.id(0, PortSpace::Udp);
    world.order(0, Command::Bind { id, addr: SockAddr::new(address(0), 0) });
    let addr = SockAddr::new("239.0.0.7".parse().unwrap(), 0);
    world.order(0, Command::ResolveAddr { id, src: None, dst: addr, timeout_ms: 1000 });
    assert_eq!(world.kinds(0), [EventKind::AddrResolved]);
    let Reply::Group(group) =
        world.order(0, Command::JoinMulticast { id, addr, join: JoinKind::FullMember, cookie: 4 })
    else {
        panic!()
    };
    let joined = world.events(0).remove(0);
    let EventParam::Ud(ud) = joined.param else { panic!() };
    assert_eq!((joined.kind, ud.ah_attr.dlid), (EventKind::MulticastJoin, 0xc005));
    world.order(0, Command::LeaveMulticast { group });
    assert!(world.hosts[0].adapters.values().all(|adapter| adapter.sa.is_empty()), "the leave was answered");
}

#[test]
fn gids_of_another_subnet_are_out_of_reach() {
    let world = World::new();
    let ask = |dst: [u8; 16]| {
        let dst = IpAddr::from(dst);
        let question = weft_cm::rdma_cm::QuestionId(1);
        let asked = ResolveQuestion { question, src: None, dst, ifindex: 0, tos: 0 };
        HostCm::resolve(&asked, world.hosts[0].addresses(), &world.cable).map(|found| found.src)
    };
    assert_eq!(ask(gid(1)), Ok(IpAddr::from(gid(0))));
    let mut elsewhere = gid(1);
    elsewhere[7] = 9;
    assert_eq!(ask(elsewhere), Err(ENETUNREACH));
}

#[test]
fn the_port_that_leads_there_is_the_source() {
    let cable = Cable::default();
    let elsewhere = LocalAddress { ifindex: 1, ip: IpAddr::from([10, 0, 0, 77]) };
    let own = [elsewhere, LocalAddress { ifindex: 2, ip: address(0) }];
    let mut asked =
        ResolveQuestion { question: weft_cm::rdma_cm::QuestionId(1), src: None, dst: address(1), ifindex: 0, tos: 0 };
    assert_eq!(HostCm::resolve(&asked, &own, &cable).map(|found| found.ifindex), Ok(2));
    asked.ifindex = 1;
    assert_eq!(HostCm::resolve(&asked, &own, &cable).map(|found| found.ifindex), Ok(1), "as it was asked");
    let only = [elsewhere];
    asked.ifindex = 0;
    assert_eq!(HostCm::resolve(&asked, &only, &cable).map(|found| found.ifindex), Ok(1), "there is no better one");
}
