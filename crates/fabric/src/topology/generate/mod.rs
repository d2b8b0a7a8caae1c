//! Generated topologies: fat trees, tori, dragonflies, and small ones. A [`Shape`] gives kind and size; a [`Plan`] adds
//! link speeds and names. Each shape has its own file.

mod cluster;
mod dragonfly;
mod fat_tree;
mod parse;
mod random;
mod torus;

pub use cluster::{ADAPTER_ID, SWITCH_ID, VENDOR_ID};
pub use parse::{Extra, KINDS};

use super::{Builder, Error, Result, Speed, Topology, Width};

/// A kind of network and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Two hosts, one cable.
    Pair,
    /// One switch with hosts.
    Star {
        /// Number of hosts.
        hosts: u32,
    },
    /// A folded Clos network of switches with `radix` ports: half of them down, half of them up; at the top, all of
    /// them down. It has 2 (radix/2)^levels hosts by default.
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
    /// Groups of switches: every two switches of a group are cabled, and so are every two groups.
    Dragonfly {
        /// Switches of a group.
        switches_per_group: u32,
        /// Hosts at each switch.
        hosts_per_switch: u8,
        /// Cables from each switch to other groups.
        global_per_switch: u32,
        /// Number of groups; `None`: the maximum, one more than a group has global cables.
        groups: Option<u32>,
    },
    /// Switches with random cables, each with the same number of them.
    Random {
        /// Number of switches.
        switches: u32,
        /// Cables from each to others.
        degree: u8,
        /// Hosts at each.
        hosts_per_switch: u8,
        /// The same seed gives the same network.
        seed: u64,
    },
}

/// A shape with the other properties of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The shape.
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

    /// Generates the network.
    pub fn generate(&self) -> Result<Topology> {
        let mut builder = Builder::new(self.shape.to_string());
        self.generate_into(&mut builder)?;
        Ok(builder.finish())
    }

    /// Adds the network to a builder.
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

/// Refuses a parameter.
fn refuse<T>(what: impl Into<String>, mend: impl Into<String>) -> Result<T> {
    Err(Error::of(what, mend))
}

#[cfg(test)]
mod tests;
