//! Routes generated fabrics with every engine and prints how good the tables are, in the form of the record of OpenSM's,
//! whose best line for the fabric stands above ours.
//!
//! `cargo run --release -p weft-sm --example routing_quality -- [fabric[,fabric]] [engine[,engine]]`

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use weft_fabric::topology::generate::Shape;
use weft_sm::routing::{ENGINES, Request, RoutingOptions, engine, quality};
use weft_sm::{Parallel, graph};

#[path = "../src/testing.rs"]
#[allow(unused)]
mod testing;

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

fn tree(radix: u8, levels: u8, hosts: u32) -> Shape {
    Shape::FatTree { radix, levels, hosts: Some(hosts), hosts_per_leaf: None }
}

fn torus(sizes: &[u32], hosts_per_switch: u8) -> Shape {
    Shape::Torus { sizes: sizes.to_vec(), hosts_per_switch, wraps: true }
}

fn dragonfly(switches_per_group: u32, hosts_per_switch: u8, global_per_switch: u32) -> Shape {
    Shape::Dragonfly { switches_per_group, hosts_per_switch, global_per_switch, groups: None }
}

fn random(switches: u32, degree: u8, hosts_per_switch: u8) -> Shape {
    Shape::Random { switches, degree, hosts_per_switch, seed: 1 }
}

/// Fabrics by name, and the best that OpenSM 3.3.23 had on its like: engine, maximum link load of all to all, mean of
/// the worst link of shifts, share of shifts without conflict in percent, lanes, free of credit loops.
fn fabrics() -> Vec<(&'static str, Shape, &'static str)> {
    vec![
        (
            "ft64",
            Shape::FatTree { radix: 32, levels: 2, hosts: Some(64), hosts_per_leaf: None },
            "ftree 48, 1.00, 100 %, 1 VL",
        ),
        (
            "ft324",
            Shape::FatTree { radix: 36, levels: 2, hosts: Some(324), hosts_per_leaf: None },
            "ftree 306, 1.00, 100 %, 1 VL",
        ),
        ("ft648", tree(36, 2, 648), "ftree 630, 1.00, 100 %, 1 VL"),
        ("ft1728", tree(24, 3, 1728), "ftree 1716, 1.00, 100 % (60 % with GUIDs shuffled), 1 VL"),
        ("ft1944", tree(36, 3, 1944), "ftree 1926, 1.00, 100 % (76 % with GUIDs shuffled), 1 VL"),
        ("ft2048", tree(64, 2, 2048), "ftree 2016, 1.00, 100 %, 1 VL"),
        ("ft5832", tree(36, 3, 5832), "ftree 5814, 1.00, 100 % (78 % with GUIDs shuffled), 1 VL"),
        ("ft8192", tree(64, 3, 8192), "ftree, in 1.94 s"),
        ("ft11664", tree(36, 3, 11664), "ftree, in 9.27 s"),
        ("ft39366", tree(54, 3, 39366), "nothing recorded"),
        ("t444", torus(&[4, 4, 4], 1), "torus-2QoS 48, 1.78, 22 %, 2 SL; lash 48, 5 VL"),
        ("t888", torus(&[8, 8, 8], 1), "torus-2QoS 640, 3.29, 4 %, 2 SL"),
        ("t888h4", torus(&[8, 8, 8], 4), "dor 10240, 12.77, 0 %, with credit loops"),
        ("t1616", torus(&[16, 16], 1), "torus-2QoS 576, 5.65, 2 %, 2 SL"),
        (
            "df264",
            Shape::Dragonfly { switches_per_group: 4, hosts_per_switch: 2, global_per_switch: 2, groups: None },
            "lash 88, 5.28, 1 %, 3 VL",
        ),
        ("df1056", dragonfly(8, 4, 4), "lash 1472, 20.82, 5 VL; minhop 1960, 19.48, with credit loops"),
        ("rnd10", random(10, 4, 3), "dfsssp 22, 2.74, 5 %, 8 VL"),
        ("rnd64", random(64, 6, 4), "nue 528, 9.55, 2 %, 8 VL"),
    ]
}

fn main() {
    let mut words = std::env::args().skip(1);
    let wanted = words.next().unwrap_or_default();
    let engines = words.next().unwrap_or_default();
    let is_wanted =
        |list: &str, name: &str| list.is_empty() || list == "all" || list.split(',').any(|word| word == name);
    let threads = Threads(std::thread::available_parallelism().map_or(1, |count| count.get()));
    for (name, shape, opensm) in fabrics().into_iter().filter(|(name, ..)| is_wanted(&wanted, name)) {
        let graph = testing::generated(shape);
        println!("\n{name}: {} switches, {} ends. OpenSM: {opensm}", graph.switch_count(), graph.ends.len());
        println!("{} routing s |", quality::HEADING);
        for engine in ENGINES.iter().filter(|engine| is_wanted(&engines, engine.name)) {
            measure(&graph, engine.name, &threads);
        }
    }
}

fn measure(graph: &graph::Graph, name: &str, threads: &Threads) {
    let options = RoutingOptions::default();
    let Some(engine) = engine(name) else { return };
    let began = Instant::now();
    let tables = match (engine.run)(&Request::new(graph, &options, threads)) {
        Ok(tables) => tables,
        Err(error) => return println!("| {error} |"),
    };
    let took = began.elapsed();
    let began = Instant::now();
    let quality = quality::check(graph, &tables, &quality::Checks::default(), threads);
    println!("{quality} {:.3} |", took.as_secs_f64());
    if quality.reach.broken > 0 {
        println!("| {} | {:?} |", name, quality.reach);
    }
    eprintln!("  judged in {:.3} s", began.elapsed().as_secs_f64());
}
