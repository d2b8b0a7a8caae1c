//! The figures of engines, printed: `cargo test --release -p weft-sm figures -- --ignored --nocapture`, with `ENGINES` and
//! `TOPOLOGIES` in the environment naming some of them and `LANES` how many there are.

use std::time::Instant;

use weft_fabric::topology::generate::Shape;

use crate::graph::Graph;
use crate::parallel::Sequential;
use crate::routing::quality::{Checks, HEADING, check};
use crate::routing::{ENGINES, Request, RoutingOptions};
use crate::testing::generated;

type Made = fn() -> Graph;

/// Topologies by name.
pub const TOPOLOGIES: &[(&str, Made)] = &[
    ("ft324", || fat_tree(2, 324)),
    ("ft648", || fat_tree(2, 648)),
    ("ft1944", || fat_tree(3, 1944)),
    ("t444", || torus(&[4, 4, 4], 1)),
    ("t1616", || torus(&[16, 16], 1)),
    ("t888", || torus(&[8, 8, 8], 1)),
    ("t888h4", || torus(&[8, 8, 8], 4)),
    ("df264", || dragonfly(4, 2, 2)),
    ("df1056", || dragonfly(8, 4, 4)),
    ("rnd10", || random(10, 4, 2)),
    ("rnd64", || random(64, 6, 4)),
];

/// A topology by name.
pub fn topology(name: &str) -> Graph {
    TOPOLOGIES.iter().find(|(of, _)| *of == name).expect("a topology").1()
}

fn fat_tree(levels: u8, hosts: u32) -> Graph {
    generated(Shape::FatTree { radix: 36, levels, hosts: Some(hosts), hosts_per_leaf: None })
}

pub fn torus(sizes: &[u32], hosts_per_switch: u8) -> Graph {
    generated(Shape::Torus { sizes: sizes.to_vec(), hosts_per_switch, wraps: true })
}

fn dragonfly(switches_per_group: u32, hosts_per_switch: u8, global_per_switch: u32) -> Graph {
    generated(Shape::Dragonfly { switches_per_group, hosts_per_switch, global_per_switch, groups: None })
}

pub fn random(switches: u32, degree: u8, hosts_per_switch: u8) -> Graph {
    generated(Shape::Random { switches, degree, hosts_per_switch, seed: 1 })
}

#[test]
#[ignore = "prints, for people"]
#[allow(clippy::disallowed_methods, reason = "a stopwatch for people, not part of the library")]
fn figures() {
    let wanted = |variable: &str, name: &str| {
        std::env::var(variable).map_or(true, |names| names.split(',').any(|wanted| wanted == name))
    };
    let lanes = std::env::var("LANES").map_or(8, |lanes| lanes.parse().expect("a number"));
    let options = RoutingOptions { lanes_max: lanes, nue_max_num_vls: lanes, ..RoutingOptions::default() };
    println!("| topology {HEADING} seconds |");
    for (topology, graph) in TOPOLOGIES.iter().filter(|(name, _)| wanted("TOPOLOGIES", name)) {
        let graph = graph();
        let order = (0..graph.ends.len() as u32).collect();
        let checks = Checks { shifts: 200, order, ..Checks::default() };
        for engine in ENGINES.iter().filter(|engine| wanted("ENGINES", engine.name)) {
            let start = Instant::now();
            let tables = (engine.run)(&Request::new(&graph, &options, &Sequential));
            let seconds = start.elapsed().as_secs_f64();
            match tables {
                Ok(tables) => {
                    let quality = check(&graph, &tables, &checks, &Sequential);
                    let broken = quality.reach.broken;
                    println!("| {topology} {quality} {seconds:.3} | {broken}");
                }
                Err(error) => println!("| {topology} | {error}"),
            }
        }
    }
}
