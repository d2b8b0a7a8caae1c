//! Paths over a fabric: two hosts back to back, configured by SMPs as a subnet manager does, and a program on each.

use weft_fabric::topology::generate::{Extra, Plan, Shape};
use weft_fabric::topology::{Port, Topology};
use weft_fabric::{Fabric, MadAddress, MadOut, PortRef};
use weft_ipc::fabric::{CableChange, FabricRequest, PortName, pack};
use weft_ipc::{GroupMember, GroupReply, KeyViolation, LostPackets, PathReply, PathRequest, PathTraffic};
use weft_wire::lrh::LID_PERMISSIVE;
use weft_wire::mad::subn::{PKeyTable, PhysState, PortInfo, PortState, Smp};
use weft_wire::mad::{AttrId, Attribute, Method};

use super::*;

/// LIDs of the two hosts.
pub(super) const LIDS: [u16; 2] = [5, 6];
pub(super) const GROUP: u16 = 0xc003;
const MGID: [u8; 16] = [0xff; 16];

pub(super) struct Pair {
    pub(super) world: World,
    /// The program on each host: its client, its slot.
    pub(super) programs: [(ClientId, u32); 2],
    pub(super) device: [u32; 2],
}

/// Sends a directed-route Set from the first host to one of the two.
fn set(fabric: &mut Fabric, place: u32, attr: AttrId, attribute: &impl Attribute) {
    let way: &[u8] = if place == 0 { &[] } else { &[1] };
    let mut smp = Smp::directed(Method::SET, 9, attr, 0, 0, way).expect("a short way");
    attribute.write(&mut smp.data);
    let out = MadOut { to: MadAddress::smi(LID_PERMISSIVE), mad: smp.to_mad() };
    fabric.send(weft_verbs::Instant(0), PortRef::new(0, 1), &out).expect("a way");
    let answer = fabric.poll_delivery().expect("an answer");
    assert_eq!(Smp::from_mad(answer.mad).status().0, 0);
}

fn set_port(fabric: &mut Fabric, place: u32, state: PortState) {
    let now = fabric.port_info(PortRef::new(place, 1)).expect("a port");
    let info = PortInfo {
        lid: LIDS[place as usize],
        master_sm_lid: LIDS[0],
        neighbor_mtu: 5,
        port_state: state,
        port_physical_state: PhysState::NO_CHANGE,
        ..now
    };
    set(fabric, place, AttrId::PORT_INFO, &info);
}

impl Pair {
    fn new() -> Pair {
        Pair::of(false)
    }

    pub(super) fn of(packets: bool) -> Pair {
        Pair::with(packets, |_| {})
    }

    /// Adds an Ethernet port to each adapter.
    fn on_ethernet() -> Pair {
        Pair::with(false, |topology| {
            for (node, guid) in topology.nodes.iter_mut().zip(0x77..) {
                node.ports.push(Port::on_ethernet(guid, "40GbE").expect("a rate"));
            }
        })
    }

    fn with(packets: bool, change: impl Fn(&mut Topology)) -> Pair {
        let mut world = World::new(false);
        let admin = world.session(OWN);
        let shape = Shape::parse("pair", "", Extra::default()).expect("a pair");
        let mut topology = Plan::new(shape).generate().expect("a pair");
        change(&mut topology);
        let bytes = pack(&topology).expect("bytes");
        let length = bytes.len() as u32;
        let up = FabricRequest::Up { length, seed: 1, packets, ipoib_connected: false };
        for request in [FabricRequest::Describe(bytes), up] {
            world.ask(admin, Request::Fabric(request)).expect("a fabric");
        }
        let fabric = world.broker.shared.fabric.running_mut().expect("a fabric").fabric_mut();
        for state in [PortState::NO_CHANGE, PortState::ARMED, PortState::ACTIVE] {
            (0..2).for_each(|place| set_port(fabric, place, state));
        }
        let mut programs = [(0, 0); 2];
        let mut device = [0; 2];
        for (place, host) in ["node1", "node2"].into_iter().enumerate() {
            let client = world.connect(OWN);
            let hello = Hello { host: host.to_owned(), ..Hello::new(Purpose::Session, "x") };
            assert_eq!(world.hello(client, &hello).status, HelloStatus::Welcome);
            world.ask(client, Request::Subscribe).expect("subscribed");
            programs[place] = (client, world.slot(client).expect("a slot").slot);
            device[place] = world.broker.shared.devices_of_host(host)[0].index;
        }
        let mut pair = Pair { world, programs, device };
        pair.follow();
        pair
    }

    pub(super) fn fabric(&mut self) -> &mut Fabric {
        self.world.broker.shared.fabric.running_mut().expect("a fabric").fabric_mut()
    }

    /// Lets the daemon process changes; returns its events for the first program.
    pub(super) fn follow(&mut self) -> Vec<Event> {
        let World { broker, host, now, .. } = &mut self.world;
        broker.carry_datagrams(*now, host);
        self.world.settle();
        let client = self.programs[0].0;
        self.world.events(client)
    }

    fn request(&self, pkey: u16) -> PathRequest {
        PathRequest {
            device: self.device[0],
            port: 1,
            dgid: [0; 16],
            dlid: LIDS[1],
            sl: 0,
            pkey,
            mtu: 2048,
            slot: self.programs[1].1,
            there_and_back: true,
        }
    }

    fn ask(&mut self, request: PathRequest) -> Result<PathReply, i32> {
        match self.world.ask(self.programs[0].0, Request::Path(request))? {
            Response::Path(reply) => Ok(reply),
            other => panic!("{other:?}"),
        }
    }

    fn ask_group(&mut self) -> GroupReply {
        let request = PathRequest { dlid: GROUP, slot: 0, there_and_back: false, ..self.request(0xffff) };
        match self.world.ask(self.programs[0].0, Request::GroupPath(request)) {
            Ok(Response::Group(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn listen(&mut self, place: usize, listens: bool) {
        let member = GroupMember { device: self.device[place], port: 1, mlid: GROUP, mgid: MGID };
        let answer = self.world.ask(self.programs[place].0, Request::GroupMember { member, listens });
        assert_eq!(answer, Ok(Response::Done));
    }

    pub(super) fn set_pkeys(&mut self, place: u32, keys: &[u16]) {
        let mut table = PKeyTable::default();
        table.pkeys[..keys.len()].copy_from_slice(keys);
        set(self.fabric(), place, AttrId::PKEY_TABLE, &table);
    }
}

#[test]
fn a_path_from_an_ethernet_port_is_named_by_its_gid() {
    let mut pair = Pair::on_ethernet();
    let far = PortRef::new(1, 2);
    let dgid = pair.fabric().ethernet().gids(far)[3].gid;
    let to = |pair: &Pair, dgid| PathRequest { port: 2, dlid: 0, dgid, ..pair.request(0xffff) };
    let request = to(&pair, dgid);
    let PathReply { path, open, meets } = pair.ask(request).expect("a path");
    assert!(open && meets);
    let strange = to(&pair, [7; 16]);
    assert!(pair.ask(strange).is_ok_and(|reply| !reply.open && !reply.meets), "nothing has this GID");
    let elsewhere = PathRequest { slot: pair.programs[0].1, ..request };
    assert!(pair.ask(elsewhere).is_ok_and(|reply| !reply.open), "the process of the slot runs on another host");
    let by_lid = PathRequest { dlid: LIDS[1], dgid: [0; 16], ..request };
    assert!(pair.ask(by_lid).is_ok_and(|reply| !reply.open), "an Ethernet port has no LIDs");
    let now = weft_verbs::Instant(0);
    for (is_on, open) in [(false, false), (true, true)] {
        let changed = if is_on { pair.fabric().power_on(now, 1) } else { pair.fabric().power_off(now, 1) };
        changed.expect("a node");
        assert!(pair.follow().contains(&Event::PathChanged { path, open }), "power {is_on}");
    }
}

#[test]
fn a_way_is_open_while_packets_arrive() {
    let mut pair = Pair::new();
    let reply = pair.ask(pair.request(0xffff)).expect("a way");
    assert!(reply.open && reply.meets, "{reply:?}");
    assert_eq!(pair.ask(pair.request(0xffff)), Ok(reply), "asked again it is the same way");
    let elsewhere = pair.ask(PathRequest { slot: pair.programs[0].1, ..pair.request(0xffff) }).expect("a way");
    assert!(!elsewhere.open && !elsewhere.meets && elsewhere.path != reply.path, "the LID is another host's");
    assert_eq!(pair.ask(PathRequest { device: pair.device[1], ..pair.request(0xffff) }), Err(refusal::ENODEV));
    assert!(pair.follow().is_empty(), "nothing changed");
    let (a, b) = (PortName { node: "node1".to_owned(), port: 1 }, None);
    let admin = pair.world.session(OWN);
    let cut = FabricRequest::Cable { a, b, change: CableChange::Cut };
    pair.world.ask(admin, Request::Fabric(cut)).expect("cut");
    let closed = Event::PathChanged { path: reply.path, open: false };
    assert!(pair.follow().contains(&closed));
    assert!(!pair.ask(pair.request(0xffff)).expect("a way").open);
}

#[test]
fn partitions_close_ways_and_are_told() {
    let mut pair = Pair::new();
    for place in 0..2 {
        pair.set_pkeys(place, &[0xffff, 0x0001]);
    }
    assert!(pair.ask(pair.request(0xffff)).expect("a way").open);
    let limited = pair.ask(pair.request(0x0001)).expect("a way");
    assert!(!limited.open && limited.meets, "{limited:?}");
    assert!(!pair.ask(pair.request(0x8001)).expect("a way").open, "a P_Key that the sender's port does not have");
    let lost = LostPackets { path: limited.path, src_qp: 0x40, dest_qp: 0x50, packets: 3, bytes: 6144 };
    let client = pair.programs[0].0;
    pair.world.ask(client, Request::LostPackets(vec![lost])).expect("told");
    let info = pair.fabric().port_info(PortRef::new(1, 1)).expect("a port");
    assert_eq!(info.pkey_violations, 3);
    let sent = pair.fabric().traffic(PortRef::new(0, 1));
    assert!(sent.xmit_data >= 3 * 2048 / 4, "what was sent in vain was sent: {sent:?}");
    pair.set_pkeys(1, &[0xffff, 0x8001]);
    assert!(pair.follow().contains(&Event::PathChanged { path: limited.path, open: true }));
    // Packets over a path that the daemon knows to be open are not lost.
    pair.world.ask(client, Request::LostPackets(vec![lost])).expect("told");
    assert_eq!(pair.fabric().port_info(PortRef::new(1, 1)).expect("a port").pkey_violations, 3);
}

#[test]
fn what_passed_is_counted_on_the_way() {
    let mut pair = Pair::new();
    let reply = pair.ask(pair.request(0xffff)).expect("a way");
    let before = pair.fabric().traffic(PortRef::new(1, 1));
    let told = PathTraffic { path: reply.path, packets: 10, bytes: 4000, packets_back: 2, bytes_back: 8 };
    let nowhere = PathTraffic { path: 77, ..told };
    let client = pair.programs[0].0;
    pair.world.ask(client, Request::PathTraffic(vec![told, nowhere])).expect("told");
    let after = pair.fabric().traffic(PortRef::new(1, 1));
    assert_eq!((after.rcv_packets - before.rcv_packets, after.xmit_packets - before.xmit_packets), (10, 2));
    assert_eq!(after.rcv_data - before.rcv_data, (4000 + 10 * 24) / 4);
}

#[test]
fn a_group_leads_to_who_listens() {
    let mut pair = Pair::new();
    let nobody = pair.ask_group();
    assert!(nobody.slots.is_empty());
    pair.listen(1, true);
    assert_eq!(pair.follow(), [Event::GroupChanged { path: nobody.path }]);
    let slots = [pair.programs[0].1, pair.programs[1].1];
    assert_eq!(pair.ask_group().slots, [slots[1]]);
    // A copy of a sent packet stays at the own port, too.
    pair.listen(0, true);
    let mut both = slots;
    both.sort_unstable();
    assert_eq!(pair.ask_group().slots, both);
    let told = PathTraffic { path: nobody.path, packets: 4, bytes: 400, packets_back: 0, bytes_back: 0 };
    let client = pair.programs[0].0;
    pair.world.ask(client, Request::PathTraffic(vec![told])).expect("told");
    assert_eq!(pair.fabric().traffic(PortRef::new(1, 1)).multicast_rcv_packets, 4);
    // A listener in another partition does not receive it.
    pair.set_pkeys(1, &[0x7fff]);
    pair.set_pkeys(0, &[0x7fff]);
    let request = PathRequest { dlid: GROUP, slot: 0, there_and_back: false, ..pair.request(0x7fff) };
    let reply = pair.world.ask(client, Request::GroupPath(request)).expect("a way");
    assert!(matches!(reply, Response::Group(reply) if reply.slots == [slots[0]]), "two limited members");
    pair.set_pkeys(0, &[0xffff]);
    pair.follow();
    assert_eq!(pair.ask_group().slots, both);
    pair.listen(0, false);
    pair.world.broker.disconnect(pair.world.now, pair.programs[1].0, &mut pair.world.host);
    assert!(pair.follow().contains(&Event::GroupChanged { path: nobody.path }));
    assert!(pair.ask_group().slots.is_empty());
    let member = GroupMember { device: pair.device[0], port: 1, mlid: LIDS[0], mgid: MGID };
    let refused = pair.world.ask(client, Request::GroupMember { member, listens: true });
    assert_eq!(refused, Err(refusal::EINVAL), "no LID of a group");
}

#[test]
fn wrong_keys_are_counted_at_the_port() {
    let mut pair = Pair::new();
    let bad = KeyViolation {
        device: pair.device[1],
        port: 1,
        slid: LIDS[0],
        dlid: LIDS[1],
        sl: 0,
        is_qkey: true,
        key: 0x1111,
        src_qp: 0x40,
        dest_qp: 0x50,
        gids: None,
    };
    let client = pair.programs[1].0;
    let told = vec![bad, KeyViolation { is_qkey: false, key: 0x8005, ..bad }, bad];
    assert_eq!(pair.world.ask(client, Request::KeyViolations(told)), Ok(Response::Done));
    let info = pair.fabric().port_info(PortRef::new(1, 1)).expect("a port");
    assert_eq!((info.qkey_violations, info.pkey_violations), (2, 1));
    assert_eq!(pair.fabric().traps_pending(1), 2, "one of each kind waits until it is repressed");
    let foreign = KeyViolation { device: pair.device[0], ..bad };
    assert_eq!(pair.world.ask(client, Request::KeyViolations(vec![foreign])), Err(refusal::ENODEV));
}

#[test]
fn an_adapter_of_a_host_is_renamed_for_its_programs_alone() {
    let Pair { mut world, programs: [(client, _), (other, _)], .. } = Pair::of(false);
    let rename = |old: &str, new: &str| Request::DevRename { old: old.into(), new: new.into() };
    for client in [client, other] {
        assert_eq!(world.ask(client, Request::Subscribe), Ok(Response::Done));
    }
    assert_eq!(world.ask(client, rename("weft7", "mlx4_0")), Err(refusal::ENODEV));
    assert_eq!(world.ask(client, rename("weft0", "a/b")), Err(refusal::EINVAL));
    assert_eq!(world.ask(client, rename("weft0", "mlx4_0")), Ok(Response::Done));
    let stranger = world.session(OWN + 1);
    assert_eq!(world.ask(stranger, rename("mlx4_0", "x")), Err(refusal::EPERM));
    let Ok(Response::Devices { devices, .. }) = world.ask(client, Request::ListDevices { offset: 0 }) else { panic!() };
    assert_eq!(devices[0].name, "mlx4_0");
    let Ok(Response::Devices { devices, .. }) = world.ask(other, Request::ListDevices { offset: 0 }) else { panic!() };
    assert_eq!(devices[0].name, "weft0", "another host");
}

#[test]
fn whatever_a_description_may_name_an_adapter_is_a_name_for_a_device() {
    let long = "x".repeat(63);
    let longer = "x".repeat(64);
    for name in ["mlx4_0", "a.b:c", "", ".", "..", "a/b", "50%", "a b", "é", &long, &longer] {
        let is_adapter = weft_fabric::topology::is_adapter_name(name);
        assert_eq!(is_adapter, weft_ipc::valid_device_name(name), "{name}");
    }
}

#[test]
fn a_program_with_two_connections_is_one_program_and_a_keeper_is_none() {
    let Pair { mut world, programs, .. } = Pair::of(false);
    let hello = |program: &str| Hello { host: "node1".to_owned(), ..Hello::new(Purpose::Session, program) };
    let second = world.connect(OWN);
    assert_eq!(world.hello(second, &hello("x")).status, HelloStatus::Welcome);
    let asker = world.session(OWN);
    let counted = |world: &mut World| {
        let hosts = world.ask(asker, Request::Fabric(FabricRequest::Hosts { offset: 0 }));
        let Ok(Response::Fabric(weft_ipc::fabric::FabricReply::Hosts { hosts, .. })) = hosts else {
            panic!("{hosts:?}")
        };
        hosts.iter().map(|host| host.programs).collect::<Vec<_>>()
    };
    // All clients of these tests share one process ID.
    assert_eq!(counted(&mut world), [1, 1]);
    for (program, _) in programs {
        world.broker.disconnect(world.now, program, &mut world.host);
    }
    world.broker.disconnect(world.now, second, &mut world.host);
    let keeper = world.connect(OWN);
    assert_eq!(world.hello(keeper, &hello(weft_ipc::VIEW_KEEPER)).status, HelloStatus::Welcome);
    assert_eq!(counted(&mut world), [0; 0]);
}
