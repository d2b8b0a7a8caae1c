//! Topologies by rule: fat trees, tori, dragonflies, and the small ones. A [`Shape`] says which and how large, a [`Plan`]
//! adds how fast the links are and how things are called; one file draws each shape.

mod cluster;
mod dragonfly;
mod fat_tree;
mod parse;
mod random;
mod torus;

pub use cluster::{ADAPTER_ID, SWITCH_ID, VENDOR_ID};
pub use parse::{Extra, KINDS};

use super::{Builder, Error, Result, Speed, Topology, Width};

/// A rule and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Two hosts, one cable.
    Pair,
    /// One switch with hosts.
    Star {
        /// How many hosts.
        hosts: u32,
    },
    /// A folded Clos network of switches with `radix` ports: half of them down, half of them up, all of them down at
    /// the top. 2 (radix/2)^levels hosts if nothing else is said.
    FatTree {
        /// Ports of a switch.
        radix: u8,
        /// Levels of switches.
        levels: u8,
        /// Hosts, filling leaf by leaf; switches that would lead to none are left out. `None`: as many as fit.
        hosts: Option<u32>,
        /// Hosts at a leaf; the rest of its ports go up. `None`: half.
        hosts_per_leaf: Option<u8>,
    },
    /// A grid of switches whose rows are rings.
    Torus {
        /// Switches along each dimension.
        sizes: Vec<u32>,
        /// Hosts at each switch.
        hosts_per_switch: u8,
        /// Whether rows are closed to rings; otherwise this is a mesh.
        wraps: bool,
    },
    /// Groups of switches, all cabled to all within a group, all groups cabled to all.
    Dragonfly {
        /// Switches of a group.
        switches_per_group: u32,
        /// Hosts at each switch.
        hosts_per_switch: u8,
        /// Cables from each switch to other groups.
        global_per_switch: u32,
        /// Groups; `None`: as many as there can be, one more than a group has global cables.
        groups: Option<u32>,
    },
    /// Switches that are cabled by lot, each to as many others.
    Random {
        /// How many.
        switches: u32,
        /// Cables from each to others.
        degree: u8,
        /// Hosts at each.
        hosts_per_switch: u8,
        /// The same seed gives the same network.
        seed: u64,
    },
}

/// A shape with everything that a network needs besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The rule.
    pub shape: Shape,
    /// Width of all links.
    pub width: Width,
    /// Speed of all links.
    pub speed: Speed,
    /// Put before the name of every node.
    pub prefix: String,
}

impl Plan {
    /// A plan with 4x NDR links.
    pub fn new(shape: Shape) -> Plan {
        Plan { shape, width: Width::X4, speed: Speed::Ndr, prefix: String::new() }
    }

    /// The network.
    pub fn generate(&self) -> Result<Topology> {
        let mut builder = Builder::new(self.shape.to_string());
        self.generate_into(&mut builder)?;
        Ok(builder.finish())
    }

    /// Adds the network to others.
    pub fn generate_into(&self, builder: &mut Builder) -> Result<()> {
        let mut cluster = cluster::Cluster::new(self, builder);
        match &self.shape {
            Shape::Pair => cluster.pair(),
            Shape::Star { hosts } => cluster.star(*hosts),
            Shape::FatTree { radix, levels, hosts, hosts_per_leaf } => {
                fat_tree::draw(&mut cluster, *radix, *levels, *hosts, *hosts_per_leaf)
            }
            Shape::Torus { sizes, hosts_per_switch, wraps } => {
                torus::draw(&mut cluster, sizes, *hosts_per_switch, *wraps)
            }
            Shape::Dragonfly { switches_per_group, hosts_per_switch, global_per_switch, groups } => {
                let (a, p, h) = (*switches_per_group, *hosts_per_switch, *global_per_switch);
                dragonfly::draw(&mut cluster, a, p, h, *groups)
            }
            Shape::Random { switches, degree, hosts_per_switch, seed } => {
                random::draw(&mut cluster, *switches, *degree, *hosts_per_switch, *seed)
            }
        }
    }
}

/// A parameter that cannot be.
fn refuse<T>(what: impl Into<String>, mend: impl Into<String>) -> Result<T> {
    Err(Error::of(what, mend))
}

#[cfg(test)]
mod tests;
