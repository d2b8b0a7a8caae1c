//! Two hosts wired back to back: each receives what the other sends, unless a test drops it.

use std::collections::VecDeque;
use std::net::IpAddr;

use weft_verbs::{Duration, Instant};

use crate::rdma_cm::*;

/// A host: its service and the events of its programs.
pub struct Host {
    pub service: Service,
    pub events: Vec<(ChannelId, CmEvent)>,
    pub groups: Vec<MulticastRequest>,
    addresses: Vec<IpAddr>,
    next_client: u64,
    next_cookie: u64,
}

/// A program with one channel.
#[derive(Clone, Copy)]
pub struct Program {
    pub host: usize,
    pub client: ClientId,
    pub channel: ChannelId,
}

pub struct Lab {
    pub now: Instant,
    pub hosts: [Host; 2],
    /// Packets in flight, with their destination host.
    wire: VecDeque<(usize, GmpAddress, MadBytes)>,
    /// Whether packets arrive.
    pub cable: bool,
    /// Whether the hosts answer requests.
    pub answers: bool,
    /// Every packet sent.
    pub sent: Vec<MadBytes>,
    /// Whether the devices are on an InfiniBand fabric.
    fabric: bool,
    /// LID of all groups.
    mlid: u16,
    /// Number of the last queue pair. Numbers are not reused: a peer takes a reused one for a stale connection.
    last_qpn: u32,
}

/// A device of a host; hosts count from 1.
fn device(host: u64, index: u32, loopback: bool, addresses: &[&str]) -> Device {
    let row = |(index_, text): (u8, &&str)| DeviceGid {
        index: index_,
        gid: gid_of_ip(text.parse().unwrap()),
        ip: text.parse().unwrap(),
        mode: RoceMode::V2,
        ifindex: index + 1,
    };
    Device {
        index,
        port: 1,
        name: format!("rxe{index}"),
        node_guid: 0x5054_00ff_fe77_0000 + host,
        ifindex: index + 1,
        loopback,
        active: true,
        active_mtu: 3,
        rate: 0,
        kind: PortKind::Roce,
        pkeys: vec![0xffff],
        gids: (0..).zip(addresses).map(row).collect(),
    }
}

/// The partition that all ports are full members of.
pub const PARTITION: u16 = 0x8001;

/// GID of a host's port on an InfiniBand fabric.
pub fn port_gid(host: usize) -> [u8; 16] {
    ["fe80::5054:ff:fe77:1", "fe80::5054:ff:fe77:2"][host].parse::<std::net::Ipv6Addr>().unwrap().octets()
}

impl Host {
    fn new(seed: u64, addresses: &[&str]) -> Host {
        let mut service = Service::new(seed);
        service.set_device(Instant(0), device(seed, 0, true, &["127.0.0.1", "::1"]));
        service.set_device(Instant(0), device(seed, 1, false, addresses));
        let all = addresses.iter().chain(&["127.0.0.1", "::1"]).map(|text| text.parse().unwrap());
        let mut local: Vec<LocalAddress> = all.map(|ip| LocalAddress { ifindex: 2, ip }).collect();
        local.push(LocalAddress { ifindex: 9, ip: "172.16.0.1".parse().unwrap() });
        service.set_local_addresses(local);
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        Host { service, events: Vec::new(), groups: Vec::new(), addresses, next_client: 1, next_cookie: 100 }
    }

    /// Answers like the routing table.
    fn route(&self, ask: &ResolveQuestion) -> ResolveResult {
        let local = self.addresses.contains(&ask.dst);
        let src = ask.src.or_else(|| {
            let same = self.addresses.iter().find(|ip| ip.is_ipv4() == ask.dst.is_ipv4());
            if local { Some(ask.dst) } else { same.copied() }
        });
        if ask.dst.to_string().starts_with("192.0.2.") {
            return Err(errno::EHOSTUNREACH);
        }
        let src = src.ok_or(errno::ENETUNREACH)?;
        Ok(Resolved { src, ifindex: if local { 1 } else { 2 }, local, gateway: false, hop_limit: 64, dgid: None })
    }
}

impl Lab {
    pub fn new() -> Lab {
        Lab::between(&["10.0.0.1", "fd00::1", "fe80::1"], &["10.0.0.2", "fd00::2", "fe80::2"])
    }

    pub fn between(a: &[&str], b: &[&str]) -> Lab {
        let (a, b) = (Host::new(1, a), Host::new(2, b));
        Lab {
            now: Instant(1_000_000_000),
            hosts: [a, b],
            wire: VecDeque::new(),
            cable: true,
            answers: true,
            sent: Vec::new(),
            fabric: false,
            mlid: 0,
            last_qpn: 0x10,
        }
    }

    /// Creates the same hosts, whose devices have their addresses on the second port.
    pub fn on_second_ports() -> Lab {
        let mut lab = Lab::new();
        for host in 0..2 {
            let addresses = &["10.0.0.1", "10.0.0.2"][host..=host];
            lab.hosts[host].service.remove_device(lab.now, 1);
            let second = Device { port: 2, ..device(host as u64 + 1, 1, false, addresses) };
            lab.hosts[host].service.set_device(lab.now, Device { gids: Vec::new(), port: 1, ..second.clone() });
            lab.hosts[host].service.set_device(lab.now, second);
        }
        lab
    }

    /// Creates the same hosts with adapters on an InfiniBand fabric; the LIDs are 11 and 12.
    pub fn on_fabric() -> Lab {
        let mut lab = Lab { fabric: true, mlid: 0xc001, ..Lab::between(&["10.0.0.1"], &["10.0.0.2"]) };
        for host in 0..2 {
            let mut device = device(host as u64 + 1, 1, false, &["10.0.0.1", "10.0.0.2"][host..=host]);
            device.kind = PortKind::InfiniBand;
            device.active_mtu = 5;
            device.pkeys = vec![0x7fff, PARTITION];
            device.gids[0].gid = port_gid(host);
            lab.hosts[host].service.set_device(lab.now, device);
        }
        lab
    }

    /// Answers like subnet administration: a path in the partition that both ports are full members of.
    fn path(&self, host: usize, wanted: &PathRecord) -> PathResult {
        match wanted.sgid == port_gid(host) && (0..2).any(|host| wanted.dgid == port_gid(host)) {
            true => {
                let lid = |gid| 11 + u16::from(gid == port_gid(1));
                let (slid, dlid) = (lid(wanted.sgid), lid(wanted.dgid));
                Ok(PathRecord { slid, dlid, sl: 3, mtu: 5, rate: 7, pkey: PARTITION, packet_life_time: 18, ..*wanted })
            }
            false => Err(errno::EINVAL),
        }
    }

    pub fn program(&mut self, host: usize) -> Program {
        self.program_of(host, 0)
    }

    pub fn program_of(&mut self, host: usize, uid: u32) -> Program {
        let side = &mut self.hosts[host];
        let client = ClientId(side.next_client);
        side.next_client += 1;
        let root = uid == 0;
        let credentials = Credentials { pid: 7, uid, comm: "test".to_owned(), privileged_ports: root, admin: root };
        side.service.open_client(client, credentials);
        let channel = side.service.open_channel(client).unwrap();
        Program { host, client, channel }
    }

    pub fn command(&mut self, program: Program, command: Command) -> Result<Reply, Errno> {
        self.hosts[program.host].service.handle_command(self.now, program.client, command)
    }

    pub fn order(&mut self, program: Program, command: Command) {
        let text = format!("{command:?}");
        let reply = self.command(program, command);
        assert!(matches!(reply, Ok(Reply::Done | Reply::Route(_))), "{text}: {reply:?}");
    }

    pub fn id_of(&mut self, program: Program, port_space: PortSpace, qp_type: u8) -> IdNumber {
        let cookie = self.hosts[program.host].next_cookie;
        self.hosts[program.host].next_cookie += 1;
        let channel = program.channel.0;
        match self.command(program, Command::CreateId { channel, port_space, qp_type, cookie }) {
            Ok(Reply::Id(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    pub fn tcp(&mut self, program: Program) -> IdNumber {
        self.id_of(program, PortSpace::Tcp, 2)
    }

    pub fn udp(&mut self, program: Program) -> IdNumber {
        self.id_of(program, PortSpace::Udp, 4)
    }

    /// Handles everything until nothing is due.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            if !self.step() {
                return;
            }
        }
        panic!("it never settles");
    }

    fn step(&mut self) -> bool {
        let mut busy = false;
        for host in 0..2 {
            while let Some(request) = self.hosts[host].service.poll_resolve() {
                match request {
                    _ if !self.answers => {}
                    ResolveRequest::Ask(ask) => {
                        let mut answer = self.hosts[host].route(&ask);
                        if let (Ok(resolved), true) = (&mut answer, self.fabric) {
                            let far = self.hosts.iter().position(|host| host.addresses.contains(&ask.dst));
                            resolved.dgid = far.map(port_gid);
                        }
                        self.hosts[host].service.handle_resolved(self.now, ask.question, answer);
                        busy = true;
                    }
                    ResolveRequest::AskPath(ask) => {
                        let answer = self.path(host, &ask.wanted);
                        self.hosts[host].service.handle_path(self.now, ask.question, answer);
                        busy = true;
                    }
                    ResolveRequest::Forget(_) => {}
                }
            }
            while let Some(request) = self.hosts[host].service.poll_multicast() {
                self.hosts[host].groups.push(request);
                if request.join {
                    self.hosts[host].service.handle_multicast(self.now, request.group, Ok(self.mlid));
                    busy = true;
                }
            }
            while let Some((to, mad)) = self.hosts[host].service.poll_transmit() {
                busy = true;
                self.carry(host, &to, mad);
            }
            while let Some(event) = self.hosts[host].service.poll_event() {
                self.hosts[host].events.push(event);
            }
        }
        while let Some((host, from, mad)) = self.wire.pop_front() {
            self.hosts[host].service.handle_gmp(self.now, &from, &mad);
            busy = true;
        }
        busy
    }

    /// Delivers a packet to the host that has the destination address.
    fn carry(&mut self, host: usize, to: &GmpAddress, mad: MadBytes) {
        self.sent.push(mad);
        if self.fabric {
            let Some(far) = (0..2).find(|far| port_gid(*far) == to.dgid.0 && 11 + *far as u16 == to.dlid) else {
                return;
            };
            let dlid = 11 + host as u16;
            let from = GmpAddress { sgid: to.dgid, dgid: to.sgid, dlid, hop_limit: 0, ..*to };
            return self.wire.push_back((far, from, mad));
        }
        let ip = ip_of_gid(to.dgid.0);
        let local = ip.is_loopback() || self.hosts[host].addresses.contains(&ip);
        let receiver = if local { host } else { 1 - host };
        let known = ip.is_loopback() || self.hosts[receiver].addresses.contains(&ip);
        if !known || (!local && !self.cable) {
            return;
        }
        let row = self.hosts[receiver].addresses.iter().position(|own| *own == ip);
        let from = GmpAddress {
            device: u32::from(!ip.is_loopback()),
            sgid_index: row.unwrap_or(0) as u8,
            sgid: to.dgid,
            dgid: to.sgid,
            ifindex: if ip.is_loopback() { 1 } else { 2 },
            ..*to
        };
        self.wire.push_back((receiver, from, mad));
    }

    /// Advances the time and handles everything that becomes due.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            let next = self.hosts.iter().filter_map(|host| host.service.poll_timeout()).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            for host in &mut self.hosts {
                host.service.handle_timeout(self.now);
            }
        }
        self.now = end;
    }

    /// Takes the events of a program so far.
    pub fn events(&mut self, program: Program) -> Vec<CmEvent> {
        self.settle();
        let of_program = |(channel, _): &(ChannelId, CmEvent)| *channel == program.channel;
        let all = std::mem::take(&mut self.hosts[program.host].events);
        let (mine, others) = all.into_iter().partition(of_program);
        self.hosts[program.host].events = others;
        Vec::from_iter::<Vec<(ChannelId, CmEvent)>>(mine).into_iter().map(|(_, event)| event).collect()
    }

    /// Takes the only event of a program.
    pub fn event(&mut self, program: Program, kind: EventKind) -> CmEvent {
        let mut events = self.events(program);
        assert_eq!(events.iter().map(|event| event.kind).collect::<Vec<_>>(), [kind], "{events:?}");
        events.remove(0)
    }
}

impl Lab {
    /// Creates an id that listens.
    pub fn listener(&mut self, program: Program, addr: SockAddr, backlog: i32) -> IdNumber {
        let id = self.tcp(program);
        self.order(program, Command::Bind { id, addr });
        self.order(program, Command::Listen { id, backlog });
        id
    }

    /// Brings an id to the state in which it may connect.
    pub fn route(&mut self, program: Program, id: IdNumber, dst: SockAddr) {
        self.order(program, Command::ResolveAddr { id, src: None, dst, timeout_ms: 2000 });
        self.event(program, EventKind::AddrResolved);
        self.order(program, Command::ResolveRoute { id, timeout_ms: 2000 });
        self.event(program, EventKind::RouteResolved);
    }

    /// Creates an id and requests a connection with it.
    pub fn asking(&mut self, program: Program, dst: SockAddr, private_data: &[u8]) -> IdNumber {
        let id = self.tcp(program);
        self.route(program, id, dst);
        self.last_qpn += 1;
        let param = param(self.last_qpn, private_data);
        self.order(program, Command::Connect { id, param, ece: Ece::default() });
        id
    }

    pub fn accept(&mut self, program: Program, id: IdNumber, private_data: &[u8]) {
        self.last_qpn += 1;
        let param = Some(param(self.last_qpn, private_data));
        self.order(program, Command::Accept { id, cookie: COOKIE_ACCEPTED, param, ece: Ece::default() });
    }

    /// Confirms an answer.
    pub fn confirm(&mut self, program: Program, id: IdNumber) {
        self.order(program, Command::Accept { id, cookie: 0, param: None, ece: Ece::default() });
    }

    /// Connects two programs; returns the active and the passive id.
    pub fn connection(&mut self, client: Program, server: Program, dst: SockAddr) -> (IdNumber, IdNumber) {
        let asking = self.asking(client, dst, &[]);
        let answering = self.event(server, EventKind::ConnectRequest).id;
        self.accept(server, answering, &[]);
        self.event(client, EventKind::ConnectResponse);
        self.confirm(client, asking);
        self.event(server, EventKind::Established);
        (asking, answering)
    }

    pub fn destroy(&mut self, program: Program, id: IdNumber) -> u32 {
        match self.command(program, Command::DestroyId { id }) {
            Ok(Reply::EventsReported(count)) => count,
            other => panic!("{other:?}"),
        }
    }

    pub fn kinds(&mut self, program: Program) -> Vec<EventKind> {
        self.events(program).into_iter().map(|event| event.kind).collect()
    }

    /// Gives a host's device other addresses.
    pub fn change_addresses(&mut self, host: usize, addresses: &[&str]) {
        self.hosts[host].addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        self.hosts[host].service.set_device(self.now, device(host as u64 + 1, 1, false, addresses));
    }

    /// Gives a host's port another MTU.
    pub fn change_mtu(&mut self, host: usize, active_mtu: u8) {
        let addresses: Vec<String> = self.hosts[host].addresses.iter().map(ToString::to_string).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let device = Device { active_mtu, ..device(host as u64 + 1, 1, false, &addresses) };
        self.hosts[host].service.set_device(self.now, device);
    }

    /// Returns the number of ids on a host.
    pub fn ids(&self, host: usize) -> usize {
        self.hosts[host].service.ids.len()
    }

    /// Returns whether a host has forgotten everything about programs, once Timewait of old connections is over.
    pub fn is_clean(&mut self, host: usize) -> bool {
        self.pass(Duration::from_secs(600));
        let service = &self.hosts[host].service;
        service.ids.len() == 0
            && service.owners.is_empty()
            && service.questions.is_empty()
            && service.deadlines.is_empty()
            && service.ports.is_empty()
            && service.poll_timeout().is_none()
    }
}

/// The cookie of ids that a test accepted.
pub const COOKIE_ACCEPTED: u64 = 77;

/// Parses an IP address and adds a port.
pub fn at(ip: &str, port: u16) -> SockAddr {
    SockAddr::new(ip.parse().unwrap(), port)
}

/// Returns typical parameters.
pub fn param(qp_num: u32, private_data: &[u8]) -> ConnParam {
    ConnParam {
        qp_num,
        private_data: private_data.to_vec(),
        responder_resources: 4,
        initiator_depth: 3,
        retry_count: 7,
        rnr_retry_count: 7,
        ..ConnParam::default()
    }
}
