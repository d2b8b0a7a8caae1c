//! Measures size and speed of the manager: brings up three-level fat trees in one process, cuts a cable, and prints
//! SMPs, processor time and memory. To show the fabric's own share, it repeats the same requests against the fabric
//! alone.
//! `cargo run --profile dist -p weft-sm --example bring_up [RADIX [HOSTS]]`.
#![allow(clippy::disallowed_methods)]

use std::time::Instant as Clock;

use weft_fabric::topology::NodeKind;
use weft_fabric::topology::generate::{Plan, Shape};
use weft_fabric::{Delivery, Fabric, MadAddress, MadOut, PortRef};
use weft_sm::Parallel;
use weft_sm::io::{Peer, SmpOut};
use weft_sm::manager::{Event, Manager, Setup};
use weft_verbs::Instant;
use weft_wire::mad::Method;

/// Runs work on as many threads as there are processors.
struct Threads(usize);

impl Parallel for Threads {
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        let next = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..self.0.min(count) {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        if at >= count {
                            return;
                        }
                        work(at);
                    }
                });
            }
        });
    }

    fn width(&self) -> usize {
        self.0
    }
}

fn resident_mib() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = statm.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0.0);
    pages * 4096.0 / f64::from(1 << 20)
}

/// Processor time of this process's first thread, in seconds.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// Cost of a run of the manager.
#[derive(Default)]
struct Took {
    smps: u64,
    routing: f64,
    asked: Vec<SmpOut>,
}

struct Run {
    fabric: Fabric,
    manager: Manager,
    at: PortRef,
    now: Instant,
    /// Keep the SMPs sent, to repeat them against the fabric alone.
    keep: bool,
}

impl Run {
    fn deliver(&mut self, delivery: &Delivery) {
        let peer = Peer { lid: delivery.slid, ..Peer::default() };
        self.manager.handle_smp(self.now, &peer, &delivery.mad);
    }

    /// Runs until nothing is pending.
    fn settle(&mut self) -> Took {
        let mut took = Took::default();
        let mut up = false;
        loop {
            let mut moved = false;
            while let Some(out) = self.manager.poll_smp() {
                moved = true;
                took.smps += 1;
                if self.keep {
                    took.asked.push(out);
                }
                let mad = MadOut { to: MadAddress::smi(out.dlid), mad: out.mad };
                self.fabric.send(self.now, self.at, &mad).expect("a way from the first host");
                let mut answered = false;
                while let Some(delivery) = self.fabric.poll_delivery() {
                    answered |= delivery.mad.header.method() == Method::GET_RESP;
                    self.deliver(&delivery);
                }
                if !answered && !out.timeout.is_zero() {
                    self.manager.handle_smp_timeout(self.now, &out.mad);
                }
            }
            while let Some(delivery) = self.fabric.poll_delivery() {
                moved = true;
                self.deliver(&delivery);
            }
            while let Some(job) = self.manager.poll_job() {
                let clock = Clock::now();
                let width = std::thread::available_parallelism().map_or(1, usize::from);
                let done = job.run(&Threads(width));
                took.routing += clock.elapsed().as_secs_f64();
                self.manager.handle_job(self.now, done);
                moved = true;
            }
            while let Some(event) = self.manager.poll_event() {
                match event {
                    Event::SubnetUp => up = true,
                    Event::Appeared { .. } | Event::SweepBegan { .. } | Event::Trap { .. } => {}
                    other => println!("    {other}"),
                }
            }
            if up || !moved {
                return took;
            }
        }
    }

    fn measured(&mut self, name: &str) {
        let (clock, processor) = (Clock::now(), processor_seconds());
        let took = self.settle();
        let (wall, processor) = (clock.elapsed().as_secs_f64(), processor_seconds() - processor);
        let fabric = self.fabric_alone(&took.asked);
        println!(
            "{name}: {} SMPs in {wall:.3} s, of which routing {:.3} s; processor {processor:.3} s without the routing's \
             threads, the fabric's part of it {fabric:.3} s; {:.1} MiB",
            took.smps,
            took.routing,
            resident_mib()
        );
    }

    /// Repeats these requests against the fabric alone.
    fn fabric_alone(&mut self, asked: &[SmpOut]) -> f64 {
        let clock = processor_seconds();
        for out in asked {
            let mad = MadOut { to: MadAddress::smi(out.dlid), mad: out.mad };
            let _ = self.fabric.send(self.now, self.at, &mad);
            while self.fabric.poll_delivery().is_some() {}
        }
        processor_seconds() - clock
    }
}

fn main() {
    let mut words = std::env::args().skip(1).filter_map(|word| word.parse::<u32>().ok());
    let radix = words.next().unwrap_or(36) as u8;
    let hosts = words.next();
    let plan = Plan::new(Shape::FatTree { radix, levels: 3, hosts, hosts_per_leaf: None });
    let topology = plan.generate().expect("a fat tree");
    let fabric = Fabric::new(&topology, 1);
    let places = |kind: NodeKind| (0..fabric.node_count()).filter(|node| fabric.kind(*node) == Some(kind)).collect();
    let (switches, hosts): (Vec<u32>, Vec<u32>) = (places(NodeKind::Switch), places(NodeKind::Ca));
    let (first, switch) = (hosts[0], switches[0]);
    let at = PortRef::new(first, 1);
    println!("{} hosts, {} switches; the fabric itself {:.1} MiB", hosts.len(), switches.len(), resident_mib());
    let guid = fabric.port_guid(at).expect("a port");
    let keep = std::env::var_os("KEEP").is_some();
    let manager = Manager::new(Instant(0), Setup { max_wire_smps: 1 << 10, ..Setup::new(guid) });
    let mut run = Run { fabric, manager, at, now: Instant(0), keep };
    run.measured("SUBNET UP");
    run.keep = false;
    run.measured("what follows");
    run.manager.sweep(false);
    run.measured("light sweep");
    run.manager.sweep(true);
    run.measured("heavy sweep");
    let uplink = run.fabric.port_count(switch);
    run.fabric.cut(run.now, PortRef::new(switch, uplink)).expect("a cable");
    run.measured("after a cut");
    run.measured("what follows");
}
