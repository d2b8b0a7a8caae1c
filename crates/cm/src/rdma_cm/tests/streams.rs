//! Two hosts with RNICs: ids whose connections are TCP connections, which this file stands in for.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weft_verbs::{Duration, Instant};

use crate::iw::{ConnId, SocketRequest};
use crate::rdma_cm::*;

const SERVER_PORT: u16 = 7174;
const QPNS: [u32; 2] = [0x4001, 0x8001];

/// One end of a TCP connection: the host, and its connection there.
type End = (usize, ConnId);

struct Lab {
    now: Instant,
    hosts: [Service; 2],
    channels: [ChannelId; 2],
    events: [Vec<CmEvent>; 2],
    /// The other end of each end.
    pairs: BTreeMap<End, End>,
    /// Queue pairs with a stream.
    handed: Vec<(usize, u32)>,
    /// Errno of the next attempt to connect.
    refusal: Option<Errno>,
    /// Bytes that arrive together.
    cut: usize,
}

fn address(host: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host as u8 + 1], SERVER_PORT))
}

fn rnic(host: usize) -> Device {
    let ip = address(host).ip();
    Device {
        index: 1,
        port: 1,
        name: "siw0".into(),
        node_guid: 7,
        ifindex: 2,
        loopback: false,
        active: true,
        active_mtu: 3,
        rate: 0,
        kind: PortKind::Iwarp,
        pkeys: vec![0xffff],
        gids: vec![DeviceGid { index: 0, gid: [9; 16], ip, mode: RoceMode::V2, ifindex: 2 }],
    }
}

impl Lab {
    fn new() -> Lab {
        let now = Instant(1_000_000_000);
        let mut channels = [ChannelId(0); 2];
        let hosts = [0, 1].map(|host| {
            let mut service = Service::new(host as u64 + 1);
            service.set_device(now, rnic(host));
            service.set_local_addresses(vec![LocalAddress { ifindex: 2, ip: address(host).ip() }]);
            let credentials = Credentials { pid: 1, uid: 0, comm: "test".into(), privileged_ports: true, admin: true };
            service.open_client(ClientId(1), credentials);
            channels[host] = service.open_channel(ClientId(1)).unwrap();
            service
        });
        let events = [Vec::new(), Vec::new()];
        Lab { now, hosts, channels, events, pairs: BTreeMap::new(), handed: Vec::new(), refusal: None, cut: 7 }
    }

    fn command(&mut self, host: usize, command: Command) -> Result<Reply, Errno> {
        let result = self.hosts[host].handle_command(self.now, ClientId(1), command);
        self.run();
        result
    }

    fn create(&mut self, host: usize, cookie: u64) -> IdNumber {
        let channel = self.channels[host].0;
        let command = Command::CreateId { channel, port_space: PortSpace::Tcp, qp_type: 2, cookie };
        let Ok(Reply::Id(id)) = self.command(host, command) else { panic!() };
        id
    }

    /// An id of host 1 that listens.
    fn listen(&mut self) -> IdNumber {
        let id = self.create(1, 100);
        let addr = SockAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), SERVER_PORT);
        self.command(1, Command::Bind { id, addr }).unwrap();
        self.command(1, Command::Listen { id, backlog: 2 }).unwrap();
        id
    }

    /// An id of host 0 with a route to the server.
    fn resolve(&mut self) -> IdNumber {
        let id = self.create(0, 200);
        let dst = SockAddr::new(address(1).ip(), SERVER_PORT);
        self.command(0, Command::ResolveAddr { id, src: None, dst, timeout_ms: 1000 }).unwrap();
        let Some(ResolveRequest::Ask(asked)) = self.hosts[0].poll_resolve() else { panic!() };
        let src = address(0).ip();
        let resolved = Resolved { src, ifindex: 2, local: false, gateway: false, hop_limit: 0, dgid: None };
        self.hosts[0].handle_resolved(self.now, asked.question, Ok(resolved));
        self.command(0, Command::ResolveRoute { id, timeout_ms: 1000 }).unwrap();
        assert_eq!(self.kinds(0), [EventKind::AddrResolved, EventKind::RouteResolved]);
        id
    }

    fn connect(&mut self, id: IdNumber) {
        let param = param(0, 3, 5, b"hello");
        self.command(0, Command::Connect { id, param, ece: Ece::default() }).unwrap();
    }

    fn accept(&mut self, id: IdNumber) {
        let param = Some(param(1, 4, 2, b"welcome"));
        self.command(1, Command::Accept { id, cookie: 300, param, ece: Ece::default() }).unwrap();
    }

    /// Does what the services want of TCP, until that is nothing.
    fn run(&mut self) {
        loop {
            let request = (0..2).find_map(|host| Some((host, self.hosts[host].poll_socket()?)));
            let Some((host, request)) = request else { break };
            self.perform(host, request);
        }
        for host in 0..2 {
            while let Some((_, event)) = self.hosts[host].poll_event() {
                self.events[host].push(event);
            }
        }
    }

    fn perform(&mut self, host: usize, request: SocketRequest) {
        let now = self.now;
        match request {
            SocketRequest::Connect { conn, local, peer } => {
                let other = 1 - host;
                let refusal = self.refusal;
                let listens = self.hosts[other].stream_listeners().contains(&peer);
                let accepted = (listens && refusal.is_none())
                    .then(|| self.hosts[other].handle_stream_accepted(now, peer, local))
                    .flatten();
                let Some(there) = accepted else {
                    let errno = refusal.unwrap_or(errno::ECONNREFUSED);
                    return self.hosts[host].handle_stream_closed(now, conn, Some(errno));
                };
                self.pairs.insert((host, conn), (other, there));
                self.pairs.insert((other, there), (host, conn));
                self.hosts[host].handle_stream_connected(now, conn, local);
            }
            SocketRequest::Send { conn, bytes } => {
                let Some((other, there)) = self.pairs.get(&(host, conn)).copied() else { return };
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let wanted = self.hosts[other].wants_from_stream(there);
                    let (now_read, later) = rest.split_at(wanted.min(self.cut).min(rest.len()));
                    assert!(!now_read.is_empty(), "unread bytes of a frame");
                    self.hosts[other].handle_stream_bytes(now, there, now_read);
                    rest = later;
                }
            }
            SocketRequest::HandOver { conn, qp_num, .. } => {
                assert!(self.pairs.contains_key(&(host, conn)));
                self.handed.push((host, qp_num));
            }
            SocketRequest::Close { conn } => {
                if let Some((other, there)) = self.pairs.remove(&(host, conn)) {
                    self.hosts[other].handle_stream_closed(now, there, None);
                }
            }
            SocketRequest::CloseStream { qp_num } => self.end_stream(host, qp_num),
        }
    }

    /// The process closes a stream: both ends end.
    fn end_stream(&mut self, host: usize, qp_num: u32) {
        if !self.handed.contains(&(host, qp_num)) {
            return;
        }
        for (host, qp_num) in std::mem::take(&mut self.handed) {
            self.hosts[host].handle_stream_ended(self.now, qp_num);
        }
    }

    /// Lets time pass until the client's next deadline.
    fn wait(&mut self) {
        self.now = self.hosts[0].poll_timeout().unwrap();
        self.hosts[0].handle_timeout(self.now);
        self.run();
    }

    fn kinds(&mut self, host: usize) -> Vec<EventKind> {
        self.run();
        self.events[host].drain(..).map(|event| event.kind).collect()
    }

    fn one(&mut self, host: usize) -> CmEvent {
        self.run();
        assert_eq!(self.events[host].len(), 1, "{:?}", self.events[host]);
        self.events[host].remove(0)
    }

    /// A connected pair of ids.
    fn connected(&mut self) -> (IdNumber, IdNumber) {
        self.listen();
        let client = self.resolve();
        self.connect(client);
        let server = self.one(1).id;
        self.accept(server);
        assert_eq!(self.kinds(0), [EventKind::Established]);
        assert_eq!(self.kinds(1), [EventKind::Established]);
        (client, server)
    }
}

fn param(host: usize, responder_resources: u8, initiator_depth: u8, data: &[u8]) -> ConnParam {
    ConnParam {
        qp_num: QPNS[host],
        responder_resources,
        initiator_depth,
        private_data: data.to_vec(),
        ..ConnParam::default()
    }
}

fn conn(event: &CmEvent) -> &ConnParam {
    let EventParam::Conn(param) = &event.param else { panic!("{event:?}") };
    param
}

#[test]
fn a_connection_is_established_with_depths_and_private_data() {
    for cut in [1, 7, 1000] {
        let mut lab = Lab { cut, ..Lab::new() };
        let listener = lab.listen();
        let client = lab.resolve();
        lab.connect(client);
        let request = lab.one(1);
        assert_eq!((request.kind, request.listener), (EventKind::ConnectRequest, Some(listener)));
        // Of the server: as many READs outstanding as the client answers, as many answers as it has outstanding.
        let asked = conn(&request);
        assert_eq!((asked.initiator_depth, asked.responder_resources), (3, 5));
        assert_eq!(asked.private_data, b"hello");
        lab.accept(request.id);
        let established = lab.one(0);
        assert_eq!((established.kind, established.status), (EventKind::Established, 0));
        assert_eq!(conn(&established).private_data, b"welcome");
        let at_server = lab.one(1);
        assert_eq!((at_server.kind, at_server.cookie), (EventKind::Established, 300));
        assert_eq!(lab.handed.len(), 2);
    }
}

#[test]
fn either_side_disconnects_and_both_hear_of_it() {
    for by in 0..2 {
        let mut lab = Lab::new();
        let (client, server) = lab.connected();
        let id = [client, server][by];
        lab.command(by, Command::Disconnect { id }).unwrap();
        assert_eq!(lab.kinds(0), [EventKind::Disconnected]);
        assert_eq!(lab.kinds(1), [EventKind::Disconnected]);
        lab.command(by, Command::Disconnect { id }).unwrap();
        assert!(lab.kinds(0).is_empty() && lab.kinds(1).is_empty());
    }
}

#[test]
fn an_id_that_goes_takes_its_stream_along() {
    let mut lab = Lab::new();
    let (client, _) = lab.connected();
    lab.command(0, Command::DestroyId { id: client }).unwrap();
    assert_eq!(lab.kinds(1), [EventKind::Disconnected]);
    assert!(lab.kinds(0).is_empty() && lab.handed.is_empty());
}

#[test]
fn a_reject_carries_private_data() {
    let mut lab = Lab::new();
    lab.listen();
    let client = lab.resolve();
    lab.connect(client);
    let id = lab.one(1).id;
    lab.command(1, Command::Reject { id, private_data: b"no".to_vec(), reason: 0 }).unwrap();
    let rejected = lab.one(0);
    assert_eq!((rejected.kind, rejected.status), (EventKind::Rejected, -errno::ECONNRESET));
    assert_eq!(conn(&rejected).private_data, b"no");
    lab.command(1, Command::DestroyId { id }).unwrap();
    assert!(lab.kinds(1).is_empty());
}

#[test]
fn failures_of_tcp_are_those_events_that_linux_makes_of_them() {
    let failures = [
        (errno::ECONNRESET, EventKind::Rejected),
        (errno::ETIMEDOUT, EventKind::Unreachable),
        (errno::EHOSTUNREACH, EventKind::ConnectError),
    ];
    for (errno, kind) in failures {
        let mut lab = Lab { refusal: Some(errno), ..Lab::new() };
        lab.listen();
        let client = lab.resolve();
        lab.connect(client);
        let event = lab.one(0);
        assert_eq!((event.kind, event.status), (kind, -errno));
        assert!(lab.kinds(1).is_empty());
    }
}

#[test]
fn a_listener_may_be_some_milliseconds_late() {
    let mut lab = Lab::new();
    let client = lab.resolve();
    lab.connect(client);
    assert!(lab.kinds(0).is_empty());
    lab.wait();
    lab.listen();
    assert!(lab.kinds(1).is_empty(), "the pause is not over");
    lab.wait();
    let server = lab.one(1).id;
    lab.accept(server);
    assert_eq!(lab.kinds(0), [EventKind::Established]);
    assert_eq!(lab.kinds(1), [EventKind::Established]);
}

#[test]
fn a_server_that_does_not_listen_refuses_after_the_grace_period() {
    let mut lab = Lab::new();
    let client = lab.resolve();
    let start = lab.now;
    lab.connect(client);
    for _ in 0..6 {
        assert!(lab.kinds(0).is_empty());
        lab.wait();
    }
    let event = lab.one(0);
    assert_eq!((event.kind, event.status), (EventKind::Rejected, -errno::ECONNREFUSED));
    assert_eq!(lab.now, start + Duration::from_millis(1 + 2 + 4 + 8 + 16 + 32));
    assert_eq!(lab.hosts[0].poll_timeout(), None);
}

#[test]
fn an_id_that_goes_is_not_connected_again() {
    let mut lab = Lab::new();
    let client = lab.resolve();
    lab.connect(client);
    lab.command(0, Command::DestroyId { id: client }).unwrap();
    assert_eq!(lab.hosts[0].poll_timeout(), None);
    lab.listen();
    assert!(lab.kinds(1).is_empty());
}

#[test]
fn a_silent_server_is_unreachable_after_ten_seconds() {
    let mut lab = Lab::new();
    lab.listen();
    let client = lab.resolve();
    lab.connect(client);
    assert_eq!(lab.kinds(1), [EventKind::ConnectRequest]);
    lab.now = lab.now + Duration::from_secs(10);
    assert_eq!(lab.hosts[0].poll_timeout(), Some(lab.now));
    let now = lab.now;
    lab.hosts[0].handle_timeout(now);
    assert_eq!(lab.kinds(0), [EventKind::Unreachable]);
    // The server's id is told that the peer left.
    assert_eq!(lab.kinds(1), []);
}

#[test]
fn a_backlog_is_full_at_its_limit() {
    let mut lab = Lab::new();
    lab.listen();
    // The events stay unread, so the third request finds no room.
    let clients: Vec<IdNumber> = (0..3).map(|_| lab.resolve()).collect();
    for client in clients {
        let param = param(0, 1, 1, b"");
        lab.hosts[0]
            .handle_command(lab.now, ClientId(1), Command::Connect { id: client, param, ece: Ece::default() })
            .unwrap();
    }
    lab.hosts[1].set_channel_ready(lab.channels[1], false);
    lab.run();
    assert_eq!(lab.kinds(0), [EventKind::Rejected]);
    lab.hosts[1].set_channel_ready(lab.channels[1], true);
    assert_eq!(lab.kinds(1), [EventKind::ConnectRequest; 2]);
}

#[test]
fn a_peer_that_sends_no_request_is_forgotten() {
    let mut lab = Lab::new();
    lab.listen();
    let peer = SocketAddr::from(([10, 0, 0, 9], 9));
    let conn = lab.hosts[1].handle_stream_accepted(lab.now, address(1), peer).unwrap();
    assert_eq!(lab.hosts[1].wants_from_stream(conn), 20);
    lab.now = lab.hosts[1].poll_timeout().unwrap();
    lab.hosts[1].handle_timeout(lab.now);
    assert_eq!(lab.hosts[1].poll_socket(), Some(SocketRequest::Close { conn }));
    assert_eq!((lab.hosts[1].wants_from_stream(conn), lab.hosts[1].poll_timeout()), (0, None));
    assert!(lab.kinds(1).is_empty());
}

#[test]
fn only_listeners_listen_and_only_on_rnics() {
    let mut lab = Lab::new();
    assert!(lab.hosts[1].stream_listeners().is_empty());
    let id = lab.listen();
    assert_eq!(lab.hosts[1].stream_listeners().into_iter().collect::<Vec<_>>(), [address(1)]);
    let now = lab.now;
    lab.hosts[1].set_device(now, Device { kind: PortKind::Roce, ..rnic(1) });
    assert!(lab.hosts[1].stream_listeners().is_empty());
    lab.hosts[1].set_device(now, rnic(1));
    lab.hosts[1].unlisten(id);
    assert!(lab.hosts[1].stream_listeners().is_empty());
    lab.command(1, Command::Listen { id, backlog: 0 }).unwrap();
    assert!(!lab.hosts[1].stream_listeners().is_empty());
}

#[test]
fn an_old_peer_is_asked_again_with_revision_1() {
    let mut lab = Lab::new();
    let client = lab.resolve();
    let param = param(0, 1, 1, b"old");
    let command = Command::Connect { id: client, param, ece: Ece::default() };
    lab.hosts[0].handle_command(lab.now, ClientId(1), command).unwrap();
    for revision in [2, 1] {
        let Some(SocketRequest::Connect { conn, local, .. }) = lab.hosts[0].poll_socket() else { panic!() };
        lab.hosts[0].handle_stream_connected(lab.now, conn, local);
        let Some(SocketRequest::Send { bytes, .. }) = lab.hosts[0].poll_socket() else { panic!() };
        assert_eq!(bytes[17], revision);
        lab.hosts[0].handle_stream_closed(lab.now, conn, None);
        assert_eq!(lab.hosts[0].poll_socket(), Some(SocketRequest::Close { conn }));
    }
    assert_eq!(lab.kinds(0), [EventKind::Rejected]);
}

#[test]
fn a_device_that_goes_ends_its_connections() {
    let mut lab = Lab::new();
    let (_, _) = lab.connected();
    lab.hosts[0].remove_device(lab.now, 1);
    assert_eq!(lab.kinds(0), [EventKind::DeviceRemoval]);
    assert_eq!(lab.kinds(1), [EventKind::Disconnected]);
}

#[test]
fn queue_pairs_follow_without_a_path() {
    let mut lab = Lab::new();
    let (client, _) = lab.connected();
    let Ok(Reply::QpAttributes(init)) = lab.command(0, Command::InitQpAttr { id: client, qp_state: 1 }) else {
        panic!()
    };
    // STATE, ACCESS_FLAGS and PORT of verbs.h.
    assert_eq!(init.mask, 1 | 1 << 3 | 1 << 5);
    let Ok(Reply::QpAttributes(rts)) = lab.command(0, Command::InitQpAttr { id: client, qp_state: 3 }) else {
        panic!()
    };
    assert_eq!(rts.mask, 1 << 5);
    let Ok(Reply::Route(route)) = lab.command(0, Command::Query { id: client }) else { panic!() };
    assert!(route.paths.is_empty());
}

#[test]
fn a_late_report_of_an_old_stream_does_not_end_the_next() {
    let mut lab = Lab::new();
    let (client, server) = lab.connected();
    // The program destroys its id at once, and connects the queue pair again before the process has reported anything.
    let old = std::mem::take(&mut lab.handed);
    lab.command(0, Command::DestroyId { id: client }).unwrap();
    lab.command(1, Command::DestroyId { id: server }).unwrap();
    let client = lab.resolve();
    lab.connect(client);
    let server = lab.one(1).id;
    lab.accept(server);
    assert_eq!((lab.kinds(0), lab.kinds(1)), (vec![EventKind::Established], vec![EventKind::Established]));
    for (host, qp_num) in old {
        lab.hosts[host].handle_stream_ended(lab.now, qp_num);
    }
    assert!(lab.kinds(0).is_empty() && lab.kinds(1).is_empty());
    lab.command(0, Command::Disconnect { id: client }).unwrap();
    assert_eq!((lab.kinds(0), lab.kinds(1)), (vec![EventKind::Disconnected], vec![EventKind::Disconnected]));
}
