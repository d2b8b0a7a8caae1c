//! Connected mode: connections in both directions, refusals, floods, idle ends, packets that are too long.

use weft_wire::ipoib::ConnectedData;

use super::*;
use crate::limits::{
    HELD_BYTES_MAX, INCOMING_IDLE, INCOMING_MAX, INCOMING_PER_PEER_MAX, OUTGOING_IDLE, REFUSED_FOR, SWEEP_EVERY,
};
use crate::{Connection, ConnectionRequest, Mode, Rejection};

/// The connection managers of all hosts.
#[derive(Default)]
pub(super) struct Connected {
    /// Receiving host and number of each connection, by sending host and number.
    open: BTreeMap<(usize, u32), (usize, u32)>,
    last: u32,
    requests: usize,
    messages: usize,
    /// Requests get no answer.
    is_silent: bool,
    /// Longest frame that peers take; 0 for what they say.
    frame_max: u32,
    /// By how much LIDs are above their first values.
    pub(super) lid_shift: u16,
}

impl Link {
    pub(super) fn connect(
        &mut self,
        host: usize,
        connection: u32,
        to: &LinkAddress,
        path: &PathRecord,
        data: ConnectedData,
    ) -> Vec<(usize, Output)> {
        assert_eq!((to.flags, path.dgid), (LinkAddress::RC, to.gid));
        assert_eq!(data, ConnectedData { qpn: port(host).qpn, mtu: 65_524 });
        self.connections.requests += 1;
        if self.connections.is_silent {
            return Vec::new();
        }
        let peer = usize::from(path.dlid - self.connections.lid_shift) - 1;
        self.connections.last += 1;
        let (now, number) = (self.now, self.connections.last);
        let request = ConnectionRequest { number, gid: gid(host), data };
        let mut out = Vec::new();
        let answer = self.hosts[peer].handle_request(now, &request, &mut out);
        let mut all: Vec<_> = out.drain(..).map(|output| (peer, output)).collect();
        match answer {
            Ok(mut data) => {
                if self.connections.frame_max != 0 {
                    data.mtu = self.connections.frame_max;
                }
                self.connections.open.insert((host, connection), (peer, number));
                assert!(self.hosts[host].handle_connected(connection, Some(data), &mut out));
            }
            Err(_) => self.hosts[host].handle_refused(now, connection, &mut out),
        }
        all.extend(out.into_iter().map(|output| (host, output)));
        all
    }

    pub(super) fn carry_message(&mut self, host: usize, connection: u32, frame: Frame) -> Vec<(usize, Output)> {
        self.connections.messages += 1;
        let Some(&(peer, number)) = self.connections.open.get(&(host, connection)) else { return Vec::new() };
        let (now, mut out) = (self.now, Vec::new());
        self.hosts[peer].handle_message(now, number, frame, &mut out);
        out.into_iter().map(|output| (peer, output)).collect()
    }

    pub(super) fn disconnect(&mut self, host: usize, connection: Connection) {
        match connection {
            Connection::Outgoing(number) => {
                if let Some((peer, number)) = self.connections.open.remove(&(host, number)) {
                    self.hosts[peer].handle_incoming_end(number);
                }
            }
            Connection::Incoming(number) => {
                let sender = self.connections.open.iter().find(|(_, to)| **to == (host, number)).map(|(from, _)| *from);
                if let Some((peer, connection)) = sender {
                    self.connections.open.remove(&(peer, connection));
                    self.hosts[peer].handle_disconnected(connection);
                }
            }
        }
    }

    fn set_mode(&mut self, host: usize, mode: Mode) {
        self.step(host, |interface, out| interface.set_mode(mode, out));
    }

    fn connected(count: usize) -> Link {
        let mut link = Link::new(count);
        (0..count).for_each(|host| link.set_mode(host, Mode::Connected));
        link
    }

    /// Sends an UDP packet of this many bytes.
    fn send_long(&mut self, from: usize, to: usize, bytes: usize) {
        let mut packet =
            vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from as u8 + 1, 10, 0, 0, to as u8 + 1];
        packet.resize(bytes, 7);
        let (now, frame) = (self.now, of_kernel(&packet));
        self.step(from, |interface, out| interface.handle_packet(now, v4(to), frame, out));
    }

    fn counts(&self) -> Vec<(usize, usize)> {
        self.hosts.iter().map(Interface::connections).collect()
    }
}

#[test]
fn the_mode_is_seen_in_the_mtu_and_the_address() {
    let mut link = Link::new(2);
    link.set_mode(0, Mode::Connected);
    assert_eq!(link.mtus, [Some(65_520), Some(2044)]);
    let flags = |link: &Link, host: usize| link.hosts[host].link_address().map(|address| address.flags);
    assert_eq!((flags(&link, 0), flags(&link, 1)), (Some(0x80), Some(0)));
    link.step(0, |interface, out| interface.handle_port(None, out));
    link.step(0, |interface, out| interface.handle_port(Some(port(0)), out));
    assert_eq!(link.mtus[0], Some(65_520), "the mode stays");
    link.set_mode(0, Mode::Datagram);
    assert_eq!((link.mtus[0], flags(&link, 0)), (Some(2044), Some(0)));
}

#[test]
fn packets_go_over_one_connection_in_each_direction() {
    let mut link = Link::connected(2);
    link.send(0, v4(1), "first");
    link.send(0, v6(1), "second");
    assert_eq!(link.texts(1), ["first", "second"]);
    assert_eq!((link.connections.requests, link.connections.messages), (1, 2));
    let before = link.datagrams;
    link.send(1, v4(0), "answer");
    link.send_long(1, 0, 65_520);
    assert_eq!(link.delivered[0].iter().map(Vec::len).collect::<Vec<_>>(), [54, 65_520]);
    assert_eq!((link.counts(), link.datagrams), (vec![(1, 1); 2], before));
    // A group has datagrams.
    link.send(0, "255.255.255.255".parse().unwrap(), "all");
    assert_eq!((link.texts(1), link.datagrams), (vec!["all".to_owned()], before + 1));
}

#[test]
fn requests_of_both_sides_may_cross() {
    let mut link = Link::connected(2);
    link.connections.is_silent = true;
    link.send(0, v4(1), "there");
    link.send(1, v4(0), "back");
    assert_eq!(link.connections.requests, 2);
    // The driver hands over the peer's request before the reply to its own.
    let now = link.now;
    for (host, peer) in [(0, 1), (1, 0)] {
        let data = ConnectedData { qpn: port(host).qpn, mtu: 65_524 };
        let request = ConnectionRequest { number: 7, gid: gid(host), data };
        let reply = link.hosts[peer].handle_request(now, &request, &mut Vec::new()).expect("room");
        assert_eq!(reply, ConnectedData { qpn: port(peer).qpn, mtu: 65_524 });
        link.connections.open.insert((host, 1), (peer, 7));
    }
    for host in 0..2 {
        let data = Some(ConnectedData { qpn: 0, mtu: 65_524 });
        link.step(host, |interface, out| assert!(interface.handle_connected(1, data, out)));
    }
    assert_eq!((link.texts(1), link.texts(0)), (vec!["there".to_owned()], vec!["back".to_owned()]));
    assert_eq!(link.counts(), [(1, 1); 2]);
}

#[test]
fn a_datagram_peer_gets_datagrams_and_its_mtu_is_reported() {
    let mut link = Link::new(2);
    link.set_mode(0, Mode::Connected);
    link.send(0, v4(1), "short");
    assert_eq!((link.texts(1), link.connections.requests), (vec!["short".to_owned()], 0));
    link.send_long(0, 1, 2044);
    link.send_long(0, 1, 2045);
    assert_eq!(link.delivered[1].len(), 1);
    let answer = link.delivered[0].pop().expect("an ICMP message");
    // From the peer, destination unreachable, fragmentation needed, 2044.
    assert_eq!((&answer[12..16], &answer[20..22], &answer[26..28]), (&[10, 0, 0, 2][..], &[3, 4][..], &[7, 0xfc][..]));
    // The same to a group is lost without a word.
    let (now, frame) = (link.now, of_kernel(&[0x45; 3000]));
    link.step(0, |interface, out| interface.handle_packet(now, "239.1.2.3".parse().unwrap(), frame, out));
    assert!(link.delivered[0].is_empty());
}

#[test]
fn a_longer_packet_than_the_connected_peer_takes_is_answered() {
    let mut link = Link::connected(2);
    link.connections.frame_max = 4004;
    link.send_long(0, 1, 4001);
    assert_eq!(link.delivered[0].pop().map(|answer| answer[26..28].to_vec()), Some(vec![0x0f, 0xa0]), "it waited");
    link.send_long(0, 1, 4001);
    assert_eq!(link.delivered[0].pop().map(|answer| answer[26..28].to_vec()), Some(vec![0x0f, 0xa0]));
    link.send_long(0, 1, 4000);
    assert_eq!(link.delivered[1].len(), 1);
}

#[test]
fn a_refusal_means_datagrams_for_a_while() {
    let mut link = Link::connected(2);
    link.send(1, v4(0), "known");
    // The peer changes its mode, and is still known as one that accepts connections.
    link.set_mode(1, Mode::Datagram);
    link.send(0, v4(1), "waits");
    link.send(0, v4(1), "follows");
    assert_eq!((link.texts(1), link.connections.requests), (vec!["waits".to_owned(), "follows".to_owned()], 2));
    link.set_mode(1, Mode::Connected);
    link.send(0, v4(1), "still");
    assert_eq!(link.connections.requests, 2);
    link.pass(REFUSED_FOR);
    link.send(0, v4(1), "again");
    assert_eq!((link.connections.requests, link.counts()[0]), (3, (1, 0)));
    assert_eq!(link.texts(1), ["still", "again"]);
}

#[test]
fn packets_wait_for_the_answer_within_bounds() {
    let mut link = Link::connected(2);
    link.connections.is_silent = true;
    (0..50).for_each(|_| link.send_long(0, 1, 65_520));
    assert_eq!(link.connections.requests, 1);
    let now = link.now;
    link.connections.is_silent = false;
    link.delivered[0].clear();
    link.step(0, |interface, out| interface.handle_refused(now, 1, out));
    assert_eq!(link.delivered[0].len(), HELD_BYTES_MAX / 65_524, "each is too long for a datagram");
    // Bad private data is no acceptance.
    for data in [None, Some(ConnectedData { qpn: 1, mtu: 4 })] {
        link.step(0, |interface, out| assert!(!interface.handle_connected(1, data, out)));
    }
}

#[test]
fn a_flood_of_requests_is_bounded_and_spares_connections_in_use() {
    let mut link = Link::connected(2);
    link.send(0, v4(1), "first");
    let now = link.now;
    let request = |number: u32, gid: [u8; 16], qpn: u32| ConnectionRequest {
        number,
        gid,
        data: ConnectedData { qpn, mtu: 65_524 },
    };
    let mut ended = 0;
    let mut flood = |link: &mut Link, number: u32, gid: [u8; 16]| {
        let mut out = Vec::new();
        let answer = link.hosts[1].handle_request(now, &request(number, gid, number), &mut out);
        ended += out.iter().filter(|output| matches!(output, Output::Disconnect(Connection::Incoming(_)))).count();
        answer
    };
    for number in 100..200 {
        assert!(flood(&mut link, number, gid(5)).is_ok());
    }
    assert_eq!(link.counts()[1].1, 1 + INCOMING_PER_PEER_MAX);
    for number in 1000..5000_u32 {
        let mut forged = gid(6);
        forged[8..12].copy_from_slice(&number.to_be_bytes());
        assert!(flood(&mut link, number, forged).is_ok());
    }
    assert_eq!((link.counts()[1].1, ended), (INCOMING_MAX, 4101 - INCOMING_MAX));
    link.send(0, v4(1), "spared");
    assert_eq!((link.texts(1), link.connections.requests), (vec!["first".to_owned(), "spared".to_owned()], 1));
    let bad = link.hosts[1].handle_request(now, &request(1, gid(7), 1 << 24), &mut Vec::new());
    assert_eq!(bad, Err(Rejection::Invalid));
    link.set_mode(1, Mode::Datagram);
    assert_eq!(link.counts()[1], (0, 0));
    let late = link.hosts[1].handle_request(now, &request(1, gid(7), 1), &mut Vec::new());
    assert_eq!(late, Err(Rejection::NoService));
}

#[test]
fn idle_connections_end() {
    let mut link = Link::connected(2);
    link.send(0, v4(1), "first");
    link.pass(OUTGOING_IDLE - SWEEP_EVERY);
    assert_eq!(link.counts(), [(1, 0), (0, 1)]);
    link.pass(SWEEP_EVERY * 2);
    assert_eq!(link.counts(), [(0, 0); 2]);
    link.pass(SWEEP_EVERY);
    assert_eq!(link.hosts[0].poll_timeout(), None);
    link.send(0, v4(1), "again");
    assert_eq!((link.texts(1).len(), link.connections.requests), (2, 2));
    // The peer goes without a word: the receiving end is older than any other.
    link.connections.open.clear();
    link.step(0, |interface, out| interface.handle_port(None, out));
    link.pass(INCOMING_IDLE + SWEEP_EVERY * 2);
    assert_eq!(link.counts(), [(0, 0); 2]);
}

#[test]
fn a_changed_lid_and_a_broken_connection_lead_to_another() {
    let mut link = Link::connected(2);
    link.send(0, v4(1), "first");
    // The same LID keeps the connection, another one ends it.
    let now = link.now;
    link.step(0, |interface, out| interface.handle_reregister(now, out));
    assert_eq!(link.counts()[0], (1, 0));
    link.connections.lid_shift = 40;
    link.step(0, |interface, out| interface.handle_reregister(now, out));
    assert_eq!(link.counts(), [(0, 0); 2]);
    link.send(0, v4(1), "moved");
    assert_eq!((link.texts(1), link.connections.requests), (vec!["first".to_owned(), "moved".to_owned()], 2));
    // A connection that broke: the path is asked for again.
    link.connections.lid_shift = 80;
    link.hosts[0].handle_disconnected(2);
    link.send(0, v4(1), "back");
    assert_eq!((link.texts(1), link.counts()[0]), (vec!["back".to_owned()], (1, 0)));
    // The port goes down, with its connections.
    link.step(0, |interface, out| interface.handle_port(None, out));
    assert_eq!(link.counts()[0], (0, 0));
}

#[test]
fn without_a_path_packets_are_lost_and_no_connection_waits() {
    let mut link = Link::connected(2);
    link.send(0, v4(1), "known");
    link.hosts[0].handle_disconnected(1);
    link.refuses = true;
    link.send(0, v4(1), "lost");
    link.send(0, v4(1), "lost, too");
    link.refuses = false;
    link.pass(Duration::from_secs(2));
    link.send(0, v4(1), "found");
    assert_eq!((link.texts(1), link.connections.requests), (vec!["known".to_owned(), "found".to_owned()], 2));
}

#[test]
fn an_arp_request_by_message_names_its_sender() {
    let mut link = Link::connected(2);
    link.send(0, v4(1), "first");
    let now = link.now;
    let arp = |qpn: u32, ip: u8| {
        let sender = LinkAddress { flags: 0x80, qpn, gid: gid(0) };
        let target = LinkAddress::default();
        let arp = Arp {
            operation: Arp::REPLY,
            sender,
            sender_ip: [10, 0, 0, ip].into(),
            target,
            target_ip: [10, 0, 0, 2].into(),
        };
        Frame::new(Protocol::ARP, &arp.encode())
    };
    let number = link.connections.last;
    link.step(1, |interface, out| interface.handle_message(now, number, arp(0x99, 77), out));
    link.step(1, |interface, out| interface.handle_message(now, number, arp(port(0).qpn, 78), out));
    let knows = |ip: u8| link.hosts[1].neighbours().any(|(known, _)| known == IpAddr::from([10, 0, 0, ip]));
    assert_eq!((knows(77), knows(78)), (false, true));
}
