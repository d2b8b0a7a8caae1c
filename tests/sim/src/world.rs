//! Hosts, the network between them, and the clock.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use weft_hca::{AhRequest, Hca, HcaConfig};
use weft_transport::peers::PeerId;
use weft_transport::{Memory, Piece, RxPacket, TxBatch};
use weft_verbs::{
    Access, AddressVector, DeviceAttr, DeviceId, Duration, Event, Gid, GidEntry, GidType, Instant, Mtu, PdId, PortAttr,
    PortState, QPN_INDEX_BITS, Wc,
};
use weft_wire::icrc::{Flow, Icrc, of_packet};
use weft_wire::packet::{Packet, pad_for};

use crate::machine::{Machine, Ways, peer_id};
use crate::memory::SimMemory;
use crate::net::{Datagram, Faults, Happening, Net};
use crate::peers::{Seat, SimHost};
use crate::rng::Rng;
use crate::strict::{Strict, Verdict};

/// Source port of all packets; the ICRC covers it.
const SPORT: u16 = 0xc001;
/// Time for one part of a long copy.
const COPY_STEP: Duration = Duration::from_micros(200);
/// Bytes behind the null region: the longest message.
const NULL_BYTES: u64 = 1 << 31;
/// The one device of each host.
pub const DEVICE: DeviceId = DeviceId(0);

/// The transport between connected queue pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// Packets, as between machines.
    Wire,
    /// All processes are on one machine and access each other's memory directly.
    Direct,
    /// All are on one machine, connected by rings only.
    Rings,
}

impl Path {
    /// All of them.
    pub const ALL: [Path; 3] = [Path::Wire, Path::Direct, Path::Rings];

    /// Returns the machine's settings without random choices.
    pub fn ways(self) -> Option<Ways> {
        match self {
            Path::Wire => None,
            Path::Direct => Some(Ways::OPEN),
            Path::Rings => Some(Ways::RINGS),
        }
    }
}

/// One process, on a machine of its own unless the world has one for all.
pub struct Host {
    /// Its adapter.
    pub hca: Hca<SimHost>,
    /// Its address.
    pub ip: IpAddr,
    /// Events that were raised.
    pub events: Vec<Event>,
    /// It no longer takes part, and packets to it vanish. See [`World::kill`].
    pub dead: bool,
    /// It is paused. See [`World::stop`].
    pub stopped: bool,
}

impl Host {
    /// Returns its GID.
    pub fn gid(&self) -> Gid {
        Gid::from(self.ip)
    }

    /// Returns whether it has work that it can do now.
    fn goes_on(&self) -> bool {
        !self.dead && !self.stopped && self.hca.wants_transmit()
    }

    /// Allocates memory.
    pub fn alloc(&mut self, len: usize) -> u64 {
        self.hca.memory().alloc(len)
    }

    /// Allocates and registers memory; returns address and key.
    pub fn region(&mut self, pd: PdId, len: usize, access: Access) -> (u64, u32) {
        let addr = self.alloc(len);
        let keys = self.hca.reg_mr(pd, addr, len as u64, addr, access).expect("registration");
        (addr, keys.rkey)
    }

    /// Writes bytes.
    pub fn fill(&mut self, addr: u64, data: &[u8]) {
        self.hca.memory().write(addr, data);
    }

    /// Reads bytes.
    pub fn look(&mut self, addr: u64, len: usize) -> Vec<u8> {
        self.hca.memory().bytes(addr, len)
    }

    /// Polls all pending completions of a queue.
    pub fn poll(&mut self, cq: weft_verbs::CqId) -> Vec<Wc> {
        let mut all = Vec::new();
        let mut some = [Wc::default(); 16];
        while let Ok(n @ 1..) = self.hca.poll_cq(cq, &mut some) {
            all.extend_from_slice(&some[..n]);
        }
        all
    }

    /// Returns the path to another host.
    pub fn path_to(&self, dgid: Gid) -> AddressVector {
        let ah = AhRequest { dgid, is_global: true, port_num: 1, hop_limit: 64, ..AhRequest::default() };
        self.hca.resolve_av(DEVICE, &ah).expect("a path")
    }
}

/// The whole simulation.
pub struct World {
    /// The time.
    pub now: Instant,
    /// The random numbers.
    pub rng: Rng,
    /// The hosts.
    pub hosts: Vec<Host>,
    /// The network between the hosts.
    pub net: Net,
    /// Packets sent, if recording is on: see [`World::record`].
    pub recorded: Option<Vec<Datagram>>,
    /// The machine with all processes, if they are on one.
    pub machine: Option<Rc<RefCell<Machine>>>,
    /// Filters for queue pairs that drop everything behind a gap, by number.
    pub strict: BTreeMap<u32, Strict>,
    tx: TxBatch,
}

/// Result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Packet or timer at this host.
    Host(usize),
    /// A wake-up that the test requested.
    Wake(u64),
    /// Something of no interest to a test.
    Other,
    /// No event is left.
    Idle,
}

/// Returns the address of a host.
pub fn address(v6: bool, host: usize) -> IpAddr {
    if v6 {
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host as u16 + 1))
    } else {
        IpAddr::V4(Ipv4Addr::new(10, 77, 0, host as u8 + 1))
    }
}

fn flow(src: IpAddr, dst: IpAddr) -> Flow {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Flow::V4 { src, dst, sport: SPORT },
        (IpAddr::V6(src), IpAddr::V6(dst)) => Flow::V6 { src, dst, sport: SPORT },
        _ => panic!("a packet from {src} to {dst}: mixed families"),
    }
}

/// Writes the correct ICRC at the end of a packet.
pub fn seal(src: IpAddr, dst: IpAddr, bytes: &mut [u8]) {
    let crc = of_packet(flow(src, dst).seed(bytes.len(), 0), bytes);
    if let Some(end) = bytes.last_chunk_mut::<4>() {
        *end = crc.to_le_bytes();
    }
}

impl World {
    /// Creates `count` hosts on one network.
    pub fn new(seed: u64, count: usize, v6: bool, faults: Faults) -> World {
        World::with(seed, count, v6, faults, None)
    }

    /// Creates `count` processes on a path.
    pub fn on(path: Path, seed: u64, count: usize) -> World {
        World::with(seed, count, false, Faults::NONE, path.ways())
    }

    /// Creates `count` processes, on one machine with these settings, or on a machine each.
    pub fn with(seed: u64, count: usize, v6: bool, faults: Faults, ways: Option<Ways>) -> World {
        let mut rng = Rng::new(seed);
        let machine = ways.map(|ways| Rc::new(RefCell::new(Machine::new(Rng::new(rng.bits()), ways))));
        let hosts = (0..count)
            .map(|host| {
                let ip = address(v6, host);
                let mut memory = SimMemory::new((host as u64 + 1) << 44);
                let null = memory.alloc_null(NULL_BYTES);
                let config = HcaConfig {
                    slot: host as u32 + 1,
                    seed: [rng.bits(), rng.bits(), rng.bits(), rng.bits()],
                    null_memory: null..null + NULL_BYTES,
                    ..HcaConfig::default()
                };
                let seat = machine.as_ref().map(|machine| {
                    let me = machine.borrow_mut().join(memory.regions.clone());
                    Seat { machine: machine.clone(), me }
                });
                let met = seat.is_some();
                let mut hca = Hca::new(config, SimHost::parts(memory, seat));
                if met {
                    hca.open_rings();
                }
                hca.set_device(DEVICE, device(host, ip));
                Host { hca, ip, events: Vec::new(), dead: false, stopped: false }
            })
            .collect();
        World {
            now: Instant(1_000),
            rng,
            hosts,
            net: Net::new(faults),
            recorded: None,
            machine,
            strict: BTreeMap::new(),
            tx: TxBatch::default(),
        }
    }

    /// Records every packet and every frame from now on.
    pub fn record(&mut self) {
        self.recorded = Some(Vec::new());
        if let Some(machine) = &self.machine {
            machine.borrow_mut().recorded = Some(Vec::new());
        }
    }

    /// Kills a process, or brings it back (which only packets notice).
    pub fn kill(&mut self, host: usize, dead: bool) {
        self.hosts[host].dead = dead;
        if let Some(machine) = &self.machine {
            machine.borrow_mut().kill(host, dead);
        }
    }

    /// Stops a process where it is, or resumes it.
    pub fn stop(&mut self, host: usize, stopped: bool) {
        self.hosts[host].stopped = stopped;
        if let Some(machine) = &self.machine {
            machine.borrow_mut().stop(host, stopped);
        }
    }

    /// Returns the number by which a process knows the owner of a queue pair number, if both are on one machine.
    pub fn peer(&self, of: usize, qpn: u32) -> Option<PeerId> {
        let slot = (qpn >> QPN_INDEX_BITS) as usize;
        let known = self.machine.is_some() && (1..=self.hosts.len()).contains(&slot);
        known.then(|| peer_id(of, slot - 1))
    }

    /// Lets all hosts send as much as they can.
    pub fn flush(&mut self) {
        for index in 0..self.hosts.len() {
            let runs = !self.hosts[index].dead && !self.hosts[index].stopped;
            while runs && self.hosts[index].hca.wants_transmit() {
                self.tx.clear();
                let more = self.hosts[index].hca.poll_transmit(self.now, &mut self.tx);
                self.send_batch(index);
                if !more {
                    break;
                }
            }
            while let Some(event) = self.hosts[index].hca.poll_event() {
                self.hosts[index].events.push(event);
            }
        }
        let bells = self.machine.as_ref().map(|machine| machine.borrow_mut().bells()).unwrap_or_default();
        for (host, delay) in bells {
            self.net.look(self.now + delay, host);
        }
    }

    /// Lets a process poll its rings from other processes of its machine.
    fn look(&mut self, host: usize) {
        let Some(machine) = &self.machine else { return };
        machine.borrow_mut().begin_turn(host);
        self.hosts[host].hca.handle_rings(self.now);
        machine.borrow_mut().end_turn(host);
    }

    fn send_batch(&mut self, index: usize) {
        let tx = std::mem::take(&mut self.tx);
        let host = &mut self.hosts[index];
        assert!(tx.packets.len() <= TxBatch::PACKETS_MAX, "a batch of {} packets", tx.packets.len());
        for packet in &tx.packets {
            let header = &tx.arena[packet.header.start as usize..packet.header.end as usize];
            let payload = packet.payload_len as usize;
            let len = header.len() + payload + pad_for(payload) + 4;
            let mut bytes = Vec::with_capacity(len);
            bytes.extend_from_slice(header);
            for piece in &tx.pieces[packet.pieces.start as usize..packet.pieces.end as usize] {
                match *piece {
                    Piece::Host { addr, len } => {
                        let at = bytes.len();
                        bytes.resize(at + len as usize, 0);
                        host.hca.memory().read(addr, &mut bytes[at..]);
                    }
                    Piece::Arena { start, len } => {
                        bytes.extend_from_slice(&tx.arena[start as usize..(start + len) as usize]);
                    }
                }
            }
            assert_eq!(bytes.len(), header.len() + payload, "payload_len is not the sum of the pieces");
            bytes.resize(len, 0);
            let (src, dst) = (packet.av.sgid.ip(), packet.av.dgid.ip());
            assert_eq!(src, host.ip, "a packet with another's source address");
            let mut crc = Icrc::new(flow(src, dst).seed(len, 0));
            crc.header(&bytes[..len - 4]);
            let crc = crc.finish().to_le_bytes();
            bytes[len - 4..].copy_from_slice(&crc);
            let parsed = Packet::parse(&bytes).expect("what is sent can be parsed");
            assert_eq!(parsed.payload.len(), payload, "the pad count is wrong");
            assert_eq!(parsed.bth.dest_qp(), packet.dest_qpn);
            if let Some(strict) = self.strict.get_mut(&packet.src_qpn) {
                strict.overhear(&parsed);
            }
            let hop_limit = if packet.av.hop_limit == 0 { 64 } else { packet.av.hop_limit };
            let datagram = Datagram { src, dst, traffic_class: packet.av.traffic_class, hop_limit, bytes };
            if let Some(recorded) = &mut self.recorded {
                recorded.push(datagram.clone());
            }
            if !host.dead {
                self.net.send(self.now, &mut self.rng, datagram);
            }
        }
        self.tx = tx;
    }

    /// Delivers a packet: checks it as a link does and hands it to the host with the destination address.
    pub fn arrive(&mut self, datagram: &Datagram) -> Option<usize> {
        let (src, dst) = (datagram.src, datagram.dst);
        let want = Packet::icrc(&datagram.bytes)?;
        if of_packet(flow(src, dst).seed(datagram.bytes.len(), 0), &datagram.bytes) != want {
            return None;
        }
        let packet = Packet::parse(&datagram.bytes).ok()?;
        let rx = RxPacket {
            packet,
            sgid: Gid::from(src),
            dgid: Gid::from(dst),
            traffic_class: datagram.traffic_class,
            hop_limit: datagram.hop_limit,
            ifindex: 0,
            gid_type: weft_verbs::GidType::RoceV2,
            local: None,
        };
        if let Some(strict) = self.strict.get_mut(&packet.bth.dest_qp())
            && let Verdict::Drop(nak) = strict.judge(&packet, datagram)
        {
            if let Some(nak) = nak {
                self.net.send(self.now, &mut self.rng, nak);
            }
            return None;
        }
        let mut touched = None;
        for (index, host) in self.hosts.iter_mut().enumerate() {
            if !host.dead && !host.stopped && (host.ip == dst || dst.is_multicast()) {
                host.hca.handle_packet(self.now, &rx);
                touched = Some(index);
            }
        }
        touched
    }

    /// Processes the next event.
    pub fn step(&mut self) -> Step {
        self.flush();
        // A long copy continues, after others had their turn.
        if self.machine.is_some() && self.hosts.iter().any(Host::goes_on) {
            self.now = self.now + COPY_STEP;
            self.flush();
            return Step::Other;
        }
        let timer = self
            .hosts
            .iter_mut()
            .enumerate()
            .filter(|(_, host)| !host.dead && !host.stopped)
            .filter_map(|(index, host)| Some((host.hca.poll_timeout()?, index)))
            .min();
        let step = match (self.net.next_at(), timer) {
            (None, None) => return Step::Idle,
            (Some(at), timer) if timer.is_none_or(|(deadline, _)| at <= deadline) => {
                self.now = self.now.max(at);
                match self.net.pop() {
                    Some(Happening::Arrival(datagram)) => self.arrive(&datagram).map_or(Step::Other, Step::Host),
                    Some(Happening::Wake(number)) => Step::Wake(number),
                    Some(Happening::Look(host)) => {
                        self.look(host);
                        Step::Host(host)
                    }
                    None => Step::Other,
                }
            }
            (_, Some((deadline, index))) => {
                self.now = self.now.max(deadline);
                self.hosts[index].hca.handle_timeout(self.now);
                self.look(index);
                Step::Host(index)
            }
            _ => Step::Other,
        };
        self.flush();
        step
    }

    /// Runs until no event is left. Panics after `steps_max` steps, against endless loops.
    pub fn run(&mut self, steps_max: u64) {
        for _ in 0..steps_max {
            if self.step() == Step::Idle {
                return;
            }
        }
        panic!("still busy after {steps_max} steps");
    }

    /// Runs until no event is left: a million steps at most.
    pub fn settle(&mut self) {
        self.run(1_000_000);
    }

    /// Runs for this long.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        self.net.wake(end, u64::MAX);
        while self.now < end {
            if self.step() == Step::Idle {
                break;
            }
        }
    }
}

/// Returns the attributes of a host's device.
pub fn device(host: usize, ip: IpAddr) -> DeviceAttr {
    DeviceAttr {
        name: format!("sim{host}"),
        node_guid: 0x0200_0000_0000_0000 + host as u64,
        netdev: "eth0".to_owned(),
        ifindex: 2,
        is_iwarp: false,
        ports: vec![PortAttr {
            state: PortState::Active,
            active_mtu: Mtu::Mtu4096,
            gids: vec![GidEntry { index: 0, gid: Gid::from(ip), gid_type: GidType::RoceV2, ifindex: 2 }],
            link_speed_mbps: Some(100_000),
            infiniband: None,
        }],
    }
}
