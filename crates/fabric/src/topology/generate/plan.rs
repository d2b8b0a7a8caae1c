//! The order to a generator: a [`Shape`] gives kind and size; a [`Plan`] adds link speeds and names.

use crate::topology::builder::DEFAULT_ADAPTER;
use crate::topology::{Error, Result, Speed, Width};

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
    /// Adapters of each host, 1 to [`RAILS_MAX`](crate::topology::limits::RAILS_MAX).
    pub rails: u8,
    /// Family of their names: `mlx4` for `mlx4_0`, `mlx4_1`.
    pub adapter: String,
}

impl Plan {
    /// A plan with 4x NDR links and one adapter for each host.
    pub fn new(shape: Shape) -> Plan {
        let adapter = DEFAULT_ADAPTER.to_owned();
        Plan { shape, width: Width::X4, speed: Speed::Ndr, prefix: String::new(), rails: 1, adapter }
    }
}

/// Refuses a parameter.
pub(super) fn refuse<T>(what: impl Into<String>, mend: impl Into<String>) -> Result<T> {
    Err(Error::of(what, mend))
}
