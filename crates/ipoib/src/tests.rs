//! Interfaces of several hosts on one link, with a subnet administration that the tests play.

mod connected;

use std::collections::BTreeMap;
use std::net::IpAddr;

use weft_verbs::{Duration, Instant};
use weft_wire::ipoib::{Arp, LinkAddress, Protocol, broadcast_group};
use weft_wire::mad::sa::{McMemberRecord, PathRecord};

use crate::limits::{ASK_EVERY, HELD_MAX, NEIGHBOURS_MAX};
use crate::{Frame, Interface, Output, Port, Sender, VNET_HEADER_LEN};

const PKEY: u16 = 0xffff;
const QKEY: u32 = 0x0b1b;
/// Code of an MTU of 2048 bytes.
const MTU_2048: u8 = 4;

fn gid(host: usize) -> [u8; 16] {
    let mut gid = [0; 16];
    (gid[0], gid[1], gid[15]) = (0xfe, 0x80, host as u8 + 1);
    gid
}

fn v4(host: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, host as u8 + 1])
}

fn v6(host: usize) -> IpAddr {
    IpAddr::from([0xfd77, 0, 0, 0, 0, 0, 0, host as u16 + 1])
}

fn port(host: usize) -> Port {
    Port { gid: gid(host), lid: host as u16 + 1, qpn: 0x40 + host as u32 }
}

/// Packet of a protocol version with a recognisable end.
fn packet(to: IpAddr, text: &str) -> Vec<u8> {
    let version = if to.is_ipv4() { 0x45 } else { 0x60 };
    let mut packet = vec![version; 1];
    packet.resize(48, 0);
    packet.extend_from_slice(text.as_bytes());
    packet
}

/// Frame of a packet on which no work is left.
fn of_kernel(packet: &[u8]) -> Frame {
    Frame::of_kernel(&[0; VNET_HEADER_LEN], packet).expect("an IP packet")
}

struct Link {
    hosts: Vec<Interface>,
    now: Instant,
    members: BTreeMap<[u8; 16], Vec<usize>>,
    /// Packets that each host delivered to its kernel.
    delivered: Vec<Vec<Vec<u8>>>,
    /// The subnet administration refuses everything.
    refuses: bool,
    /// Datagrams on the link.
    datagrams: usize,
    mtus: Vec<Option<u32>>,
    connections: connected::Connected,
}

impl Link {
    fn new(count: usize) -> Link {
        let mut link = Link {
            hosts: (0..count).map(|_| Interface::new(PKEY)).collect(),
            now: Instant(1_000_000_000),
            members: BTreeMap::new(),
            delivered: vec![Vec::new(); count],
            refuses: false,
            datagrams: 0,
            mtus: vec![None; count],
            connections: connected::Connected::default(),
        };
        for host in 0..count {
            link.step(host, |interface, out| {
                interface.set_addresses([v4(host), v6(host)], ["224.0.0.1".parse().unwrap()], out);
                interface.handle_port(Some(port(host)), out);
            });
        }
        link
    }

    /// Lets a host act, and everything that follows from it.
    fn step(&mut self, host: usize, act: impl FnOnce(&mut Interface, &mut Vec<Output>)) {
        let mut out = Vec::new();
        act(&mut self.hosts[host], &mut out);
        let mut work: Vec<(usize, Output)> = out.into_iter().map(|output| (host, output)).collect();
        while !work.is_empty() {
            let (host, output) = work.remove(0);
            let more = self.carry(host, output);
            work.extend(more);
        }
    }

    fn carry(&mut self, host: usize, output: Output) -> Vec<(usize, Output)> {
        let mut out = Vec::new();
        let now = self.now;
        let mut of = host;
        match output {
            Output::Join { mgid, .. } if self.refuses => self.hosts[host].handle_join_refused(now, &mgid),
            Output::Join { mgid, full } => {
                if full {
                    self.members.entry(mgid).or_default().push(host);
                }
                let number = self.members.keys().position(|known| *known == mgid).unwrap_or(0xff);
                let mlid = 0xc000 + number as u16;
                let record = McMemberRecord { mgid, mlid, qkey: QKEY, mtu: MTU_2048, ..McMemberRecord::default() };
                self.hosts[host].handle_joined(&record, &mut out);
            }
            Output::Leave { mgid } => self.members.entry(mgid).or_default().retain(|member| *member != host),
            Output::ResolvePath { dgid } if self.refuses => self.hosts[host].handle_no_path(now, &dgid),
            Output::ResolvePath { dgid } => {
                let dlid = u16::from(dgid[15]);
                let dlid = dlid + self.connections.lid_shift;
                let record = PathRecord { dgid, dlid, ..PathRecord::default() };
                self.hosts[host].handle_path(&record, &mut out);
            }
            Output::Deliver(frame) => self.delivered[host].push(frame.packet().to_vec()),
            Output::Up { mtu } => self.mtus[host] = Some(mtu),
            Output::Down => self.mtus[host] = None,
            Output::Connect { connection, to, path, data } => return self.connect(host, connection, &to, &path, data),
            Output::SendMessage { connection, frame } => return self.carry_message(host, connection, frame),
            Output::Disconnect(connection) => self.disconnect(host, connection),
            Output::Send { to, frame } => {
                assert_eq!(to.qkey, QKEY);
                self.datagrams += 1;
                let sender = Sender { qpn: port(host).qpn };
                let receivers: Vec<usize> = match to.group {
                    Some(mgid) => self.members.get(&mgid).cloned().unwrap_or_default(),
                    None => vec![usize::from(to.dlid - self.connections.lid_shift) - 1],
                };
                let mut all = Vec::new();
                for receiver in receivers.into_iter().filter(|receiver| *receiver != host) {
                    let mut out = Vec::new();
                    self.hosts[receiver].handle_datagram(now, sender, frame.clone(), &mut out);
                    all.extend(out.into_iter().map(|output| (receiver, output)));
                }
                return all;
            }
        }
        if out.is_empty() {
            of = host;
        }
        out.into_iter().map(|output| (of, output)).collect()
    }

    fn send(&mut self, from: usize, to: IpAddr, text: &str) {
        let now = self.now;
        let frame = of_kernel(&packet(to, text));
        self.step(from, |interface, out| interface.handle_packet(now, to, frame, out));
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let next = self.hosts.iter().enumerate().filter_map(|(host, i)| Some((i.poll_timeout()?, host))).min();
            let Some((at, host)) = next.filter(|(at, _)| *at <= end) else { break };
            self.now = self.now.max(at);
            let now = self.now;
            self.step(host, |interface, out| interface.handle_timeout(now, out));
        }
        self.now = end;
    }

    fn texts(&mut self, host: usize) -> Vec<String> {
        let packets = std::mem::take(&mut self.delivered[host]);
        packets.iter().map(|packet| String::from_utf8_lossy(&packet[48..]).into_owned()).collect()
    }
}

#[test]
fn packets_reach_neighbours_by_ipv4_and_ipv6() {
    let mut link = Link::new(3);
    assert_eq!(link.mtus, [Some(2044); 3]);
    for to in [v4(1), v6(1)] {
        link.send(0, to, "first");
        link.send(0, to, "second");
        assert_eq!(link.texts(1), ["first", "second"], "{to}");
    }
    let known = link.hosts[0].neighbours().find(|(ip, _)| *ip == v4(1)).map(|(_, address)| address);
    assert_eq!(known, Some(LinkAddress { flags: 0, qpn: 0x41, gid: gid(1) }));
    // The asked host learned the asking one: its answers need no request.
    let before = link.datagrams;
    link.send(1, v4(0), "answer");
    assert_eq!((link.texts(0), link.datagrams - before), (vec!["answer".to_owned()], 1));
    assert!(link.texts(2).is_empty());
}

#[test]
fn multicast_reaches_members_and_broadcast_everyone() {
    let mut link = Link::new(3);
    let group: IpAddr = "239.1.2.3".parse().unwrap();
    link.step(1, |interface, out| interface.set_addresses([v4(1)], [group], out));
    link.send(0, group, "group");
    link.send(0, "255.255.255.255".parse().unwrap(), "all");
    assert_eq!((link.texts(1), link.texts(2)), (vec!["group".to_owned(), "all".to_owned()], vec!["all".to_owned()]));
    link.step(1, |interface, out| interface.set_addresses([v4(1)], [], out));
    link.send(0, group, "nobody");
    assert!(link.texts(1).is_empty());
}

#[test]
fn a_neighbour_that_does_not_answer_is_given_up() {
    let mut link = Link::new(1);
    let announced = std::mem::take(&mut link.datagrams);
    assert_eq!(announced, 1, "its own address");
    for number in 0..2 * HELD_MAX {
        link.send(0, v4(8), &number.to_string());
    }
    let asked = link.datagrams;
    assert_eq!(asked, 1, "one request for many packets");
    link.pass(ASK_EVERY * 5);
    assert_eq!(link.datagrams, 3, "three requests");
    assert_eq!(link.hosts[0].poll_timeout(), None);
    // It comes back, and is found by the next packet.
    link.send(0, v4(8), "again");
    assert_eq!(link.datagrams, 4);
}

#[test]
fn a_confirmed_neighbour_is_asked_again_after_a_while_and_used_meanwhile() {
    let mut link = Link::new(2);
    link.send(0, v4(1), "first");
    link.pass(Duration::from_secs(31));
    let before = link.datagrams;
    link.send(0, v4(1), "later");
    assert_eq!(link.texts(1), ["first", "later"]);
    assert_eq!(link.datagrams - before, 3, "packet, request, reply");
}

#[test]
fn a_port_that_goes_down_takes_the_link_with_it() {
    let mut link = Link::new(2);
    link.step(0, |interface, out| interface.handle_port(None, out));
    assert_eq!(link.mtus, [None, Some(2044)]);
    link.send(0, v4(1), "lost");
    assert!(link.texts(1).is_empty());
    link.refuses = true;
    link.step(0, |interface, out| interface.handle_port(Some(port(0)), out));
    assert_eq!(link.mtus[0], None, "no link without its broadcast group");
    link.refuses = false;
    link.pass(Duration::from_secs(2));
    link.send(0, v4(1), "back");
    assert_eq!((link.mtus[0], link.texts(1)), (Some(2044), vec!["back".to_owned()]));
}

#[test]
fn a_neighbour_that_comes_up_is_found_without_another_request() {
    let mut link = Link::new(2);
    link.step(1, |interface, out| interface.handle_port(None, out));
    link.send(0, v4(1), "waits");
    assert!(link.texts(1).is_empty());
    link.step(1, |interface, out| interface.handle_port(Some(port(1)), out));
    assert_eq!(link.texts(1), ["waits"]);
}

#[test]
fn after_a_new_subnet_manager_members_join_again() {
    let mut link = Link::new(2);
    link.members.clear();
    for host in 0..2 {
        let now = link.now;
        link.step(host, |interface, out| interface.handle_reregister(now, out));
    }
    link.send(0, v4(1), "found");
    assert_eq!(link.texts(1), ["found"]);
}

#[test]
fn forged_requests_teach_nothing_and_floods_are_bounded() {
    let mut link = Link::new(2);
    let forged = |qpn: u32, ip: [u8; 4]| {
        let sender = LinkAddress { flags: 0, qpn, gid: gid(7) };
        let target = LinkAddress::default();
        let arp =
            Arp { operation: Arp::REQUEST, sender, sender_ip: ip.into(), target, target_ip: [10, 0, 0, 1].into() };
        Frame::new(Protocol::ARP, &arp.encode())
    };
    let now = link.now;
    // Another program's queue pair is claimed, and this interface's own GID.
    link.step(0, |interface, out| {
        interface.handle_datagram(now, Sender { qpn: 0x99 }, forged(0x41, [10, 0, 0, 2]), out);
    });
    assert_eq!(link.hosts[0].neighbours().count(), 0);
    // The flood needs paths that are refused.
    link.refuses = true;
    for number in 0..3000_u32 {
        let [.., a, b] = number.to_be_bytes();
        link.step(0, |interface, out| {
            interface.handle_datagram(now, Sender { qpn: 0x99 }, forged(0x99, [10, 1, a, b]), out);
        });
    }
    assert_eq!(link.hosts[0].neighbours().count(), NEIGHBOURS_MAX);
    let mgid = broadcast_group(PKEY, 2);
    assert_eq!(link.members[&mgid], [0, 1]);
}
