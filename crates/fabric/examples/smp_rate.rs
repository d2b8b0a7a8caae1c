//! Measures the size limit and speed of a fabric: builds the largest three-level fat tree of 36-port switches,
//! discovers it by directed routes as a subnet manager does, then sends millions of SMPs. Rates are per second of
//! processor time.
//! `cargo run --profile dist -p weft-fabric --example smp_rate [HOSTS]`.
#![allow(clippy::disallowed_methods)]

use weft_fabric::topology::generate::{Plan, Shape};
use weft_fabric::{Fabric, MadAddress, MadOut, PortRef};
use weft_verbs::Instant;
use weft_wire::lrh::LID_PERMISSIVE;
use weft_wire::mad::subn::{NodeInfo, NodeType, Smp};
use weft_wire::mad::{AttrId, Method};

const SMPS: u64 = 4_000_000;

/// A subnet manager that only discovers.
struct Seer {
    fabric: Fabric,
    from: PortRef,
    tid: u64,
}

impl Seer {
    fn ask(
        &mut self,
        method: Method,
        attr: AttrId,
        modifier: u32,
        path: &[u8],
        data: Option<&[u8; 64]>,
    ) -> Option<Smp> {
        self.tid += 1;
        let mut smp = Smp::directed(method, self.tid, attr, modifier, 0, path)?;
        if let Some(data) = data {
            smp.data = *data;
        }
        let out = MadOut { to: MadAddress::smi(LID_PERMISSIVE), mad: smp.to_mad() };
        self.fabric.send(Instant(0), self.from, &out).ok()?;
        self.fabric.poll_delivery().map(|delivery| Smp::from_mad(delivery.mad))
    }

    /// Returns the path to every node, and whether it is a switch.
    fn discover(&mut self) -> Vec<(Vec<u8>, bool)> {
        let mut seen = std::collections::BTreeSet::new();
        let mut found: Vec<(Vec<u8>, bool)> = Vec::new();
        let mut ways = std::collections::VecDeque::from([vec![]]);
        while let Some(way) = ways.pop_front() {
            let Some(smp) = self.ask(Method::GET, AttrId::NODE_INFO, 0, &way, None) else { continue };
            let info: NodeInfo = smp.attribute().expect("64 bytes");
            if !seen.insert(info.node_guid) {
                continue;
            }
            let switch = info.node_type == NodeType::SWITCH;
            let ports = if switch { 1..=info.num_ports } else { self.from.port..=self.from.port };
            if switch || way.is_empty() {
                ways.extend(ports.map(|port| [&way[..], &[port]].concat()));
            }
            found.push((way, switch));
        }
        found
    }
}

fn resident_mib() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = statm.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0.0);
    pages * 4096.0 / (1 << 20) as f64
}

/// Processor time of this process in seconds; unlike elapsed time, it excludes other processes.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn main() {
    let hosts = std::env::args().nth(1).and_then(|word| word.parse().ok());
    let plan = Plan::new(Shape::FatTree { radix: 36, levels: 3, hosts, hosts_per_leaf: None });
    let topology = plan.generate().expect("a fat tree");
    let before = resident_mib();
    let clock = processor_seconds();
    let fabric = Fabric::new(&topology, 1);
    let built = processor_seconds() - clock;
    let first = (0..fabric.node_count()).find(|node| fabric.kind(*node) == Some(weft_fabric::topology::NodeKind::Ca));
    let from = PortRef::new(first.expect("a host"), 1);
    println!(
        "{}: {} nodes, built in {:.3} s, {:.1} MiB",
        topology.title,
        fabric.node_count(),
        built,
        resident_mib() - before
    );

    let mut seer = Seer { fabric, from, tid: 0 };
    let clock = processor_seconds();
    let ways = seer.discover();
    let took = processor_seconds() - clock;
    println!(
        "discovered {} nodes by {} SMPs: {:.0} a second of processor time",
        ways.len(),
        seer.tid,
        seer.tid as f64 / took
    );

    for (name, attr, method, switches) in [
        ("Get(NodeInfo)", AttrId::NODE_INFO, Method::GET, false),
        ("Get(PortInfo)", AttrId::PORT_INFO, Method::GET, false),
        ("Get(LinearForwardingTable)", AttrId::LINEAR_FORWARDING_TABLE, Method::GET, true),
        ("Set(LinearForwardingTable)", AttrId::LINEAR_FORWARDING_TABLE, Method::SET, true),
    ] {
        let ways: Vec<_> = ways.iter().filter(|(_, switch)| *switch || !switches).map(|(way, _)| way).collect();
        let (mut answered, mut random) = (0_u64, 1_u64);
        let data = [7; 64];
        let clock = processor_seconds();
        for _ in 0..SMPS {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let way = ways[(random >> 33) as usize % ways.len()];
            let modifier = if switches { (random >> 20) as u32 % 208 } else { 0 };
            answered += u64::from(seer.ask(method, attr, modifier, way, Some(&data)).is_some());
        }
        let took = processor_seconds() - clock;
        println!("{name}: {answered} of {SMPS} answered, {:.0} a second of processor time", answered as f64 / took);
    }
    println!("{:.1} MiB after that", resident_mib() - before);
}
