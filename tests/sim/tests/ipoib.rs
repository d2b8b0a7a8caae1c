//! IPoIB interfaces of hosts on a fabric with a real subnet manager: joins, paths and datagrams pass the fabric, by
//! verdicts and hop by hop. Packets reach their hosts, survive cables and managers, and stay in their partition.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weft_daemon::ipoib::Effect;
use weft_fabric::topology::generate::Shape;
use weft_fabric::{Counter, PortRef};
use weft_ipoib::{Frame, VNET_HEADER_LEN};
use weft_sim::subnet::World;
use weft_sm::manager::Setup;
use weft_sm::options::Level;
use weft_sm::partition;
use weft_verbs::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Hosts with interfaces, each with an IPv4 and an IPv6 address.
struct Net {
    world: World,
    hosts: Vec<PortRef>,
}

fn addresses(host: usize) -> [IpAddr; 2] {
    [IpAddr::from([10, 0, 0, host as u8 + 1]), IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, host as u16 + 1])]
}

/// An IP packet of either version with a text at its end.
fn packet(to: IpAddr, text: &str) -> Vec<u8> {
    let mut packet = match to {
        IpAddr::V4(to) => {
            let mut header = [0; 20];
            header[0] = 0x45;
            header[16..].copy_from_slice(&to.octets());
            header.to_vec()
        }
        IpAddr::V6(to) => {
            let mut header = [0; 40];
            header[0] = 0x60;
            header[24..].copy_from_slice(&to.octets());
            header.to_vec()
        }
    };
    packet.extend_from_slice(text.as_bytes());
    packet
}

fn tree() -> Shape {
    Shape::FatTree { radix: 4, levels: 2, hosts: None, hosts_per_leaf: None }
}

impl Net {
    /// Starts managers at the first hosts, and interfaces at all.
    fn new(shape: Shape, managers: usize, hop_by_hop: bool, change: impl Fn(&mut Setup)) -> Net {
        let mut world = World::new(shape, 7);
        for manager in 0..managers {
            let at = world.host(manager);
            world.start(at, |setup| {
                setup.sminfo_polling_timeout = SECOND;
                change(setup);
            });
        }
        world.pass(SECOND);
        let count = (0..world.fabric.node_count())
            .filter(|node| world.fabric.kind(*node) == Some(weft_fabric::topology::NodeKind::Ca))
            .count();
        let hosts: Vec<PortRef> = (0..count).map(|number| world.host(number)).collect();
        let mut net = Net { world, hosts };
        net.world.interfaces.set_hop_by_hop(hop_by_hop);
        for (number, port) in net.hosts.iter().enumerate() {
            let World { interfaces, fabric, now, .. } = &mut net.world;
            interfaces.add(*now, fabric, *port, number as u64 + 1);
            interfaces.set_addresses(*now, fabric, *port, &addresses(number), &["224.0.0.1".parse().unwrap()]);
        }
        net.world.pass(SECOND);
        net
    }

    fn send(&mut self, from: usize, to: IpAddr, text: &str) {
        let World { interfaces, fabric, now, .. } = &mut self.world;
        let frame = Frame::of_kernel(&[0; VNET_HEADER_LEN], &packet(to, text)).expect("an IP packet");
        interfaces.handle_packet(*now, fabric, self.hosts[from], frame);
        self.world.settle();
    }

    /// Takes the texts that reached each host, by the host's number.
    fn texts(&mut self) -> BTreeMap<usize, Vec<String>> {
        let mut texts: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for effect in std::mem::take(&mut self.world.effects) {
            if let Effect::Deliver(id, frame) = effect {
                let packet = frame.packet();
                let host = self.hosts.iter().position(|host| *host == id.port).expect("a host");
                let header = if packet[0] >> 4 == 4 { 20 } else { 40 };
                texts.entry(host).or_default().push(String::from_utf8_lossy(&packet[header..]).into_owned());
            }
        }
        texts
    }

    /// Whether a packet from one host reaches the other, and nobody else.
    fn reaches(&mut self, from: usize, to: usize) -> bool {
        self.texts();
        self.send(from, addresses(to)[0], "over");
        self.texts() == BTreeMap::from([(to, vec!["over".to_owned()])])
    }

    fn links(&self) -> Vec<Option<u32>> {
        let of = |host: &PortRef| {
            let last = self.world.effects.iter().rev().find_map(|effect| match effect {
                Effect::Link(id, mtu) if id.port == *host => Some(*mtu),
                _ => None,
            });
            last.flatten()
        };
        self.hosts.iter().map(of).collect()
    }
}

#[test]
fn every_host_reaches_every_other_in_both_modes() {
    for hop_by_hop in [false, true] {
        let mut net = Net::new(tree(), 1, hop_by_hop, |_| {});
        assert_eq!(net.links(), vec![Some(2044); 8], "hop by hop: {hop_by_hop}");
        let count = net.hosts.len();
        for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))).filter(|(a, b)| a != b) {
            for ip in addresses(to) {
                net.texts();
                net.send(from, ip, "hello");
                // The group of a solicitation is new to its sender: the first may come before the way to the group.
                net.world.pass(2 * SECOND);
                assert_eq!(net.texts(), BTreeMap::from([(to, vec!["hello".to_owned()])]), "{from} to {ip}");
            }
        }
        net.send(0, addresses(1)[0], "confirmed");
        let sent = net.world.fabric.counter(net.hosts[0], Counter::XmitPackets);
        net.send(0, addresses(1)[0], "counted");
        assert_eq!(net.world.fabric.counter(net.hosts[0], Counter::XmitPackets), sent + 1);
    }
}

#[test]
fn multicast_reaches_the_members_of_its_group() {
    for hop_by_hop in [false, true] {
        let mut net = Net::new(tree(), 1, hop_by_hop, |_| {});
        let group: IpAddr = "239.1.2.3".parse().unwrap();
        for member in [1, 6] {
            let World { interfaces, fabric, now, .. } = &mut net.world;
            interfaces.set_addresses(*now, fabric, net.hosts[member], &addresses(member), &[group]);
        }
        net.world.pass(SECOND);
        net.texts();
        net.send(0, group, "group");
        net.world.pass(SECOND);
        let heard = |host| (host, vec!["group".to_owned()]);
        assert_eq!(net.texts(), BTreeMap::from([heard(1), heard(6)]), "hop by hop: {hop_by_hop}");
        net.send(1, "255.255.255.255".parse().unwrap(), "all");
        assert_eq!(net.texts().len(), 7, "everybody but the sender");
    }
}

#[test]
fn a_cut_cable_with_another_beside_it_costs_nothing() {
    let mut net = Net::new(tree(), 1, false, |_| {});
    assert!(net.reaches(0, 7));
    // One of the two ways out of the first leaf.
    let leaf = net.world.fabric.peer(net.hosts[0]).expect("a switch");
    let up = (1..=4)
        .map(|port| PortRef::new(leaf.node, port))
        .find(|port| {
            let far = net.world.fabric.peer(*port).expect("a cable");
            !net.hosts.iter().any(|host| host.node == far.node)
        })
        .expect("a way up");
    let now = net.world.now;
    net.world.fabric.cut(now, up).expect("a cable");
    net.world.pass(3 * SECOND);
    for to in 1..net.hosts.len() {
        assert!(net.reaches(0, to) && net.reaches(to, 0), "host {to}{}", net.world.log());
    }
}

#[test]
fn a_standby_manager_that_takes_over_keeps_the_link() {
    let mut net = Net::new(tree(), 2, false, |_| {});
    let master = net.world.masters()[0];
    assert!(net.reaches(2, 3));
    net.world.kill(master);
    net.world.pass(10 * SECOND);
    assert_eq!(net.world.masters().len(), 1);
    assert_ne!(net.world.masters()[0], master);
    // Neighbours that never met need the broadcast group, a path, and the groups of neighbour discovery.
    for (from, to) in [(2, 3), (4, 5), (6, 7), (7, 2)] {
        assert!(net.reaches(from, to), "{from} to {to}{}", net.world.log());
        net.texts();
        net.send(from, addresses(to)[1], "by IPv6");
        net.world.pass(SECOND);
        assert_eq!(net.texts().get(&to), Some(&vec!["by IPv6".to_owned()]), "{from} to {to}");
    }
}

#[test]
fn joins_and_queries_that_are_lost_are_repeated() {
    let mut net = Net::new(tree(), 1, false, |_| {});
    net.world.loss_ppm = 300_000;
    for port in net.hosts.clone() {
        let World { interfaces, fabric, now, .. } = &mut net.world;
        interfaces.reregister(*now, fabric, port);
    }
    // Not for long: the manager itself gives up nodes.
    net.world.pass(3 * SECOND);
    net.world.loss_ppm = 0;
    net.world.pass(20 * SECOND);
    for to in 1..net.hosts.len() {
        net.send(0, addresses(to)[0], "late");
    }
    net.world.pass(20 * SECOND);
    let texts = net.texts();
    assert_eq!(texts.len(), 7, "{texts:?}");
}

#[test]
fn limited_members_reach_full_members_only() {
    for hop_by_hop in [false, true] {
        let mut world = World::new(Shape::Star { hosts: 4 }, 1);
        let full: Vec<u64> = (0..2).map(|host| world.fabric.port_guid(world.host(host)).expect("a port")).collect();
        let at = world.host(0);
        world.start(at, |_| {});
        drop(world);
        let text = format!("Default=0x7fff,ipoib : ALL=limited, {:#x}=full, {:#x}=full ;", full[0], full[1]);
        let (config, diagnostics) = partition::parse(&text, "partitions.conf");
        assert!(diagnostics.iter().all(|diagnostic| diagnostic.level < Level::Error), "{diagnostics:?}");
        let mut net = Net::new(Shape::Star { hosts: 4 }, 1, hop_by_hop, |setup| setup.partitions = config.clone());
        for (from, to) in [(0, 1), (1, 2), (2, 0), (3, 1)] {
            assert!(net.reaches(from, to), "{from} to {to}, hop by hop: {hop_by_hop}");
        }
        for (from, to) in [(2, 3), (3, 2)] {
            assert!(!net.reaches(from, to), "{from} to {to}, hop by hop: {hop_by_hop}");
        }
    }
}

#[test]
fn a_host_without_power_is_forgotten_and_found_again() {
    let mut net = Net::new(Shape::Star { hosts: 3 }, 1, false, |_| {});
    assert!(net.reaches(1, 2));
    let (now, node) = (net.world.now, net.hosts[2].node);
    net.world.fabric.power_off(now, node).expect("a host");
    net.world.pass(40 * SECOND);
    assert!(!net.reaches(1, 2));
    let now = net.world.now;
    net.world.fabric.power_on(now, node).expect("a host");
    net.world.pass(40 * SECOND);
    assert!(net.reaches(1, 2), "{}", net.world.log());
}

/// A frame of UDP datagrams that the kernel has not cut: their payloads are the bytes, 1000 in each datagram.
fn uncut(to: usize, payload: &[u8]) -> Frame {
    let IpAddr::V4(to) = addresses(to)[0] else { panic!("an IPv4 address") };
    let (udp_len, length) = ((payload.len() + 8) as u16, (payload.len() + 28) as u16);
    let mut packet = vec![0x45, 0, (length >> 8) as u8, length as u8, 0, 9, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1];
    packet.extend(to.octets());
    packet.extend([0, 7, 0, 7, (udp_len >> 8) as u8, udp_len as u8, 0, 0]);
    packet.extend(payload);
    let numbers = [28_u16, 1000, 20, 6].map(u16::to_ne_bytes);
    let mut header = [0; VNET_HEADER_LEN];
    (header[0], header[1]) = (1, 5);
    header[2..].copy_from_slice(numbers.as_flattened());
    Frame::of_kernel(&header, &packet).expect("a packet of a kernel")
}

#[test]
fn packets_that_are_not_cut_count_as_datagrams_and_are_lost_as_such() {
    const DATAGRAMS: u64 = 50;
    let payload: Vec<u8> = (0..DATAGRAMS * 1000).map(|at| (at / 1000) as u8).collect();
    for (hop_by_hop, is_tapped, loss_ppm) in
        [(false, false, 0), (true, false, 0), (false, true, 0), (false, false, 300_000), (true, false, 300_000)]
    {
        let mut net = Net::new(Shape::Star { hosts: 3 }, 1, hop_by_hop, |_| {});
        assert!(net.reaches(1, 2));
        net.texts();
        net.world.fabric.set_errors(net.hosts[2], loss_ppm).expect("a cable");
        net.world.fabric.set_tapped(is_tapped);
        let count = |net: &Net| net.world.fabric.counter(net.hosts[1], Counter::XmitPackets);
        let (before, World { interfaces, fabric, now, .. }) = (count(&net), &mut net.world);
        interfaces.handle_packet(*now, fabric, net.hosts[1], uncut(2, &payload));
        net.world.settle();
        let case = format!("hop by hop: {hop_by_hop}, tapped: {is_tapped}, lost: {loss_ppm}");
        assert_eq!(count(&net) - before, DATAGRAMS, "{case}");
        let tapped = std::iter::from_fn(|| net.world.fabric.poll_tapped()).count() as u64;
        assert_eq!(tapped, if is_tapped { 2 * DATAGRAMS } else { 0 }, "{case}");
        let delivered: Vec<Frame> = std::mem::take(&mut net.world.effects)
            .into_iter()
            .filter_map(|effect| if let Effect::Deliver(_, frame) = effect { Some(frame) } else { None })
            .collect();
        let crosses_whole = !hop_by_hop && !is_tapped && loss_ppm == 0;
        assert_eq!(delivered.len() == 1, crosses_whole, "{case}");
        let plain: Vec<Frame> = delivered.into_iter().flat_map(Frame::into_plain).collect();
        let arrived = plain.len() as u64;
        assert!(if loss_ppm == 0 { arrived == DATAGRAMS } else { (20..48).contains(&arrived) }, "{arrived}, {case}");
        assert!(plain.iter().all(|frame| frame.packet().len() == 1028), "{case}");
        net.world.fabric.set_tapped(false);
    }
}
