//! Named topologies on which engines are measured.

use weft_fabric::topology::generate::Shape;

use crate::graph::Graph;
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

/// The topology with this name.
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
