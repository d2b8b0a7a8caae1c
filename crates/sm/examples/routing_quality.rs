//! Routes generated fabrics with every engine and prints how good the tables are, in the same form as the record of
//! OpenSM's results, whose best figures for the fabric come first. With `compare` as the first word it puts the choice
//! of `auto`, and `nue` on one VL and on eight, beside OpenSM's best, and fails where Weft is worse.
//!
//! `cargo run --profile dist -p weft-sm --example routing_quality -- [compare] [fabric[,fabric]] [engine[,engine]]`

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use weft_fabric::topology::generate::Shape;
use weft_sm::graph::Graph;
use weft_sm::routing::{ENGINES, Engine, Request, RoutingOptions, quality};
use weft_sm::{Parallel, graph, routing};

#[path = "../src/routing/record.rs"]
mod record;
#[path = "../src/testing.rs"]
#[allow(unused)]
mod testing;
#[path = "../src/routing/testing.rs"]
#[allow(unused)]
mod trees;

use record::{BEST, Best, NUE};
use trees::Tree;

/// Runs work on as many threads as there are processors.
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

/// Generates a fabric.
fn of(shape: Shape) -> Graph {
    testing::generated(shape)
}

fn full(radix: u8) -> Graph {
    of(Shape::FatTree { radix, levels: 3, hosts: None, hosts_per_leaf: None })
}

/// Builds a two-level tree.
fn two(leaves: u32, spines: u32, hosts: u32) -> Graph {
    let (cables, up) = (hosts / spines, 0);
    Tree { pods: 1, leaves, spines, hosts, cables, up, cores: 0, side_by_side: false }.graph()
}

/// Builds a three-level tree of `pods` pods, each with `half` leaves and `half` spines; a leaf has `half` hosts.
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

/// A fabric by name. An x at the end of the name stands for random GUIDs.
type Fabric = (&'static str, fn() -> Graph);

const FABRICS: &[Fabric] = &[
    ("ft64", || two(4, 2, 16)),
    ("ft324", || two(18, 9, 18)),
    ("ft324x", || two(18, 9, 18)),
    ("ft648", || two(36, 18, 18)),
    ("ft648x", || two(36, 18, 18)),
    ("ft1728", || three(12, 12, 144, false)),
    ("ft1728x", || three(12, 12, 144, false)),
    ("ft1944", || three(6, 18, 54, false)),
    ("ft1944x", || three(6, 18, 54, false)),
    ("ft1944side", || three(6, 18, 54, true)),
    ("ft2048", || two(64, 32, 32)),
    ("ft2048x", || two(64, 32, 32)),
    ("ft5832", || three(18, 18, 162, false)),
    ("ft5832x", || three(18, 18, 162, true)),
    ("ft8192", || three(8, 32, 128, true)),
    ("ft11664", || full(36)),
    ("ft39366", || full(54)),
    ("t444", || torus(&[4, 4, 4], 1)),
    ("t1616", || torus(&[16, 16], 1)),
    ("t888", || torus(&[8, 8, 8], 1)),
    ("t888h4", || torus(&[8, 8, 8], 4)),
    ("df264", || dragonfly(4, 2, 2)),
    ("df1056", || dragonfly(8, 4, 4)),
    ("rnd10", || random(10, 4, 2)),
    ("rnd64", || random(64, 6, 4)),
];

/// Builds a fabric, and returns it with its ends in shift order.
fn made((name, make): &Fabric) -> (Graph, Vec<u32>) {
    let graph = make();
    let order = (0..graph.ends.len() as u32).collect();
    if name.ends_with('x') { trees::shuffled(&graph, 7) } else { (graph, order) }
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    let compared = words.next_if(|word| word == "compare").is_some();
    let wanted = words.next().unwrap_or_default();
    let engines = words.next().unwrap_or_default();
    let is_wanted =
        |list: &str, name: &str| list.is_empty() || list == "all" || list.split(',').any(|word| word == name);
    let threads = Threads(std::thread::available_parallelism().map_or(1, |count| count.get()));
    let fabrics: Vec<&Fabric> = FABRICS.iter().filter(|(name, _)| is_wanted(&wanted, name)).collect();
    if compared {
        return compare(&fabrics, &threads);
    }
    for fabric in fabrics {
        let (graph, order) = made(fabric);
        let best = BEST.iter().find(|best| best.fabric == fabric.0);
        let opensm = best.map_or("nothing recorded".to_owned(), |best| {
            let Best { all_to_all, shift, .. } = best;
            format!("{} ({}), {:.2} ({})", all_to_all.0, all_to_all.1, shift.0, shift.1)
        });
        println!("\n{}: {} switches, {} ends. OpenSM: {opensm}", fabric.0, graph.switch_count(), graph.ends.len());
        println!("{} routing s | after a cut s |", quality::HEADING);
        let checks = quality::Checks { order, ..quality::Checks::default() };
        for engine in ENGINES.iter().filter(|engine| is_wanted(&engines, engine.name)) {
            measure(&graph, engine, &checks, &threads);
        }
    }
    ExitCode::SUCCESS
}

/// Prints Weft's results beside OpenSM's best on each fabric that has a record.
#[allow(clippy::disallowed_methods, reason = "a stopwatch for people, not part of the library")]
fn compare(fabrics: &[&Fabric], threads: &Threads) -> ExitCode {
    println!(
        "| fabric | engine | a2a max | OpenSM's | shift worst link, mean | OpenSM's | hops | VLs | credit-loop free | \
         routing s | |"
    );
    let mut worse = 0;
    for fabric in fabrics {
        let (graph, order) = made(fabric);
        let checks = quality::Checks { order, ..quality::Checks::default() };
        let mut line = |name: &str, lanes: u8, (load, load_by): (u64, &str), (shift, shift_by): (f64, &str)| {
            let options = RoutingOptions { nue_max_num_vls: lanes, ..RoutingOptions::default() };
            let engine = routing::engine(name).expect("an engine");
            let began = Instant::now();
            let tables = (engine.run)(&Request::new(&graph, &options, threads)).expect("tables");
            let took = began.elapsed().as_secs_f64();
            let ours = quality::check(&graph, &tables, &checks, threads);
            let good = ours.is_sound() && ours.load.max <= load && ours.shift.worst_mean <= shift + 0.005;
            worse += usize::from(!good);
            let free = if ours.credit_loop.is_none() { "yes" } else { "NO" };
            println!(
                "| {} | {name}: {} | {} | {load} ({load_by}) | {:.2} | {shift:.2} ({shift_by}) | {:.2} | {} | {free} | {took:.3} | {} |",
                fabric.0,
                ours.engine,
                ours.load.max,
                ours.shift.worst_mean,
                ours.reach.hops_mean,
                ours.lanes,
                if good { "no worse" } else { "WORSE" }
            );
        };
        for best in BEST.iter().filter(|best| best.fabric == fabric.0) {
            line("auto", 8, best.all_to_all, best.shift);
        }
        for (_, lanes, load, shift) in NUE.iter().filter(|(of, ..)| *of == fabric.0) {
            let by = format!("nue, {lanes} lanes at most");
            line("nue", *lanes, (*load, &by), (*shift, &by));
        }
    }
    println!("{worse} worse");
    if worse == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
    let mut cut = graph.clone();
    let links = || (0u32..).zip(&graph.switches).flat_map(|(at, switch)| switch.links().map(move |link| (at, link)));
    if let Some((at, (port, peer, back))) = links().nth(links().count() / 2) {
        cut.switches[at as usize].ports[usize::from(port)].peer = graph::Peer::None;
        cut.switches[peer as usize].ports[usize::from(back)].peer = graph::Peer::None;
    }
    let previous = Some(routing::Previous { graph, tables: &tables });
    let began = Instant::now();
    let again = (engine.run)(&Request { previous, ..Request::new(&cut, &options, threads) }).is_ok();
    let after = if again { format!("{:.3}", began.elapsed().as_secs_f64()) } else { "refused".to_owned() };
    let quality = quality::check(graph, &tables, checks, threads);
    println!("| {}:{} {:.3} | {after} |", engine.name, &quality.to_string()[1..], took.as_secs_f64());
    if quality.reach.broken > 0 {
        println!("| {} | {:?} |", engine.name, quality.reach);
    }
}
