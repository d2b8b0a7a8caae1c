//! Routes generated fabrics with every engine and prints how good the tables are, in the form of the record of OpenSM's,
//! whose best line for the fabric stands above ours.
//!
//! `cargo run --release -p weft-sm --example routing_quality -- [fabric[,fabric]] [engine[,engine]]`

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use weft_fabric::topology::generate::Shape;
use weft_sm::graph::Graph;
use weft_sm::routing::{ENGINES, Engine, Request, RoutingOptions, quality};
use weft_sm::{Parallel, graph, routing};

#[path = "../src/testing.rs"]
#[allow(unused)]
mod testing;
#[path = "../src/routing/testing.rs"]
#[allow(unused)]
mod trees;

use trees::Tree;

/// As many threads as there are processors.
struct Threads(usize);

impl Parallel for Threads {
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..self.0.min(count) {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
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

/// A generated fabric.
fn of(shape: Shape) -> Graph {
    testing::generated(shape)
}

fn full(radix: u8) -> Graph {
    of(Shape::FatTree { radix, levels: 3, hosts: None, hosts_per_leaf: None })
}

/// A tree of two levels.
fn two(leaves: u32, spines: u32, hosts: u32) -> Graph {
    let (cables, up) = (hosts / spines, 0);
    Tree { pods: 1, leaves, spines, hosts, cables, up, cores: 0, side_by_side: false }.graph()
}

/// A tree of three levels, of so many pods with as many leaves and spines each as a leaf has hosts.
fn three(pods: u32, half: u32, cores: u32, side_by_side: bool) -> Graph {
    Tree { pods, leaves: half, spines: half, hosts: half, cables: 1, up: half, cores, side_by_side }.graph()
}

fn torus(sizes: &[u32], hosts_per_switch: u8) -> Graph {
    of(Shape::Torus { sizes: sizes.to_vec(), hosts_per_switch, wraps: true })
}

fn dragonfly(switches_per_group: u32, hosts_per_switch: u8, global_per_switch: u32) -> Graph {
    of(Shape::Dragonfly { switches_per_group, hosts_per_switch, global_per_switch, groups: None })
}

fn random(switches: u32, degree: u8, hosts_per_switch: u8) -> Graph {
    of(Shape::Random { switches, degree, hosts_per_switch, seed: 1 })
}

/// A fabric by name, and the best that OpenSM 3.3.23 had on its like: engine, maximum link load of all to all, mean of the
/// worst link of shifts, share of shifts without conflict in percent, lanes. With an x the GUIDs are shuffled.
type Fabric = (&'static str, fn() -> Graph, &'static str);

const FABRICS: &[Fabric] = &[
    ("ft64", || two(4, 2, 16), "ftree 48, 1.00, 100 %"),
    ("ft324", || two(18, 9, 18), "ftree 306, 1.00, 100 %"),
    ("ft648", || two(36, 18, 18), "ftree 630, 1.00, 100 %"),
    ("ft648x", || two(36, 18, 18), "ftree 630, 1.00, 100 %"),
    ("ft1728", || three(12, 12, 144, false), "ftree 1716, 1.00, 100 %"),
    ("ft1728x", || three(12, 12, 144, false), "ftree 1716, 1.40, 60 %"),
    ("ft1944", || three(6, 18, 54, false), "ftree 1926, 1.00, 100 %"),
    ("ft1944x", || three(6, 18, 54, false), "ftree 1926, 1.24, 76 %"),
    ("ft1944side", || three(6, 18, 54, true), "ftree 1926, 1.00, 100 %"),
    ("ft2048", || two(64, 32, 32), "ftree 2016, 1.00, 100 %"),
    ("ft5832", || three(18, 18, 162, false), "ftree 5814, 1.00, 100 %, in 1.51 s"),
    ("ft5832x", || three(18, 18, 162, true), "ftree 5814, 1.23, 78 %, in 1.51 s"),
    ("ft8192", || three(8, 32, 128, true), "ftree in 1.94 s"),
    ("ft11664", || full(36), "ftree in 9.27 s, minhop in 12.16 s, updn in 19.48 s"),
    ("ft39366", || full(54), "nothing recorded"),
    ("t444", || torus(&[4, 4, 4], 1), "torus-2QoS 48, 1.78, 22 %; lash 48 on 5 lanes"),
    ("t1616", || torus(&[16, 16], 1), "torus-2QoS 576, 5.65, 2 %; lash and dfsssp give up"),
    ("t888", || torus(&[8, 8, 8], 1), "torus-2QoS 640, 3.29, 4 %; lash and dfsssp give up"),
    ("t888h4", || torus(&[8, 8, 8], 4), "dor 10240, 12.77, 0 %, with credit loops"),
    ("df264", || dragonfly(4, 2, 2), "lash 88, 5.28, 1 % on 3 lanes"),
    ("df1056", || dragonfly(8, 4, 4), "lash 1472, 20.82 on 5 lanes; minhop 1960, 19.48, with credit loops"),
    ("rnd10", || random(10, 4, 2), "dfsssp 22, 2.74, 5 % on 8 lanes"),
    ("rnd64", || random(64, 6, 4), "nue 528, 9.55, 2 % on 8 lanes"),
];

fn main() {
    let mut words = std::env::args().skip(1);
    let wanted = words.next().unwrap_or_default();
    let engines = words.next().unwrap_or_default();
    let is_wanted =
        |list: &str, name: &str| list.is_empty() || list == "all" || list.split(',').any(|word| word == name);
    let threads = Threads(std::thread::available_parallelism().map_or(1, |count| count.get()));
    for (name, make, opensm) in FABRICS.iter().filter(|(name, ..)| is_wanted(&wanted, name)) {
        let graph = make();
        let order = (0..graph.ends.len() as u32).collect();
        let (graph, order) = if name.ends_with('x') { trees::shuffled(&graph, 7) } else { (graph, order) };
        println!("\n{name}: {} switches, {} ends. OpenSM: {opensm}", graph.switch_count(), graph.ends.len());
        println!("{} routing s |", quality::HEADING);
        let checks = quality::Checks { order, ..quality::Checks::default() };
        for engine in ENGINES.iter().filter(|engine| is_wanted(&engines, engine.name)) {
            measure(&graph, engine, &checks, &threads);
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a stopwatch for people, not part of the library")]
fn measure(graph: &Graph, engine: &Engine, checks: &quality::Checks, threads: &Threads) {
    let options = RoutingOptions { nue_max_num_vls: 8, ..RoutingOptions::default() };
    let began = Instant::now();
    let tables = match (engine.run)(&Request::new(graph, &options, threads)) {
        Ok(tables) => tables,
        Err(error) => return println!("| {error} |"),
    };
    let took = began.elapsed();
    let quality = quality::check(graph, &tables, checks, threads);
    println!("| {}:{} {:.3} |", engine.name, &quality.to_string()[1..], took.as_secs_f64());
    if quality.reach.broken > 0 {
        println!("| {} | {:?} |", engine.name, quality.reach);
    }
}
