//! An IPoIB interface (RFC 4391): from IP packets of the kernel to datagrams, and back.

mod connected;
mod mode;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_verbs::Instant;
use weft_wire::ipoib::{Arp, HEADER_LEN, LinkAddress, Protocol, broadcast_group, group_of};
use weft_wire::mad::sa::{McMemberRecord, PathRecord};

use crate::connections::Connections;
use crate::discovery::{Discovery, solicited_node};
use crate::frame::Frame;
use crate::groups::Groups;
use crate::memberships::Memberships;
use crate::neighbours::{Found, NeighbourState, Neighbours};
use crate::output::Output;
use crate::paths::Paths;
use crate::routes::{NextHop, Route, Routes};

pub use connected::{ConnectionRequest, Rejection};
pub use mode::Mode;

/// Scope of the broadcast group and all others: link-local, which subnet managers make.
const SCOPE: u8 = 2;

/// The port under an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Port {
    /// GID, row 0 of its table.
    pub gid: [u8; 16],
    /// LID.
    pub lid: u16,
    /// Queue pair that receives the interface's datagrams.
    pub qpn: u32,
}

/// Sender of a received datagram, as its completion names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sender {
    /// Its queue pair.
    pub qpn: u32,
}

/// An interface: one partition of one port.
#[derive(Clone, Debug)]
pub struct Interface {
    pkey: u16,
    port: Option<Port>,
    /// The kernel's addresses of the interface.
    addresses: BTreeSet<IpAddr>,
    /// Multicast groups of the interface, whatever the kernel reports.
    memberships: BTreeSet<IpAddr>,
    /// Multicast groups that the kernel reports.
    reported: Memberships,
    routes: Routes,
    groups: Groups,
    paths: Paths,
    neighbours: Neighbours,
    connections: Connections,
    mode: Mode,
    /// Largest IP packet in a datagram: that of the broadcast group.
    datagram_mtu: u32,
    up: bool,
}

impl Interface {
    /// Creates the interface of a partition, down and in datagram mode.
    pub fn new(pkey: u16) -> Interface {
        Interface {
            pkey,
            port: None,
            addresses: BTreeSet::new(),
            memberships: BTreeSet::new(),
            reported: Memberships::default(),
            routes: Routes::default(),
            groups: Groups::default(),
            paths: Paths::default(),
            neighbours: Neighbours::default(),
            connections: Connections::default(),
            mode: Mode::default(),
            datagram_mtu: 0,
            up: false,
        }
    }

    /// Returns the port, while it is up.
    pub fn port(&self) -> Option<Port> {
        self.port
    }

    /// Returns the interface's link-layer address, while its port is up.
    pub fn link_address(&self) -> Option<LinkAddress> {
        self.port.map(|port| LinkAddress { flags: self.mode.flags(), qpn: port.qpn, gid: port.gid })
    }

    /// Returns the known neighbours, for tools.
    pub fn neighbours(&self) -> impl Iterator<Item = (IpAddr, LinkAddress)> {
        self.neighbours.iter()
    }

    /// Returns each neighbour with its address and state, for tools.
    pub fn neighbour_states(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = (IpAddr, Option<LinkAddress>, NeighbourState)> {
        self.neighbours.states(now)
    }

    /// Whether the interface receives datagrams to a group. A port may be a member for another interface of it, or for a
    /// group with the same LID.
    pub fn receives(&self, mgid: &[u8; 16]) -> bool {
        self.groups.wants(mgid)
    }

    /// Leaves the link for good.
    pub fn leave(&mut self, out: &mut Vec<Output>) {
        self.groups.leave_all(out);
        self.port = None;
        self.up = false;
    }

    /// Handles the port's state: `None` while it is not active. A change of LID or GID counts as both.
    pub fn handle_port(&mut self, port: Option<Port>, out: &mut Vec<Output>) {
        if self.port == port {
            return;
        }
        self.groups.reset();
        self.paths.reset();
        self.neighbours.reset();
        self.connections.reset(out);
        if std::mem::take(&mut self.up) {
            out.push(Output::Down);
        }
        self.port = port;
        if self.port.is_some() {
            // The link exists where its broadcast group does; all else follows it (RFC 4391 §5).
            self.groups.want(broadcast_group(self.pkey, SCOPE), out);
        }
    }

    /// Handles ClientReregister: the subnet administration has forgotten the memberships, and LIDs may have changed.
    pub fn handle_reregister(&mut self, now: Instant, out: &mut Vec<Output>) {
        self.paths.reset();
        self.resolve_connections(now, out);
        self.groups.rejoin(out);
    }

    /// Sets the addresses and the multicast groups that the kernel has on the interface.
    pub fn set_addresses(
        &mut self,
        addresses: impl IntoIterator<Item = IpAddr>,
        memberships: impl IntoIterator<Item = IpAddr>,
        out: &mut Vec<Output>,
    ) {
        self.addresses = addresses.into_iter().collect();
        self.memberships = memberships.into_iter().collect();
        if self.up {
            self.follow_memberships(out);
        }
    }

    /// Sets the kernel's routes over the interface.
    pub fn set_routes(&mut self, routes: impl IntoIterator<Item = Route>) {
        self.routes.set(routes);
    }

    /// Returns the neighbour on the way to a destination; the limited broadcast address for all of them.
    pub fn next_hop(&self, destination: IpAddr) -> IpAddr {
        match self.routes.next_hop(destination) {
            NextHop::OnLink => destination,
            NextHop::Gateway(gateway) => gateway,
            NextHop::Broadcast => Ipv4Addr::BROADCAST.into(),
        }
    }

    /// Joins the groups of the kernel's memberships and of its IPv6 addresses, and leaves others.
    fn follow_memberships(&mut self, out: &mut Vec<Output>) {
        let solicited = self.addresses.iter().filter_map(|address| match address {
            IpAddr::V6(address) => Some(IpAddr::V6(solicited_node(*address))),
            IpAddr::V4(_) => None,
        });
        let all = solicited.chain(self.memberships.iter().copied()).chain(self.reported.groups());
        let wanted: BTreeSet<_> = all.filter_map(|group| group_of(group, self.pkey, SCOPE)).collect();
        let broadcast = broadcast_group(self.pkey, SCOPE);
        let left: Vec<_> = self.groups.wanted().filter(|mgid| *mgid != broadcast && !wanted.contains(mgid)).collect();
        left.into_iter().for_each(|mgid| self.groups.leave(mgid, out));
        wanted.into_iter().for_each(|mgid| self.groups.want(mgid, out));
    }

    /// Handles the answer to [`Output::Join`].
    pub fn handle_joined(&mut self, record: &McMemberRecord, out: &mut Vec<Output>) {
        if self.port.is_none() {
            return;
        }
        let broadcast = record.mgid == broadcast_group(self.pkey, SCOPE);
        self.groups.on_joined(record, out);
        if broadcast && !self.up {
            self.datagram_mtu = mtu_of(record);
            self.up = true;
            out.extend(self.mtu().map(|mtu| Output::Up { mtu }));
            self.follow_memberships(out);
            self.announce(out);
        }
    }

    /// Announces the IPv4 addresses (RFC 5227 §2.3): neighbours that asked while the link was down need not ask again, and
    /// others learn a new queue pair at once.
    fn announce(&mut self, out: &mut Vec<Output>) {
        let Some(own) = self.link_address() else { return };
        let mgid = broadcast_group(self.pkey, SCOPE);
        for address in &self.addresses {
            let IpAddr::V4(ip) = *address else { continue };
            let target = LinkAddress::default();
            let arp = Arp { operation: Arp::REQUEST, sender: own, sender_ip: ip, target, target_ip: ip };
            self.groups.send(mgid, Frame::new(Protocol::ARP, &arp.encode()), out);
        }
    }

    /// Handles a refused or unanswered [`Output::Join`].
    pub fn handle_join_refused(&mut self, now: Instant, mgid: &[u8; 16]) {
        self.groups.on_refused(now, mgid);
    }

    /// Handles the answer to [`Output::ResolvePath`].
    pub fn handle_path(&mut self, record: &PathRecord, out: &mut Vec<Output>) {
        self.paths.on_path(record, self.qkey(), out);
        self.connect(record, out);
    }

    /// Handles a refused or unanswered [`Output::ResolvePath`].
    pub fn handle_no_path(&mut self, now: Instant, dgid: &[u8; 16]) {
        self.paths.on_no_path(now, dgid);
        self.connections.on_no_path(dgid);
    }

    /// Returns the link's broadcast group, while the interface is a member.
    pub fn broadcast(&self) -> Option<&McMemberRecord> {
        self.groups.membership(&broadcast_group(self.pkey, SCOPE))
    }

    /// The Q_Key of the link: the broadcast group's.
    fn qkey(&self) -> Option<u32> {
        self.broadcast().map(|record| record.qkey)
    }

    /// Handles an IP packet of the kernel; `next_hop` is the neighbour on its way, or its destination.
    pub fn handle_packet(&mut self, now: Instant, next_hop: IpAddr, frame: Frame, out: &mut Vec<Output>) {
        // Before the link is up, too: the kernel does not repeat a report later.
        let changed = self.reported.handle_packet(frame.packet());
        if !self.up {
            return;
        }
        if changed {
            self.follow_memberships(out);
        }
        if let Some(mgid) = group_of(next_hop, self.pkey, SCOPE) {
            // Groups have datagrams in every mode, and lose a packet that is too long for one, as Linux does.
            if self.fits_datagram(&frame) {
                self.groups.send(mgid, frame, out);
            }
            return;
        }
        let Found { address, ask } = self.neighbours.find(now, next_hop);
        match address {
            Some(address) => self.send_packet(now, &address, frame, out),
            None => self.neighbours.hold(next_hop, frame),
        }
        if ask {
            self.ask(next_hop, out);
        }
    }

    fn send_to(&mut self, now: Instant, to: &LinkAddress, frame: Frame, out: &mut Vec<Output>) {
        if let Some(qkey) = self.qkey() {
            self.paths.send(now, to, qkey, frame, out);
        }
    }

    /// Asks the link for a neighbour's address.
    fn ask(&mut self, ip: IpAddr, out: &mut Vec<Output>) {
        let Some(own) = self.link_address() else { return };
        match ip {
            IpAddr::V4(target_ip) => {
                let sender_ip = self.addresses.iter().find_map(|own| match own {
                    IpAddr::V4(own) => Some(*own),
                    IpAddr::V6(_) => None,
                });
                let Some(sender_ip) = sender_ip else { return };
                let target = LinkAddress::default();
                let request = Arp { operation: Arp::REQUEST, sender: own, sender_ip, target, target_ip };
                let mgid = broadcast_group(self.pkey, SCOPE);
                self.groups.send(mgid, Frame::new(Protocol::ARP, &request.encode()), out);
            }
            IpAddr::V6(target) => {
                let Some(src) = self.source_for(target) else { return };
                let dst = solicited_node(target);
                let message = Discovery { solicits: true, src, dst, target, address: Some(own) };
                let Some(mgid) = group_of(dst.into(), self.pkey, SCOPE) else { return };
                self.groups.send(mgid, Frame::new(Protocol::IPV6, &message.encode()), out);
            }
        }
    }

    /// Returns the own address for a solicitation: link-local for a link-local target.
    fn source_for(&self, target: Ipv6Addr) -> Option<Ipv6Addr> {
        let local = |address: &Ipv6Addr| address.segments()[0] & 0xffc0 == 0xfe80;
        let own = self.addresses.iter().filter_map(|own| match own {
            IpAddr::V6(own) => Some(*own),
            IpAddr::V4(_) => None,
        });
        own.clone().find(|own| local(own) == local(&target)).or(own.clone().next())
    }

    /// Handles a received datagram, without its GRH.
    pub fn handle_datagram(&mut self, now: Instant, from: Sender, datagram: Frame, out: &mut Vec<Output>) {
        self.handle_frame(now, from, datagram, out);
    }

    fn handle_frame(&mut self, now: Instant, from: Sender, frame: Frame, out: &mut Vec<Output>) {
        let (true, Some((protocol, packet))) = (self.up, frame.split()) else { return };
        match protocol {
            Protocol::ARP => self.handle_arp(now, from, packet, out),
            Protocol::IPV6 => match Discovery::parse(packet) {
                Some(message) => self.handle_discovery(now, from, &message, out),
                None => deliver(protocol, frame, out),
            },
            Protocol::IPV4 => deliver(protocol, frame, out),
            _ => {}
        }
    }

    /// Whether a sender may claim a link-layer address: the datagram comes from the queue pair in it, and the address is
    /// no group's and not this interface's.
    fn is_honest(&self, from: Sender, address: &LinkAddress) -> bool {
        address.qpn == from.qpn && !address.is_group() && self.port.is_none_or(|port| port.gid != address.gid)
    }

    fn handle_arp(&mut self, now: Instant, from: Sender, packet: &[u8], out: &mut Vec<Output>) {
        let (Some(arp), Some(own)) = (Arp::parse(packet), self.link_address()) else { return };
        if !self.is_honest(from, &arp.sender) {
            return;
        }
        let for_us = self.addresses.contains(&IpAddr::V4(arp.target_ip));
        if !arp.sender_ip.is_unspecified() {
            self.learn(now, arp.sender_ip.into(), arp.sender, for_us, out);
        }
        if for_us && arp.operation == Arp::REQUEST {
            let (target, target_ip) = (arp.sender, arp.sender_ip);
            let reply = Arp { operation: Arp::REPLY, sender: own, sender_ip: arp.target_ip, target, target_ip };
            self.send_to(now, &arp.sender, Frame::new(Protocol::ARP, &reply.encode()), out);
        }
    }

    fn handle_discovery(&mut self, now: Instant, from: Sender, message: &Discovery, out: &mut Vec<Output>) {
        let Some(own) = self.link_address() else { return };
        if message.address.is_some_and(|address| !self.is_honest(from, &address)) {
            return;
        }
        if !message.solicits {
            if let Some(address) = message.address {
                self.learn(now, message.target.into(), address, false, out);
            }
            return;
        }
        if !self.addresses.contains(&IpAddr::V6(message.target)) {
            return;
        }
        let reply = |dst| {
            let answer =
                Discovery { solicits: false, src: message.target, dst, target: message.target, address: Some(own) };
            Frame::new(Protocol::IPV6, &answer.encode())
        };
        match message.address {
            // A test for duplicates has no address to answer to: all nodes hear that the address is taken.
            _ if message.src.is_unspecified() => {
                const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
                if let Some(mgid) = group_of(ALL_NODES.into(), self.pkey, SCOPE) {
                    self.groups.send(mgid, reply(ALL_NODES), out);
                }
            }
            Some(address) => {
                self.learn(now, message.src.into(), address, true, out);
                self.send_to(now, &address, reply(message.src), out);
            }
            None => {}
        }
    }

    fn learn(&mut self, now: Instant, ip: IpAddr, address: LinkAddress, create: bool, out: &mut Vec<Output>) {
        for frame in self.neighbours.learn(now, ip, address, create) {
            self.send_packet(now, &address, frame, out);
        }
    }

    /// Returns when [`Interface::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timeouts = [self.neighbours.poll_timeout(), self.groups.poll_timeout(), self.connections.poll_timeout()];
        timeouts.into_iter().flatten().min()
    }

    /// Repeats requests and joins whose time has come, and ends idle connections.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Vec<Output>) {
        self.groups.handle_timeout(now, out);
        self.connections.handle_timeout(now, out);
        let (again, lost) = self.neighbours.handle_timeout(now);
        lost.iter().for_each(|address| self.paths.forget(&address.gid));
        again.into_iter().for_each(|ip| self.ask(ip, out));
    }
}

/// Gives the kernel a packet that is one of its protocol.
fn deliver(protocol: Protocol, frame: Frame, out: &mut Vec<Output>) {
    if Protocol::of_ip(frame.packet()) == Some(protocol) {
        out.push(Output::Deliver(frame));
    }
}

/// Returns the largest IP packet of a link, from its broadcast group: codes are 1 for 256 bytes to 5 for 4096.
fn mtu_of(record: &McMemberRecord) -> u32 {
    (128 << record.mtu.clamp(1, 5)) - HEADER_LEN as u32
}
