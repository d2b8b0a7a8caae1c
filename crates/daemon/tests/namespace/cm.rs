//! Programs that connect through the daemon: delivery of commands and events, and the state after a program, a daemon
//! or a neighbour dies.

use std::os::fd::AsFd;

use weft_cm::rdma_cm::{
    CmEvent, Command as Cm, ConnParam, Ece, EventKind, IdNumber, PortSpace, Reply, SockAddr, errno,
};
use weft_ipc::{CmClient, CmStatus, EventChannel};
use weft_sys::epoll::wait_readable;

use super::*;

const SOON: Duration = Duration::from_secs(20);

/// A program with one channel.
pub struct Program {
    client: CmClient,
    pub channel: EventChannel,
}

impl Program {
    pub fn new() -> Program {
        Program::with(&ConnectOptions::default())
    }

    pub fn with(options: &ConnectOptions) -> Program {
        let client = CmClient::new(options.clone());
        let channel = client.open_channel().unwrap();
        Program { client, channel }
    }

    pub fn ask(&self, command: Cm) -> Result<Reply, i32> {
        self.channel.call(command).map_err(|error| error.errno())
    }

    pub fn create(&self, port_space: PortSpace) -> IdNumber {
        let channel = self.channel.number();
        match self.ask(Cm::CreateId { channel, port_space, qp_type: 2, cookie: 7 }) {
            Ok(Reply::Id(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    fn listen(&self, addr: &str, port: u16) -> IdNumber {
        let id = self.create(PortSpace::Tcp);
        self.ask(Cm::Bind { id, addr: SockAddr::new(addr.parse().unwrap(), port) }).unwrap();
        self.ask(Cm::Listen { id, backlog: 10 }).unwrap();
        id
    }

    fn resolve(&self, addr: &str, port: u16, timeout_ms: u32) -> (IdNumber, Result<(), i32>) {
        let id = self.create(PortSpace::Tcp);
        let dst = SockAddr::new(addr.parse().unwrap(), port);
        (id, self.ask(Cm::ResolveAddr { id, src: None, dst, timeout_ms }).map(drop))
    }

    /// Resolves an address and sends a connection request.
    fn connect(&self, addr: &str, port: u16) -> IdNumber {
        let (id, started) = self.resolve(addr, port, 2000);
        started.unwrap();
        self.expect(EventKind::AddrResolved);
        self.ask(Cm::ResolveRoute { id, timeout_ms: 2000 }).unwrap();
        self.expect(EventKind::RouteResolved);
        let param =
            ConnParam { qp_num: 0x4000 + (id & 0xffff), private_data: b"hello".to_vec(), ..ConnParam::default() };
        self.ask(Cm::Connect { id, param, ece: Ece::default() }).unwrap();
        id
    }

    fn accept(&self, id: IdNumber) -> Result<Reply, i32> {
        let param = Some(ConnParam { qp_num: 0x8_0000 + (id & 0xffff), ..ConnParam::default() });
        self.ask(Cm::Accept { id, cookie: 9, param, ece: Ece::default() })
    }

    pub fn expect(&self, kind: EventKind) -> CmEvent {
        assert!(wait_readable(self.channel.fd(), SOON).unwrap(), "{kind:?} never came");
        let event = self.channel.recv().unwrap();
        assert_eq!(event.kind, kind, "{event:?}");
        event
    }

    fn is_readable(&self) -> bool {
        wait_readable(self.channel.fd(), Duration::ZERO).unwrap()
    }
}

fn status() -> CmStatus {
    connect().status().unwrap().cm
}

fn wait_for_ids(listeners: u32, connections: u32, others: u32) {
    wait_until("the ids are as they should be", || {
        let cm = status();
        (cm.listeners, cm.connections, cm.idle_ids) == (listeners, connections, others)
    });
}

pub fn programs_connect() {
    for addr in ["127.0.0.1", "::1"] {
        let (server, client) = (Program::new(), Program::new());
        let listener = server.listen(addr, 7000);
        let active = client.connect(addr, 7000);
        let request = server.expect(EventKind::ConnectRequest);
        assert_eq!(request.listener, Some(listener));
        server.accept(request.id).unwrap();
        let response = client.expect(EventKind::ConnectResponse);
        assert_eq!(response.id, active);
        client.ask(Cm::Accept { id: active, cookie: 0, param: None, ece: Ece::default() }).unwrap();
        server.expect(EventKind::Established);
        wait_for_ids(1, 2, 0);
        client.ask(Cm::Disconnect { id: active }).unwrap();
        server.expect(EventKind::Disconnected);
        server.ask(Cm::Disconnect { id: request.id }).unwrap();
        client.expect(EventKind::Disconnected);
        // No process touches another's ids.
        assert_eq!(client.ask(Cm::DestroyId { id: listener }), Err(errno::ENOENT));
        let gsi = status().gsi.unwrap();
        assert!(gsi.received >= 5 && gsi.sent >= 5, "{gsi:?}");
        assert_eq!((gsi.malformed, gsi.icrc_errors, gsi.not_gmp, gsi.foreign, gsi.unsendable), (0, 0, 0, 0, 0));
        drop((server, client));
        wait_for_ids(0, 0, 0);
    }
}

/// A client that loses all datagrams for it, between a server and a client that lose none.
pub fn faults_strike_their_program(faulty: &ConnectOptions) {
    let (server, deaf, client) = (Program::new(), Program::with(faulty), Program::new());
    server.listen("127.0.0.1", 7000);
    deaf.connect("127.0.0.1", 7000);
    let request = server.expect(EventKind::ConnectRequest);
    server.accept(request.id).unwrap();
    let active = client.connect("127.0.0.1", 7000);
    let request = server.expect(EventKind::ConnectRequest);
    server.accept(request.id).unwrap();
    assert_eq!(client.expect(EventKind::ConnectResponse).id, active);
    assert!(!deaf.is_readable(), "the answer reached a program that loses everything");
}

pub fn a_channel_is_readable_while_an_event_waits() {
    let (server, client) = (Program::new(), Program::new());
    let listener = server.listen("127.0.0.1", 7000);
    assert!(!server.is_readable());
    // Far more than a socket holds: none is lost, and they arrive in order.
    let ids: Vec<IdNumber> = (0..200).map(|_| client.resolve("127.0.0.1", 7000, 1000).0).collect();
    for id in &ids {
        assert_eq!(client.expect(EventKind::AddrResolved).id, *id);
    }
    assert!(!client.is_readable());
    // Unread events go with their id, and those of other ids stay.
    let route = |id: &IdNumber| client.ask(Cm::ResolveRoute { id: *id, timeout_ms: 1000 }).unwrap();
    ids.iter().take(20).for_each(|id| drop(route(id)));
    wait_until("they come", || client.is_readable());
    for id in ids.iter().take(19) {
        assert_eq!(client.ask(Cm::DestroyId { id: *id }), Ok(Reply::EventsReported(1)));
    }
    assert_eq!(client.expect(EventKind::RouteResolved).id, ids[19]);
    assert!(!client.is_readable());
    // They also move with it.
    let other = client.client.open_channel().unwrap();
    route(&ids[20]);
    wait_until("it comes", || client.is_readable());
    client.ask(Cm::MigrateId { id: ids[20], channel: other.number() }).unwrap();
    assert!(!client.is_readable());
    wait_until("it comes to the other", || wait_readable(other.fd(), Duration::ZERO).unwrap());
    assert_eq!(other.recv().unwrap().id, ids[20]);
    // Destroying a listener rejects a request that it never read.
    let param = ConnParam { qp_num: 0x4000, ..ConnParam::default() };
    client.ask(Cm::Connect { id: ids[19], param, ece: Ece::default() }).unwrap();
    wait_until("it is asked", || server.is_readable());
    server.ask(Cm::DestroyId { id: listener }).unwrap();
    client.expect(EventKind::Rejected);
    wait_for_ids(0, 1, 180);
}

/// A program that performs a stage and is then killed: `namespace cm-victim STAGE`.
pub fn victim(stage: &str) {
    let program = Program::new();
    match stage {
        "connect" => drop(program.connect("127.0.0.1", 7000)),
        "listen" => drop(program.listen("127.0.0.1", 7001)),
        "resolve" => drop(program.resolve("127.0.0.1", 7000, 1000)),
        "established" => {
            let id = program.connect("127.0.0.1", 7000);
            program.expect(EventKind::ConnectResponse);
            program.ask(Cm::Accept { id, cookie: 0, param: None, ece: Ece::default() }).unwrap();
        }
        "asked" | "told" | "accepting" => {
            program.listen("127.0.0.1", 7002);
            wait_until("a request comes", || program.is_readable());
            if stage != "asked" {
                let id = program.expect(EventKind::ConnectRequest).id;
                if stage == "accepting" {
                    program.accept(id).unwrap();
                }
            }
        }
        stage => panic!("{stage}"),
    }
    println!("ready");
    std::thread::sleep(Duration::from_secs(60));
}

fn kill_victim(stage: &str, mut before: impl FnMut(), after: impl FnOnce()) {
    use std::io::Read;
    let exe = std::env::current_exe().unwrap();
    let mut child = Command::new(exe).args(["cm-victim", stage]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    before();
    child.stdout.take().unwrap().read_exact(&mut [0; 5]).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    after();
}

pub fn a_dead_process_leaves_nothing_behind() {
    let server = Program::new();
    server.listen("127.0.0.1", 7000);
    let mut new = 0;
    for stage in ["resolve", "listen"] {
        kill_victim(stage, || (), || wait_for_ids(1, 0, 0));
    }
    // Its request is unread, and a reject withdraws it.
    kill_victim("connect", || new = server.expect(EventKind::ConnectRequest).id, || ());
    wait_until("it is noticed", || server.accept(new).is_err() || server.is_readable());
    server.ask(Cm::DestroyId { id: new }).unwrap();
    wait_for_ids(1, 0, 0);
    let established = || {
        new = server.expect(EventKind::ConnectRequest).id;
        server.accept(new).unwrap();
        server.expect(EventKind::Established);
    };
    kill_victim("established", established, || drop(server.expect(EventKind::Disconnected)));
    server.ask(Cm::DestroyId { id: new }).unwrap();
    wait_for_ids(1, 0, 0);
    // The other side: the request is unread, read, or accepted.
    for stage in ["asked", "told", "accepting"] {
        let client = Program::new();
        let asks = || {
            wait_until("it listens", || status().listeners == 2);
            client.connect("127.0.0.1", 7002);
            if stage == "accepting" {
                client.expect(EventKind::ConnectResponse);
            }
        };
        kill_victim(stage, asks, || ());
        wait_until("the peer is told", || client.is_readable());
        assert!(matches!(client.channel.recv().unwrap().kind, EventKind::Rejected | EventKind::Disconnected));
        drop(client);
        wait_for_ids(1, 0, 0);
    }
    assert_eq!(status().processes, 1);
}

pub fn a_dead_daemon_ends_the_channels() {
    let mut watcher = connect();
    let program = Program::new();
    let id = program.listen("127.0.0.1", 7000);
    kill_daemon(&mut watcher);
    assert!(wait_readable(program.channel.fd(), SOON).unwrap());
    assert!(matches!(program.channel.recv(), Err(RequestError::Disconnected)));
    assert_eq!(program.ask(Cm::DestroyId { id }), Err(19));
    // The next daemon knows nothing of it, and a new channel belongs to that daemon.
    let channel = program.client.open_channel().unwrap();
    let created =
        channel.call(Cm::CreateId { channel: channel.number(), port_space: PortSpace::Tcp, qp_type: 2, cookie: 1 });
    assert!(matches!(created, Ok(Reply::Id(_))));
    assert!(matches!(program.channel.recv(), Err(RequestError::Disconnected)));
}

pub fn neighbours_and_routes_are_resolved() {
    ip("link add name cm0 type veth peer name cm1");
    ip("addr add 10.77.5.1/24 dev cm0");
    ip("link set cm0 up");
    ip("link set cm1 up");
    let program = Program::new();
    wait_until("the device is there", || {
        let devices = connect().list_devices().unwrap();
        devices.iter().any(|device| device.netdev == "cm0" && !device.gids.is_empty())
    });
    // No host has this address: the kernel looks for it in vain.
    let start = Instant::now();
    assert_eq!(program.resolve("10.77.5.9", 1, 400).1, Ok(()));
    let event = program.expect(EventKind::AddrError);
    assert_eq!(event.status, -errno::ETIMEDOUT);
    assert!(start.elapsed() >= Duration::from_millis(390), "{:?}", start.elapsed());
    // There is no route to this one.
    assert_eq!(program.resolve("192.0.2.1", 1, 400).1, Err(errno::ENETUNREACH));
    ip("neigh replace 10.77.5.8 lladdr 02:00:00:00:00:08 dev cm0");
    ip("route add 192.0.2.0/24 via 10.77.5.8");
    for addr in ["10.77.5.8", "192.0.2.1", "10.77.5.1"] {
        let (id, started) = program.resolve(addr, 1, 400);
        started.unwrap();
        program.expect(EventKind::AddrResolved);
        match program.ask(Cm::Query { id }) {
            Ok(Reply::Route(route)) => assert_eq!(route.src.unwrap().ip().to_string(), "10.77.5.1"),
            other => panic!("{other:?}"),
        }
    }
    ip("link del cm0");
}

/// Returns the memory of a process in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

pub fn floods_at_queue_pair_1_are_counted() {
    let program = Program::new();
    program.listen("127.0.0.1", 7000);
    let mut watcher = connect();
    let pid = daemon_pid(&mut watcher);
    let before = resident(pid);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut packet = vec![0u8; 12 + 8 + 256 + 4];
    packet[..8].copy_from_slice(&[0x64, 0, 0xff, 0xff, 0, 0, 0, 1]);
    for round in 0..20_000u32 {
        packet[12..16].copy_from_slice(&round.to_be_bytes());
        let length = 20 + round as usize % 261;
        let _ = sender.send_to(&packet[..length], "127.0.0.1:4791");
    }
    wait_until("they are counted", || {
        let gsi = watcher.status().unwrap().cm.gsi.unwrap();
        gsi.icrc_errors + gsi.malformed + gsi.not_gmp > 1000
    });
    let client = Program::new();
    client.connect("127.0.0.1", 7000);
    program.expect(EventKind::ConnectRequest);
    assert_eq!(daemon_pid(&mut watcher), pid);
    assert!(resident(pid) < before + (16 << 10), "{} KiB, {before} before", resident(pid));
}

pub fn thousands_of_connections_live() {
    const CONNECTIONS: u32 = 4_000;
    let (server, client) = (Program::new(), Program::new());
    server.listen("127.0.0.1", 7000);
    let pid = daemon_pid(&mut connect());
    let before = resident(pid);
    for _ in 0..CONNECTIONS {
        let active = client.connect("127.0.0.1", 7000);
        let request = server.expect(EventKind::ConnectRequest);
        server.accept(request.id).unwrap();
        client.expect(EventKind::ConnectResponse);
        client.ask(Cm::Accept { id: active, cookie: 0, param: None, ece: Ece::default() }).unwrap();
        server.expect(EventKind::Established);
    }
    assert!(resident(pid) - before < u64::from(CONNECTIONS) * 16);
    wait_for_ids(1, 2 * CONNECTIONS, 0);
    // Destroy all of them at once.
    drop(client);
    for _ in 0..CONNECTIONS {
        server.expect(EventKind::Disconnected);
    }
    drop(server);
    wait_for_ids(0, 0, 0);
}

pub fn hostile_programs_of_the_connection_manager() {
    let good = Program::new();
    let listener = good.listen("127.0.0.1", 7000);
    let bad = Program::new();
    // Ids of another process, unused ids, and invalid numbers.
    for id in [listener, 0, u32::MAX] {
        assert_eq!(bad.ask(Cm::Listen { id, backlog: -5 }), Err(errno::ENOENT));
        assert!(bad.ask(Cm::MigrateId { id, channel: good.channel.number() }).is_err());
        let channel = good.channel.number();
        assert!(bad.ask(Cm::CreateId { channel, port_space: PortSpace::Tcp, qp_type: 2, cookie: 1 }).is_err());
    }
    let long = vec![7; 4096];
    let id = bad.create(PortSpace::Tcp);
    assert!(bad.ask(Cm::Reject { id, private_data: long.clone(), reason: 255 }).is_err());
    let param = ConnParam { private_data: long, ..ConnParam::default() };
    assert!(bad.ask(Cm::Connect { id, param, ece: Ece::default() }).is_err());
    // The program's end of a channel is for reading; writes to it reach no reader, and shutting it down harms that
    // program alone.
    let _ = weft_sys::unix::send(bad.channel.fd(), b"garbage", &[], weft_sys::unix::Wait::No);
    for _ in 0..100 {
        let _ = bad.resolve("127.0.0.1", 7000, 100);
    }
    let socket = std::os::unix::net::UnixStream::from(bad.channel.fd().as_fd().try_clone_to_owned().unwrap());
    socket.shutdown(std::net::Shutdown::Both).unwrap();
    for _ in 0..100 {
        let _ = bad.resolve("127.0.0.1", 7000, 100);
    }
    let client = Program::new();
    client.connect("127.0.0.1", 7000);
    good.expect(EventKind::ConnectRequest);
    drop((bad, client));
    wait_until("all is cleared away", || status().processes == 1);
}
