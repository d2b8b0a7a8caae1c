//! The random fault schedule of a fabric.

use weft_fabric::topology::generate::{Plan, Shape};
use weft_fabric::topology::{NodeKind, Speed, Topology, Width};
use weft_fabric::{Changes, Fabric, PacketInfo, PathQuery, PortRef};
use weft_verbs::{Duration, Instant};

use super::manager::Manager;
use super::model::{Plant, walk};
use crate::rng::Rng;

/// Faults of one seed.
const FAULTS: u64 = 30;
/// Pairs of hosts checked after each fault.
const PAIRS: u64 = 12;
/// Longer than any link trains.
const TRAINED: Duration = Duration::from_millis(10);

/// Counts of the situations that the runs met, so that a test can prove its coverage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// SMPs that the managers sent.
    pub smps: u64,
    /// Pairs whose packets the fabric says arrive.
    pub good: u64,
    /// Pairs whose packets it says are dropped.
    pub bad: u64,
    /// Faults of each kind.
    pub faults: [u64; 8],
    /// Events that hosts received.
    pub events: u64,
}

struct Run {
    rng: Rng,
    topology: Topology,
    fabric: Fabric,
    plant: Plant,
    manager: Manager,
    hosts: Vec<PortRef>,
    now: Instant,
    tally: Tally,
}

/// Runs one seed, from the first sweep to the last.
pub fn run(seed: u64) -> Tally {
    let mut rng = Rng::new(seed);
    let topology = Plan::new(shape(&mut rng)).generate().expect("a shape that can be");
    let hosts: Vec<_> = (0..)
        .zip(&topology.nodes)
        .filter(|(_, node)| node.kind == NodeKind::Ca)
        .map(|(place, _)| PortRef::new(place, 1))
        .collect();
    let mut run = Run {
        fabric: Fabric::new(&topology, seed),
        plant: Plant::new(&topology),
        manager: Manager::new(hosts[0]),
        now: Instant(0),
        tally: Tally::default(),
        rng,
        topology,
        hosts,
    };
    run.plant.check(&run.fabric);
    run.sweep();
    run.everybody();
    for _ in 0..FAULTS {
        run.fault();
        run.look();
        if run.rng.chance(1, 3) {
            run.sweep();
            run.look();
        }
    }
    run.mend();
    run.sweep();
    run.everybody();
    run.rest();
    run.tally.smps = run.manager.sent;
    run.tally
}

fn shape(rng: &mut Rng) -> Shape {
    match rng.below(5) {
        0 => Shape::Star { hosts: rng.range(2, 8) as u32 },
        1 => Shape::FatTree { radix: 4, levels: rng.range(2, 3) as u8, hosts: None, hosts_per_leaf: None },
        2 => Shape::Torus { sizes: vec![3, 3], hosts_per_switch: 1, wraps: rng.chance(1, 2) },
        3 => Shape::Dragonfly { switches_per_group: 2, hosts_per_switch: 1, global_per_switch: 1, groups: None },
        _ => Shape::Random { switches: 8, degree: 3, hosts_per_switch: 1, seed: rng.bits() },
    }
}

impl Run {
    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.fabric.handle_timeout(self.now);
        while let Some(event) = self.fabric.poll_event() {
            assert_ne!(event.changes, Changes::empty());
            self.tally.events += 1;
        }
        while self.fabric.poll_delivery().is_some() {}
    }

    fn sweep(&mut self) {
        self.manager.sweep(&mut self.fabric, self.now);
    }

    fn cabled(&mut self) -> Option<PortRef> {
        let ports: Vec<_> = self.plant.plugged.keys().copied().collect();
        (!ports.is_empty()).then(|| self.rng.pick(&ports))
    }

    fn unplug(&mut self, port: PortRef) -> PortRef {
        let peer = self.plant.plugged.remove(&port).expect("a cable");
        self.plant.plugged.remove(&peer);
        peer
    }

    /// Injects one fault, and sometimes lets time pass for its consequences.
    fn fault(&mut self) {
        let kind = self.rng.below(8);
        self.tally.faults[kind as usize] += 1;
        match kind {
            0 => self.cut(),
            1 => self.join(),
            2 => {
                if let Some(port) = self.cabled() {
                    let down = Duration::from_millis(self.rng.range(1, 40));
                    self.fabric.flap(self.now, port, down).expect("a cable");
                    self.look();
                    self.pass(down + TRAINED);
                }
            }
            3 => {
                if let Some(port) = self.cabled() {
                    let (width, speed) =
                        (self.rng.pick(&[None, Some(Width::X1)]), self.rng.pick(&[None, Some(Speed::Sdr)]));
                    self.fabric.degrade(self.now, port, width, speed).expect("a cable");
                }
            }
            4 => {
                let node = self.rng.below(self.topology.nodes.len() as u64) as u32;
                if !self.plant.off.contains(&node) {
                    let down = Duration::from_millis(self.rng.range(1, 40));
                    self.fabric.reboot(self.now, node, down).expect("a node");
                    self.look();
                    self.pass(down + TRAINED);
                }
            }
            5 => self.power(),
            6 => {
                let ppm = self.rng.pick(&[0, 10_000, 200_000]);
                self.fabric.set_drop(None, ppm).expect("every cable");
            }
            _ => {
                let time = Duration::from_millis(self.rng.range(1, 2000));
                self.pass(time);
            }
        }
        if self.rng.chance(1, 2) {
            self.pass(TRAINED);
            self.plant.check(&self.fabric);
        }
    }

    fn cut(&mut self) {
        if let Some(port) = self.cabled() {
            self.unplug(port);
            self.fabric.cut(self.now, port).expect("a cable");
        }
    }

    /// Plugs a cable where one was cut, or between any two free ports.
    fn join(&mut self) {
        let ends = self.topology.cables.iter().flat_map(|cable| [cable.a, cable.b]).map(PortRef::from);
        let free: Vec<_> = ends.filter(|end| !self.plant.plugged.contains_key(end)).collect();
        if free.len() < 2 {
            return;
        }
        let (a, b) = (self.rng.pick(&free), self.rng.pick(&free));
        if a != b {
            self.fabric.join(self.now, a, b).expect("free ports");
            self.plant.plugged.insert(a, b);
            self.plant.plugged.insert(b, a);
        }
    }

    fn power(&mut self) {
        let node = self.rng.below(self.topology.nodes.len() as u64) as u32;
        if self.plant.off.remove(&node) {
            self.fabric.power_on(self.now, node).expect("a node");
        } else {
            self.plant.off.insert(node);
            self.fabric.power_off(self.now, node).expect("a node");
        }
    }

    /// Checks that the fabric's verdict, the model's walk and a packet agree, for some pairs.
    fn look(&mut self) {
        for _ in 0..PAIRS {
            let (from, to) = (self.rng.pick(&self.hosts), self.rng.pick(&self.hosts));
            let pkey = if self.rng.chance(1, 10) { 0x7fff } else { 0xffff };
            self.agree(from, to, pkey);
        }
    }

    fn agree(&mut self, from: PortRef, to: PortRef, pkey: u16) -> bool {
        let dlid = self.fabric.port_info(to).expect("a port").lid;
        let query = PathQuery { dlid, sl: 0, pkey, payload: 256 };
        let verdict = self.fabric.verdict(from, &query);
        let said = verdict.as_ref().ok().map(|verdict| verdict.to);
        assert_eq!(said, walk(&self.fabric, from, &query), "{from} to {to} by LID {dlid}: {verdict:?}");
        let before = self.fabric.traffic(to).rcv_packets;
        let packet = PacketInfo { dlid, path_bits: 0, sl: 0, pkey, src_qp: 2, dest_qp: 2, payload: 256, words: 72 };
        let mut arrived = None;
        let sent = self.fabric.transmit(self.now, from, &packet, |arrival| arrived = Some(arrival.port));
        match verdict {
            Ok(verdict) => {
                self.tally.good += 1;
                assert_eq!((sent, arrived), (Ok(()), Some(verdict.to)));
                let crossed = u64::from(verdict.path.hops() != 0 && verdict.to == to);
                assert_eq!(self.fabric.traffic(to).rcv_packets - before, crossed);
                // Packets sent on a verdict are counted like packets that go hop by hop.
                self.fabric.account(&verdict.path, 5, 360);
                assert_eq!(self.fabric.traffic(to).rcv_packets - before, crossed * 6);
            }
            // A source without the P_Key sends nothing with it; the packet alone does not know.
            Err(refusal) if refusal.at == from => self.tally.bad += 1,
            Err(refusal) => {
                self.tally.bad += 1;
                assert_eq!(sent, Err(refusal));
            }
        }
        said == Some(to)
    }

    /// Restores everything to the topology.
    fn mend(&mut self) {
        self.fabric.set_drop(None, 0).expect("every cable");
        for node in std::mem::take(&mut self.plant.off) {
            self.fabric.power_on(self.now, node).expect("a node");
        }
        while let Some((port, _)) = self.plant.plugged.pop_first() {
            self.fabric.cut(self.now, port).expect("a cable");
            self.plant.plugged.retain(|_, peer| *peer != port);
        }
        for cable in &self.topology.cables {
            let (a, b) = (PortRef::from(cable.a), PortRef::from(cable.b));
            self.fabric.join(self.now, a, b).expect("free ports");
            self.fabric.degrade(self.now, a, None, None).expect("a cable");
        }
        self.plant = Plant::new(&self.topology);
        self.pass(TRAINED);
        self.plant.check(&self.fabric);
    }

    /// Checks that every host reaches every other.
    fn everybody(&mut self) {
        for from in self.hosts.clone() {
            for to in self.hosts.clone() {
                assert!(self.agree(from, to, 0xffff), "{from} does not reach {to}");
            }
        }
        assert!(self.fabric.cables().count() <= self.topology.cables.len() * 2, "cables pile up");
    }

    /// Checks that the fabric comes to rest.
    fn rest(&mut self) {
        for _ in 0..100_000 {
            let Some(at) = self.fabric.poll_timeout() else { return };
            self.now = self.now.max(at);
            self.pass(Duration::ZERO);
        }
        panic!("timers never end");
    }
}
