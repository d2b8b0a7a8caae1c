//! Feeds bytes to the daemon's request handler: random ones, valid messages, and valid messages with bytes changed,
//! from clients that come and go, while interfaces change, time passes and survivors of a predecessor return. A panic
//! is a finding; so is a slot that the host finds opened twice or sealed twice, and an answer that does not decode.
//!
//! ```sh
//! cargo run --profile dist -p weft-daemon --example fuzz_ipc -- --seconds 600 [--seed N]
//! ```

mod cm;
mod fabric;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use weft_daemon::broker::{Broker, BrokerConfig, Handled, Output};
use weft_daemon::host::{Adopted, FakeHost};
use weft_daemon::refusal::refuse;
use weft_daemon::rtnl;
use weft_daemon::saved::Saved;
use weft_daemon::slots::{ClientId, SavedSlot};
use weft_ipc::stat::{DeviceCounters, DeviceObjects, PathName, QpCursor, QpInfo};
use weft_ipc::{
    ClientFrame, DaemonFrame, Hello, HelloReply, MESSAGE_BYTES_MAX, McastGroup, Publication, Purpose, Request, Usage,
    decode, encode,
};
use weft_sys::unix::Credentials;

/// Makes a request about counters and objects of processes.
fn ledger_request(rng: &mut Rng) -> Request {
    match rng.below(4) {
        0 => Request::OpenLedger,
        1 => Request::RefreshLedgers,
        2 => Request::Stat { offset: rng.pick(&[0, 1, 24, u32::MAX]) },
        _ => Request::ListQps(QpCursor { client: rng.below(20), skip: rng.pick(&[0, 64, 300, u32::MAX]) }),
    }
}

/// Makes a request of a process that connects to others.
fn peer_request(rng: &mut Rng) -> Request {
    let generation = rng.below(4);
    match rng.below(3) {
        0 => Request::Publish(Publication { generation, shares: rng.one_in(2), brings: rng.one_in(3) }),
        _ => Request::MeetPeer { slot: rng.pick(&[1, 1, 2, 2, 3, 4, 5, 110, u32::MAX]) },
    }
}

/// xorshift64*: the same seed gives the same run.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound.max(1)
    }

    fn one_in(&mut self, odds: u64) -> bool {
        self.below(odds) == 0
    }

    fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        let index = self.below(list.len() as u64) as usize;
        list[index].clone()
    }

    fn bytes(&mut self, max: u64) -> Vec<u8> {
        (0..self.below(max + 1)).map(|_| self.next() as u8).collect()
    }

    fn name(&mut self) -> String {
        match self.below(6) {
            0 => String::from_utf8_lossy(&self.bytes(80)).into_owned(),
            1 => "x".repeat(self.below(100) as usize),
            _ => self.pick(&["lo", "eth0", "rxe_lo", "rxe_eth0", "a", "b", "rxe", "", "/", "\u{0}"]).to_owned(),
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |flag: &str| {
        let at = args.iter().position(|arg| arg == flag)?;
        args.get(at + 1)?.parse::<u64>().ok()
    };
    let seconds = number("--seconds").unwrap_or(10);
    let first_seed = number("--seed").unwrap_or(1);
    let (start, mut seed, mut messages) = (Instant::now(), first_seed, 0u64);
    loop {
        // Printed first: a panic ends the process, and this seed replays it.
        if seed.is_multiple_of(1000) || seed == first_seed {
            println!("seed {seed}, {messages} messages, {} s", start.elapsed().as_secs());
        }
        std::fs::write(std::env::temp_dir().join("weft-fuzz-ipc-seed"), seed.to_string()).ok();
        messages += run(seed);
        seed += 1;
        if start.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
    }
    println!("{} runs, {messages} messages, no finding", seed - first_seed);
}

struct World {
    rng: Rng,
    now: Instant,
    broker: Broker,
    host: FakeHost,
    clients: Vec<ClientId>,
    deferred: BTreeMap<ClientId, Vec<u8>>,
    some_fd: OwnedFd,
    seen: cm::Seen,
    on_fabric: fabric::Seen,
}

fn run(seed: u64) -> u64 {
    let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let now = Instant::now();
    let config = BrokerConfig {
        pid: 1,
        uid: 500,
        uid_is_ours_alone: !rng.one_in(4),
        namespace: rng.next(),
        slots_per_user_max: rng.below(100) as u32,
        slot_quarantine: Duration::from_secs(60),
        connections_per_user_max: 20,
        idle_exit: Some(Duration::from_secs(10)),
        survivors: rng.one_in(2),
        socket_name: String::new(),
    };
    let broker = Broker::new(now, config);
    let some_fd = File::open("/dev/null").unwrap().into();
    let (clients, deferred) = (Vec::new(), BTreeMap::new());
    let mut world = World {
        rng,
        now,
        broker,
        host: FakeHost::default(),
        clients,
        deferred,
        some_fd,
        seen: cm::Seen::default(),
        on_fabric: fabric::Seen::default(),
    };
    let steps = 50 + world.rng.below(400);
    for _ in 0..steps {
        world.step();
    }
    steps
}

impl World {
    fn step(&mut self) {
        match self.rng.below(20) {
            0 | 1 => self.connect(),
            2 => self.disconnect(),
            3 => self.interfaces(),
            4 => {
                self.now += Duration::from_millis(self.rng.below(3000));
                self.broker.handle_timeout(self.now, &mut self.host);
            }
            5 if self.rng.one_in(2) => self.ledger(),
            5 => self.host.port_trouble = self.rng.one_in(2).then(|| refuse(98, "taken")),
            6 => self.predecessor(),
            _ => self.message(),
        }
        self.settle();
        self.seen.settle(&mut self.rng, self.now, &mut self.broker, &mut self.host);
        self.on_fabric.settle(&mut self.rng, self.now, &mut self.broker, &mut self.host);
        self.settle();
        assert_eq!(self.broker.poll_output(), None);
        if !self.broker.is_recovering() {
            for (client, bytes) in std::mem::take(&mut self.deferred) {
                self.say(client, &bytes);
            }
        }
        let saved = self.broker.save();
        assert!(saved.slots.iter().filter(|slot| slot.owned).count() <= self.clients.len() + 64);
    }

    fn connect(&mut self) {
        let credentials = Credentials { pid: 1, uid: self.rng.pick(&[0, 500, 1000, 1001, 65534]), gid: 0 };
        if let Some(client) = self.broker.connect(self.now, credentials) {
            self.clients.push(client);
            if !self.rng.one_in(5) {
                let host = fabric::Seen::host(&mut self.rng);
                let hello = Hello::new(Purpose::Session, &self.rng.name()).with_host(host);
                self.say(client, &hello.encode());
            }
        }
    }

    fn disconnect(&mut self) {
        if !self.clients.is_empty() {
            let index = self.rng.below(self.clients.len() as u64) as usize;
            let client = self.clients.swap_remove(index);
            self.deferred.remove(&client);
            self.broker.disconnect(self.now, client, &mut self.host);
        }
    }

    fn interfaces(&mut self) {
        let mut datagram = Vec::new();
        for _ in 0..self.rng.below(4) {
            let mut body = self.rng.bytes(8);
            body.resize(if self.rng.one_in(2) { 16 } else { 8 }, 0);
            if !self.rng.one_in(4) {
                body[0] = self.rng.pick(&[0, 2, 10]);
                body[4..8].copy_from_slice(&(self.rng.below(4) as u32).to_ne_bytes());
            }
            for _ in 0..self.rng.below(5) {
                let value = match self.rng.below(4) {
                    0 => b"eth0\0".to_vec(),
                    1 => b"lo\0".to_vec(),
                    2 => vec![10, 0, 0, self.rng.below(4) as u8],
                    _ => self.rng.bytes(17),
                };
                body.extend((value.len() as u16 + 4).to_ne_bytes());
                body.extend((self.rng.below(10) as u16).to_ne_bytes());
                body.extend(value);
                body.resize(body.len().next_multiple_of(4), 0);
            }
            datagram.extend((body.len() as u32 + 16).to_ne_bytes());
            datagram.extend((self.rng.pick(&[16u16, 16, 17, 20, 20, 21])).to_ne_bytes());
            datagram.extend([0; 10]);
            datagram.extend(body);
        }
        for message in rtnl::parse(&datagram) {
            self.broker.devices().netdevs.apply(&message);
        }
        self.broker.refresh(self.now);
    }

    /// Writes random content to a process's ledger.
    fn ledger(&mut self) {
        let Some((counters, objects)) = self.host.ledgers.values_mut().next() else { return };
        let device = self.rng.below(6) as u32;
        let counted = DeviceCounters { sent_pkts: self.rng.next(), ..DeviceCounters::default() };
        counters.devices = vec![(device, counted); self.rng.below(1000) as usize];
        let path = PathName::from(String::from_utf8_lossy(&self.rng.bytes(50)).into_owned());
        let held = DeviceObjects { device, qp: u32::MAX, paths: vec![(path, 1); 20], ..DeviceObjects::default() };
        objects.devices = vec![held; self.rng.below(100) as usize];
        objects.qps = vec![QpInfo { device, ..QpInfo::default() }; self.rng.below(1000) as usize];
    }

    fn predecessor(&mut self) {
        let count = self.rng.below(100) as u32;
        let mut slots: Vec<SavedSlot> = (1..count)
            .map(|slot| SavedSlot { slot, uid: self.rng.pick(&[0, 500, 1000]), owned: self.rng.one_in(2) })
            .collect();
        slots.retain(|_| self.rng.one_in(2));
        let devices = self.broker.save().devices;
        let next_device = self.rng.below(20) as u32;
        self.host.anchored =
            Some(Adopted { slots: count.max(1), saved: Saved { next_device, devices, slots, ..Saved::default() } });
    }

    fn message(&mut self) {
        let Some(&client) = self.clients.get(self.rng.below(self.clients.len() as u64) as usize) else { return };
        let frame = ClientFrame { id: self.rng.next() as u32, request: self.request() };
        let mut bytes = encode(&frame).unwrap_or_default();
        match self.rng.below(6) {
            0 => bytes = self.rng.bytes(64),
            1 => bytes = self.rng.bytes(MESSAGE_BYTES_MAX as u64 + 9),
            2 => {
                for _ in 0..=self.rng.below(3) {
                    let index = self.rng.below(bytes.len() as u64) as usize;
                    if let Some(byte) = bytes.get_mut(index) {
                        *byte ^= 1 << self.rng.below(8);
                    }
                }
            }
            3 if self.rng.one_in(4) => bytes.truncate(self.rng.below(bytes.len() as u64) as usize),
            _ => {}
        }
        self.say(client, &bytes);
    }

    fn say(&mut self, client: ClientId, bytes: &[u8]) {
        // The broker does not read from a client whose message waits.
        if self.deferred.contains_key(&client) {
            return;
        }
        let fds: Vec<OwnedFd> = match self.broker.accepts_descriptors(client) {
            true => (0..self.rng.below(3)).map(|_| self.some_fd.try_clone().unwrap()).collect(),
            false => Vec::new(),
        };
        if self.broker.handle_message(self.now, client, bytes, &fds, &mut self.host) == Handled::Deferred {
            self.deferred.insert(client, bytes.to_vec());
        }
        self.settle();
    }

    fn request(&mut self) -> Request {
        let group = |rng: &mut Rng| {
            let group = match rng.below(3) {
                0 => std::net::IpAddr::from([224, 0, 0, rng.below(4) as u8]),
                1 => std::net::IpAddr::from([0xff02, 0, 0, 0, 0, 0, 0, rng.below(4) as u16]),
                _ => std::net::IpAddr::from([10, 0, 0, 1]),
            };
            McastGroup { group, ifindex: rng.below(4) as u32 }
        };
        let rng = &mut self.rng;
        match rng.below(32) {
            0 => Request::ListDevices { offset: rng.pick(&[0, 1, 4, u32::MAX]) },
            1 => Request::Subscribe,
            2 | 3 => Request::AllocateSlot,
            4 => {
                let groups = (0..rng.below(300)).map(|_| group(rng)).collect();
                Request::Reattach { slot: rng.below(110) as u32, groups }
            }
            5 => Request::JoinMulticast(group(rng)),
            6 => Request::LeaveMulticast(group(rng)),
            7 => {
                Request::LinkAdd { name: rng.name(), kind: rng.pick(&["rxe", "rxe", "siw"]).into(), netdev: rng.name() }
            }
            8 => Request::LinkDel { name: rng.name() },
            9 => Request::DevRename { old: rng.name(), new: rng.name() },
            11..=18 => self.seen.request(rng),
            19..=21 => peer_request(rng),
            22.. => self.on_fabric.request(rng),
            _ if rng.one_in(4) => ledger_request(rng),
            _ if rng.one_in(2) => Request::Status { offset: rng.pick(&[0, 1, 128, u32::MAX]) },
            _ => Request::ReportUsage(Usage { qp: rng.next() as u32, ..Usage::default() }),
        }
    }

    fn settle(&mut self) {
        while let Some(output) = self.broker.poll_output() {
            match output {
                Output::Send { bytes, .. } => {
                    assert!(bytes.len() <= MESSAGE_BYTES_MAX);
                    self.seen.answer(&bytes);
                    self.on_fabric.answer(&bytes);
                    assert!(HelloReply::decode(&bytes).is_some() || decode::<DaemonFrame>(&bytes).is_ok());
                }
                Output::Close { client } => {
                    self.clients.retain(|&other| other != client);
                    self.deferred.remove(&client);
                    self.broker.disconnect(self.now, client, &mut self.host);
                }
                Output::Stop => {}
            }
        }
    }
}
