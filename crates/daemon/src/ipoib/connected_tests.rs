//! Two hosts back to back on a real fabric, whose ports and subnet administration the test plays: interfaces in connected
//! mode meet through the connection manager's datagrams.

use weft_fabric::topology::generate::{Extra, Plan, Shape};
use weft_fabric::{Delivery, Fabric, MadAddress, MadOut, PortRef};
use weft_ipoib::{Frame, Mode, VNET_HEADER_LEN};
use weft_verbs::{Duration, Instant};
use weft_wire::cm::CmMessage;
use weft_wire::lrh::LID_PERMISSIVE;
use weft_wire::mad::sa::{McMemberRecord, PathRecord, SaMad};
use weft_wire::mad::subn::{PhysState, PortInfo, PortState, Smp};
use weft_wire::mad::{AttrId, Attribute, Class, Method};

use super::{Effect, Interfaces};

const LIDS: [u16; 2] = [5, 6];
const PORTS: [PortRef; 2] = [PortRef::new(0, 1), PortRef::new(1, 1)];
const QKEY: u32 = 0x0b1b;
/// Code of 2048 bytes.
const MTU_2048: u8 = 4;
/// Code of a packet life time of half a second.
const LIFE_TIME: u8 = 17;

struct Bench {
    fabric: Fabric,
    interfaces: Interfaces,
    now: Instant,
    /// Names of the connection manager's messages, each with the receiving node.
    messages: Vec<(u32, &'static str)>,
    delivered: [Vec<Vec<u8>>; 2],
    links: [Option<u32>; 2],
    groups: Vec<[u8; 16]>,
}

/// Sends a directed-route Set from the first host to one of the two.
fn set(fabric: &mut Fabric, node: u32, info: &PortInfo) {
    let route: &[u8] = if node == 0 { &[] } else { &[1] };
    let mut smp = Smp::directed(Method::SET, 9, AttrId::PORT_INFO, 0, 0, route).expect("a short route");
    info.write(&mut smp.data);
    let out = MadOut { to: MadAddress::smi(LID_PERMISSIVE), mad: smp.to_mad() };
    fabric.send(Instant(0), PORTS[0], &out).expect("a link");
    let answer = fabric.poll_delivery().expect("an answer");
    assert_eq!(Smp::from_mad(answer.mad).status().0, 0);
}

fn name(message: &CmMessage) -> &'static str {
    match message {
        CmMessage::Req(_) => "REQ",
        CmMessage::Rep(_) => "REP",
        CmMessage::Rtu(_) => "RTU",
        CmMessage::Rej(_) => "REJ",
        CmMessage::Dreq(_) => "DREQ",
        CmMessage::Drep(_) => "DREP",
        _ => "other",
    }
}

impl Bench {
    fn new(modes: [Mode; 2]) -> Bench {
        let shape = Shape::parse("pair", "", Extra::default()).expect("a pair");
        let topology = Plan::new(shape).generate().expect("a pair");
        let mut fabric = Fabric::new(&topology, 1);
        for state in [PortState::NO_CHANGE, PortState::ARMED, PortState::ACTIVE] {
            for node in 0..2 {
                let now = fabric.port_info(PORTS[node]).expect("a port");
                let info = PortInfo {
                    lid: LIDS[node],
                    master_sm_lid: LIDS[0],
                    neighbor_mtu: MTU_2048,
                    port_state: state,
                    port_physical_state: PhysState::NO_CHANGE,
                    ..now
                };
                set(&mut fabric, node as u32, &info);
            }
        }
        let (messages, groups, now) = (Vec::new(), Vec::new(), Instant(1_000_000_000));
        let (delivered, links) = (Default::default(), [None; 2]);
        let mut bench = Bench { fabric, interfaces: Interfaces::default(), now, messages, delivered, links, groups };
        for (node, mode) in modes.into_iter().enumerate() {
            let Bench { interfaces, fabric, .. } = &mut bench;
            interfaces.add(now, fabric, PORTS[node], 7 + node as u64);
            let ip = [10, 0, 0, node as u8 + 1].into();
            interfaces.set_addresses(now, fabric, PORTS[node], &[ip], &[]);
            assert!(interfaces.set_mode(now, fabric, PORTS[node], mode));
        }
        bench.pump();
        bench
    }

    /// Carries datagrams until none is under way.
    fn pump(&mut self) {
        while let Some(delivery) = self.fabric.poll_delivery() {
            let is_query = matches!(delivery.mad.header.method(), Method::GET | Method::SET | Method::DELETE);
            match delivery.mad.header.class() {
                Class::SUBN_ADM if is_query => self.administer(&delivery),
                class => {
                    if class == Class::CM {
                        let message = CmMessage::from_mad(&delivery.mad).expect("a message");
                        self.messages.push((delivery.port.node, name(&message)));
                    }
                    let claimed = self.interfaces.handle_delivery(self.now, &mut self.fabric, &delivery);
                    assert!(claimed, "{:?}", delivery.mad.header);
                }
            }
        }
        while let Some(effect) = self.interfaces.poll_effect() {
            match effect {
                Effect::Deliver(port, frame) => self.delivered[port.port.node as usize].push(frame.packet().to_vec()),
                Effect::Link(port, mtu) => self.links[port.port.node as usize] = mtu,
            }
        }
    }

    /// Answers a query as the subnet administration.
    fn administer(&mut self, delivery: &Delivery) {
        let mut mad = SaMad::from_mad(delivery.mad);
        if let Some(mut record) = mad.record::<McMemberRecord>().filter(|_| mad.attr_id() == McMemberRecord::ID) {
            if !self.groups.contains(&record.mgid) {
                self.groups.push(record.mgid);
            }
            let place = self.groups.iter().position(|mgid| *mgid == record.mgid).expect("a group");
            record = McMemberRecord { mlid: 0xc000 + place as u16, qkey: QKEY, mtu: MTU_2048, ..record };
            record.write(&mut mad.data);
        } else if let Some(record) = mad.record::<PathRecord>() {
            let of =
                |gid| (0..2).find(|node| self.fabric.gid(PORTS[*node], 0) == Some(gid)).map_or(0, |node| LIDS[node]);
            let (slid, dlid) = (of(record.sgid), of(record.dgid));
            let record = PathRecord { slid, dlid, mtu: MTU_2048, packet_life_time: LIFE_TIME, ..record };
            record.write(&mut mad.data);
        }
        mad.header.set_method(Method::GET_RESP);
        let to = MadAddress::gsi(delivery.slid, delivery.pkey);
        self.fabric.send(self.now, delivery.port, &MadOut { to, mad: mad.to_mad() }).expect("a port");
    }

    fn send(&mut self, from: usize, bytes: usize) {
        let to = 2 - from as u8;
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from as u8 + 1, 10, 0, 0, to];
        packet.extend((20..bytes).map(|at| at as u8));
        let frame = Frame::of_kernel(&[0; VNET_HEADER_LEN], &packet).expect("an IP packet");
        self.interfaces.handle_packet(self.now, &mut self.fabric, PORTS[from], frame);
        self.pump();
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let due = [self.interfaces.poll_timeout(), self.fabric.poll_timeout()];
            let Some(at) = due.into_iter().flatten().min().filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            self.fabric.handle_timeout(self.now);
            self.interfaces.handle_timeout(self.now, &mut self.fabric);
            self.pump();
        }
        self.now = end;
    }

    fn messages(&mut self) -> Vec<(u32, &'static str)> {
        std::mem::take(&mut self.messages)
    }

    /// Returns the lengths of the packets that a kernel got.
    fn lengths(&mut self, node: usize) -> Vec<usize> {
        std::mem::take(&mut self.delivered[node]).iter().map(Vec::len).collect()
    }

    /// Returns each interface's connections: for sending, for receiving, and all of the connection manager's.
    fn counts(&self) -> [(usize, usize, usize); 2] {
        PORTS.map(|port| self.interfaces.of[&port.into()].connections.count())
    }

    fn sent(&self, node: usize) -> (u64, u64) {
        let traffic = self.fabric.traffic(PORTS[node]);
        (traffic.xmit_packets, traffic.xmit_data)
    }
}

#[test]
fn a_connection_is_opened_by_req_rep_and_rtu_and_carries_the_longest_packet_whole() {
    let mut bench = Bench::new([Mode::Connected; 2]);
    assert_eq!(bench.links, [Some(65_520); 2]);
    bench.send(0, 100);
    assert_eq!(bench.messages(), [(1, "REQ"), (0, "REP"), (1, "RTU")]);
    assert_eq!((bench.lengths(1), bench.counts()), (vec![100], [(1, 0, 1), (0, 1, 1)]));
    let (packets, words) = bench.sent(0);
    bench.send(0, 65_520);
    let whole = bench.delivered[1].pop().expect("a packet");
    assert!(whole.len() == 65_520 && whole[20..].iter().zip(20..).all(|(byte, at)| *byte == at as u8));
    // 65,524 bytes are 32 packets of 2048, the last one shorter.
    let (later_packets, later_words) = bench.sent(0);
    assert_eq!((later_packets - packets, later_words - words), (32, (65_524 + 32 * 24) / 4));
    // The other direction has a connection of its own.
    bench.send(1, 5000);
    assert_eq!(bench.messages(), [(0, "REQ"), (1, "REP"), (0, "RTU")]);
    assert_eq!((bench.lengths(0), bench.counts()), (vec![5000], [(1, 1, 2); 2]));
}

#[test]
fn a_datagram_peer_is_sent_datagrams_and_rejects_requests() {
    let mut bench = Bench::new([Mode::Connected, Mode::Datagram]);
    bench.send(0, 100);
    bench.send(0, 3000);
    assert_eq!((bench.messages(), bench.lengths(1)), (vec![], vec![100]));
    assert_eq!(bench.lengths(0), [576], "fragmentation needed");
    // A peer that has just changed its mode is still known as connected.
    let mut bench = Bench::new([Mode::Connected; 2]);
    bench.send(1, 100);
    bench.messages();
    let Bench { interfaces, fabric, now, .. } = &mut bench;
    interfaces.set_mode(*now, fabric, PORTS[1], Mode::Datagram);
    bench.pump();
    assert_eq!(bench.messages(), [(0, "DREQ"), (1, "DREP")]);
    bench.send(0, 200);
    assert_eq!(bench.messages(), [(1, "REQ"), (0, "REJ")]);
    assert_eq!((bench.lengths(1), bench.links[1]), (vec![200], Some(2044)));
    assert_eq!(bench.counts(), [(0, 0, 0); 2]);
}

#[test]
fn an_idle_connection_ends_by_dreq_and_drep() {
    let mut bench = Bench::new([Mode::Connected; 2]);
    bench.send(0, 100);
    bench.messages();
    bench.pass(Duration::from_secs(90));
    assert_eq!(bench.messages(), [(1, "DREQ"), (0, "DREP")]);
    bench.pass(Duration::from_secs(10));
    assert_eq!(bench.counts(), [(0, 0, 0); 2]);
    bench.send(0, 300);
    assert_eq!(bench.lengths(1), [100, 300]);
}

#[test]
fn a_lost_message_ends_the_connection_after_the_timeout_and_the_next_packet_opens_another() {
    let mut bench = Bench::new([Mode::Connected; 2]);
    bench.send(0, 100);
    bench.messages();
    // Every packet is damaged, and so are the messages of the connection manager.
    bench.fabric.set_errors(PORTS[0], 1_000_000).expect("a cable");
    bench.send(0, 200);
    bench.fabric.set_errors(PORTS[0], 0).expect("a cable");
    bench.send(0, 300);
    assert_eq!((bench.lengths(1), bench.counts()[0].0), (vec![100], 1), "its queue pair has not timed out yet");
    bench.pass(Duration::from_secs(2));
    assert_eq!((bench.messages(), bench.counts()[0].0), (vec![(1, "DREQ"), (0, "DREP")], 0));
    bench.send(0, 400);
    assert_eq!(bench.messages(), [(1, "REQ"), (0, "REP"), (1, "RTU")]);
    assert_eq!(bench.lengths(1), [400]);
}

#[test]
fn a_port_that_goes_down_ends_its_connections() {
    let mut bench = Bench::new([Mode::Connected; 2]);
    bench.send(0, 100);
    bench.send(1, 100);
    let Bench { interfaces, fabric, now, .. } = &mut bench;
    fabric.cut(*now, PORTS[0]).expect("a cable");
    PORTS.iter().for_each(|port| interfaces.follow_port(*now, fabric, *port));
    bench.pump();
    assert_eq!(bench.links, [None; 2]);
    assert_eq!(bench.counts().map(|(sending, receiving, _)| (sending, receiving)), [(0, 0); 2]);
    bench.pass(Duration::from_secs(60));
    assert_eq!(bench.counts(), [(0, 0, 0); 2], "nothing is left of the connection manager's");
}
