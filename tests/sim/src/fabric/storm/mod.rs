//! Queue pairs of every service on four hosts of a hop-by-hop fabric, while faults that a seed chooses strike where
//! their packets pass. Each packet does what ports and tables say at that moment, and every port counts it. Each
//! message arrives as it was sent. Failed connections are connected anew, and once all is repaired every host hears
//! every other.

mod ledger;
mod strike;
mod talk;

use std::collections::BTreeMap;

use weft_fabric::topology::generate::{Plan, Shape};
use weft_fabric::topology::{NodeKind, Topology};
use weft_fabric::{Fabric, PacketInfo, PortRef, Transit, Why};
use weft_hca::AhRequest;
use weft_transport::{TxBatch, TxPacket};
use weft_verbs::{Duration, Instant, Mtu, QpType};
use weft_wire::link_packet::LinkPacket;

use super::Manager;
use super::adapter::{Adapter, DEVICE};
use crate::rng::{Rng, mix};
use ledger::{Ledger, Route, route};
use strike::Damage;
pub use strike::{FAULTS, Fault};
use talk::Talker;

/// Faults of one seed.
const FAULTS_PER_SEED: usize = 20;
/// Hosts that take part.
const HOSTS: usize = 4;
/// Latency of a packet besides that of its cables.
const SWITCHING: Duration = Duration::from_nanos(400);
/// Longer than any link trains and any node boots.
const TRAINED: Duration = Duration::from_millis(25);
/// Wait before a failed connection is made anew: none of its packets is under way any more.
const TIME_WAIT: Duration = Duration::from_millis(2);
/// Longer than all retries of an unanswered request.
const PATIENCE: Duration = Duration::from_secs(20);
/// Events between two readings of the clock at most, against endless loops.
const STEPS_MAX: u64 = 2_000_000;

/// Counts of one seed's run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StormTally {
    /// Faults that struck, by kind.
    pub struck: [u64; FAULTS.len()],
    /// Packets that were lost between a fault and the next, by its kind.
    pub felt: [u64; FAULTS.len()],
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that were lost.
    pub lost: u64,
    /// Messages that arrived: of RC, UC and UD.
    pub messages: [u64; 3],
    /// Connections that failed and were made anew.
    pub failed: u64,
    /// Sum of all ports' packet counters, management packets included.
    pub counted: u64,
    /// Hash of all events in order.
    pub fingerprint: u64,
}

struct Storm {
    now: Instant,
    rng: Rng,
    topology: Topology,
    fabric: Fabric,
    manager: Manager,
    transit: Transit,
    hosts: Vec<Adapter>,
    talkers: Vec<Talker>,
    tx: TxBatch,
    ledger: Ledger,
    damage: Damage,
    /// Routes by source, LID and P_Key, valid until the fabric changes.
    ways: BTreeMap<(usize, u16, u16), Route>,
    ways_of: u64,
    tally: StormTally,
}

/// Runs one seed.
pub fn run_storm(seed: u64) -> StormTally {
    let mut storm = Storm::new(seed);
    storm.converse();
    for round in 0..FAULTS_PER_SEED {
        storm.round(seed as usize + round);
    }
    storm.mend();
    storm.converse();
    storm.tally.counted = storm.ledger.check(&storm.fabric);
    storm.tally
}

impl Storm {
    fn new(seed: u64) -> Storm {
        let mut rng = Rng::new(seed);
        let shape = match rng.below(4) {
            0 => Shape::Star { hosts: HOSTS as u32 },
            1 => Shape::FatTree { radix: 4, levels: 2, hosts: None, hosts_per_leaf: None },
            2 => Shape::Torus { sizes: vec![3, 3], hosts_per_switch: 1, wraps: true },
            _ => Shape::Random { switches: 6, degree: 3, hosts_per_switch: 1, seed: rng.bits() },
        };
        let topology = Plan::new(shape).generate().expect("a shape that can be");
        let places = (0..).zip(&topology.nodes).filter(|(_, node)| node.kind == NodeKind::Ca);
        let ports: Vec<PortRef> = places.map(|(place, _)| PortRef::new(place, 1)).collect();
        let mut fabric = Fabric::new(&topology, seed);
        let mut manager = Manager::new(ports[0]);
        manager.sweep(&mut fabric, Instant(0));
        let spread = (0..HOSTS).map(|host| ports[host * (ports.len() - 1) / (HOSTS - 1)]);
        let hosts = (1..).zip(spread).map(|(slot, port)| Adapter::new(&mut rng, &fabric, port, slot)).collect();
        let mut storm = Storm {
            now: Instant(0),
            rng,
            topology,
            fabric,
            manager,
            transit: Transit::default(),
            hosts,
            talkers: Vec::new(),
            tx: TxBatch::default(),
            ledger: Ledger::default(),
            damage: Damage::default(),
            ways: BTreeMap::new(),
            ways_of: 0,
            tally: StormTally::default(),
        };
        storm.seat();
        storm
    }

    /// Creates reliable and unreliable connections between hosts, and a queue pair for datagrams on each.
    fn seat(&mut self) {
        let pds = self.hosts.iter_mut().map(|host| host.hca.alloc_pd(DEVICE, 0).expect("a protection domain"));
        let pds: Vec<_> = pds.collect();
        let rc = [(0, 1), (1, 2), (2, 3), (3, 0)].map(|ends| (QpType::Rc, ends));
        let uc = [(0, 2), (3, 1)].map(|ends| (QpType::Uc, ends));
        let connections = [&rc[..], &uc[..]].concat();
        let ends = connections.iter().flat_map(|(kind, (a, b))| [(*kind, *a), (*kind, *b)]);
        let ends: Vec<_> = ends.chain((0..HOSTS).map(|host| (QpType::Ud, host))).collect();
        for (at, (kind, host)) in ends.into_iter().enumerate() {
            // Service level 0 is left to management.
            let sl = self.rng.range(1, 7) as u8;
            self.talkers.push(Talker::new(&mut self.hosts[host].hca, pds[host], (at, host), kind, sl));
        }
        for at in 0..self.talkers.len() {
            let datagrams = connections.len() * 2..self.talkers.len();
            let others = if at < datagrams.start { vec![at ^ 1] } else { datagrams.filter(|to| *to != at).collect() };
            let peers = others.into_iter().map(|to| {
                let (of, there) = (&self.talkers[at], &self.hosts[self.talkers[to].host]);
                let is_global = at & 2 != 0 && of.kind != QpType::Ud;
                let ah = AhRequest {
                    dlid: there.lid,
                    dgid: there.gid,
                    sl: of.sl,
                    is_global,
                    hop_limit: 1,
                    port_num: 1,
                    ..AhRequest::default()
                };
                let av = self.hosts[of.host].hca.resolve_av(DEVICE, &ah).expect("a path");
                self.talkers[to].as_peer(there.lid, av)
            });
            self.talkers[at].peers = peers.collect();
        }
        (0..connections.len() * 2).step_by(2).for_each(|at| self.connect(&[at, at + 1]));
        (connections.len() * 2..self.talkers.len()).for_each(|at| self.connect(&[at]));
    }

    fn connect(&mut self, ends: &[usize]) {
        let psns = [self.rng.bits(), self.rng.bits()].map(|bits| bits as u32 & 0xff_ffff);
        let path_mtu = self.rng.pick(&[Mtu::Mtu1024, Mtu::Mtu2048]);
        for (side, at) in ends.iter().enumerate() {
            let talker = &mut self.talkers[*at];
            talker.connect(&mut self.hosts[talker.host].hca, self.now, [psns[side], psns[1 - side]], path_mtu);
        }
    }

    /// Injects a fault in mid-traffic and checks its consequences.
    fn round(&mut self, number: usize) {
        self.grant(8);
        for _ in 0..self.rng.below(200) {
            self.turn(self.now + Duration::from_millis(1));
        }
        let kind = self.strike(number);
        let lost = self.tally.lost;
        self.grant(6);
        let time = self.rng.pick(&[50, 500, 5_000, 50_000, 400_000]);
        let time = self.rng.range(time / 2, time);
        self.pass(Duration::from_micros(time));
        self.tell_hosts();
        self.tally.felt[kind] += self.tally.lost - lost;
        match self.rng.below(6) {
            0..3 => self.mend(),
            3 => self.sweep(),
            _ => {}
        }
    }

    fn grant(&mut self, messages: u64) {
        self.talkers.iter_mut().for_each(|talker| talker.budget += messages);
    }

    /// Checks that on a working fabric no connection is stuck and everything arrives.
    fn converse(&mut self) {
        let end = self.now + PATIENCE;
        self.grant(1);
        while self.talkers.iter().any(|talker| talker.budget > 0 || talker.done < talker.sent) {
            assert!(
                self.now < end,
                "stuck: {:?}",
                self.talkers.iter().map(|t| (t.kind, t.sent, t.done)).collect::<Vec<_>>()
            );
            self.pass(Duration::from_millis(5));
        }
        self.pass(TRAINED);
        let before: Vec<_> = self.talkers.iter().map(|talker| (talker.came, talker.life())).collect();
        self.grant(12);
        self.pass(Duration::from_millis(100));
        for (talker, (came, life)) in self.talkers.iter().zip(before) {
            assert_eq!(
                (talker.broken, talker.life(), talker.done, talker.budget),
                (None, life, talker.sent, 0),
                "{:?} to host {}",
                talker.kind,
                talker.host
            );
            // Every fourth operation of a reliable queue pair is a READ.
            let all = if talker.kind == QpType::Rc { 9 } else { 12 };
            assert_eq!(talker.came - came, all, "{:?} to host {}", talker.kind, talker.host);
        }
    }

    /// Lets time pass.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..STEPS_MAX {
            if !self.turn(end) {
                return;
            }
        }
        panic!("something goes in circles");
    }

    /// Processes the next event before `end`; returns whether there was one.
    fn turn(&mut self, end: Instant) -> bool {
        self.renew_connections();
        for talker in &mut self.talkers {
            talker.post(&mut self.hosts[talker.host].hca, self.now);
        }
        (0..self.hosts.len()).for_each(|host| self.transmit(host));
        let timers = self.hosts.iter_mut().filter_map(|host| host.hca.poll_timeout()).min();
        let broken = self.talkers.iter().filter_map(|talker| talker.broken).min().map(|at| at + TIME_WAIT);
        let next =
            [timers, broken, self.fabric.poll_timeout(), self.transit.poll_timeout()].into_iter().flatten().min();
        let more = next.is_some_and(|at| at <= end);
        self.now = self.now.max(next.unwrap_or(end).min(end));
        self.fabric.handle_timeout(self.now);
        self.hear();
        while let Some((port, sender, bytes)) = self.transit.arrive(self.now) {
            let host = self.hosts.iter().position(|host| host.port == port).expect("one of ours");
            self.tally.arrived += 1;
            self.hosts[host].arrive(self.now, sender, &bytes);
            self.look(host);
        }
        for host in 0..self.hosts.len() {
            self.hosts[host].hca.handle_timeout(self.now);
            self.look(host);
        }
        more
    }

    fn look(&mut self, host: usize) {
        let lives: Vec<u64> = self.talkers.iter().map(Talker::life).collect();
        for talker in self.talkers.iter_mut().filter(|talker| talker.host == host) {
            let came = talker.came;
            talker.take_completions(&mut self.hosts[host].hca, self.now, &lives);
            let kind = [QpType::Rc, QpType::Uc, QpType::Ud].iter().position(|kind| *kind == talker.kind);
            self.tally.messages[kind.expect("one of them")] += talker.came - came;
        }
    }

    /// Discards the traps: nothing answers them here, and the simulation queries port state when it needs it.
    fn hear(&mut self) {
        while self.fabric.poll_event().is_some() {}
        while self.fabric.poll_delivery().is_some() {}
    }

    /// Connects failed connections anew; checks that acknowledged messages had arrived.
    fn renew_connections(&mut self) {
        for at in (0..self.talkers.len()).step_by(2) {
            let due = |at: usize| self.talkers[at].broken.is_some_and(|since| since + TIME_WAIT <= self.now);
            if !due(at) && !due(at + 1) {
                continue;
            }
            self.tally.failed += 1;
            for [own, other] in [[at, at + 1], [at + 1, at]] {
                let acknowledged = self.talkers[own].last_message(self.talkers[own].done);
                assert!(
                    acknowledged.is_none_or(|last| last < self.talkers[other].next()),
                    "acknowledged and not there"
                );
            }
            for at in [at, at + 1] {
                let talker = &mut self.talkers[at];
                talker.reset(&mut self.hosts[talker.host].hca, self.now);
            }
            self.connect(&[at, at + 1]);
        }
    }

    fn transmit(&mut self, host: usize) {
        while self.hosts[host].hca.wants_transmit() {
            self.tx.clear();
            let more = self.hosts[host].hca.poll_transmit(self.now, &mut self.tx);
            let tx = std::mem::take(&mut self.tx);
            tx.packets.iter().for_each(|packet| self.send(host, &tx, packet));
            self.tx = tx;
            if !more {
                break;
            }
        }
        self.look(host);
    }

    /// Sends a packet and checks that it follows its predicted route.
    fn send(&mut self, host: usize, tx: &TxBatch, packet: &TxPacket) {
        let (port, mut bytes) = (self.hosts[host].port, self.hosts[host].compose(tx, packet));
        let info = PacketInfo::of(&LinkPacket::parse(&bytes).expect("whole")).expect("a packet");
        if self.ways_of != self.fabric.generation() {
            self.ways.clear();
            self.ways_of = self.fabric.generation();
        }
        let fabric = &self.fabric;
        let way = self.ways.entry((host, info.dlid, info.pkey));
        let way = way.or_insert_with(|| route(fabric, port, info.dlid, info.pkey)).clone();
        let (now, transit, mut came) = (self.now, &mut self.transit, None);
        let sent = self.fabric.forward(now, port, &mut bytes, |arrival, bytes| {
            came = Some(arrival.port);
            let until = now + SWITCHING + Duration::from_nanos(arrival.latency_ns);
            assert!(transit.depart(until, arrival.port, host as u32 + 1, bytes), "no more than windows are under way");
        });
        let ended = sent.map(|()| came.expect("it came somewhere"));
        self.ledger.enter(&self.fabric, &way, &info, ended);
        self.tally.lost += u64::from(ended.is_err());
        let what =
            ended.map_or_else(|refusal| u64::from(refusal.at.node) << 8 | why_code(refusal.why), |to| to.node.into());
        for word in [now.0, what, bytes.len() as u64] {
            self.tally.fingerprint = mix(self.tally.fingerprint ^ word);
        }
    }
}

fn why_code(why: Why) -> u64 {
    why.to_string().bytes().fold(1, |code, byte| mix(code ^ u64::from(byte)))
}
