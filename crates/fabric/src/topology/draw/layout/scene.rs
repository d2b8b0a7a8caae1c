//! The layout of a drawing: items, frames and their sizes, and what all layouts ask of the fabric.

use super::super::neighbours;
use crate::topology::{NodeKind, Picture};

/// Largest width of a drawing, in units of the picture.
pub const WIDTH_MAX: f64 = 1600.0;
/// Size of a switch's box.
pub const BOX: (f64, f64) = (64.0, 22.0);
/// Distance between boxes in a row.
pub const STEP: f64 = BOX.0 + 12.0;
/// Radius of a host's dot.
pub const DOT: f64 = 5.0;
/// Largest number of hosts beside a switch that are drawn one by one.
const DOTS_MAX: usize = 6;

/// Appearance of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A box with a name.
    Box,
    /// A small square.
    Chip,
    /// A host's dot, with its slanted name below.
    NamedDot,
    /// A host's dot.
    Dot,
}

/// One node, or several drawn as one.
#[derive(Clone, Debug)]
pub struct Item {
    /// Indexes of the nodes.
    pub nodes: Vec<u32>,
    /// Center.
    pub x: f64,
    /// Center.
    pub y: f64,
    /// Appearance.
    pub look: Look,
}

/// A frame around items that belong together.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
    /// Name of the group.
    pub name: String,
}

/// Layout of a drawing. Coordinates may be negative: the painter moves them.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// The nodes, each in one item.
    pub items: Vec<Item>,
    /// Groups of them.
    pub frames: Vec<Frame>,
    /// Links longer than this are bent, so that they do not cross boxes between their ends.
    pub straight_max: Option<f64>,
}

impl Scene {
    /// Adds an item.
    pub fn add(&mut self, nodes: Vec<u32>, (x, y): (f64, f64), look: Look) {
        self.items.push(Item { nodes, x, y, look });
    }

    /// Adds the hosts at a switch below its box: dots, or one box for many.
    pub fn add_hosts(&mut self, hosts: Vec<u32>, (x, y): (f64, f64)) {
        let below = y + BOX.1 / 2.0 + 16.0;
        if hosts.len() > DOTS_MAX {
            self.add(hosts, (x, below + 4.0), Look::Box);
            return;
        }
        let first = x - (hosts.len() as f64 - 1.0) * DOT * 1.2;
        for (number, host) in hosts.into_iter().enumerate() {
            self.add(vec![host], (first + number as f64 * DOT * 2.4, below), Look::Dot);
        }
    }
}

/// Returns the indexes of all switches.
pub fn switches(picture: &Picture) -> Vec<u32> {
    let nodes = (0u32..).zip(&picture.topology.nodes);
    nodes.filter(|(_, node)| node.kind == NodeKind::Switch).map(|(place, _)| place).collect()
}

/// Returns the adapters and routers at each node, and the rest. A host at several switches counts to the first; one at
/// none is in the rest.
pub fn hung(picture: &Picture) -> (Vec<Vec<u32>>, Vec<u32>) {
    let nodes = &picture.topology.nodes;
    let (mut hung, mut loose) = (vec![Vec::new(); nodes.len()], Vec::new());
    for ((place, node), near) in (0u32..).zip(nodes).zip(neighbours(picture)) {
        if node.kind == NodeKind::Switch {
            continue;
        }
        let is_switch = |near: &&u32| nodes.get(**near as usize).is_some_and(|node| node.kind == NodeKind::Switch);
        match near.iter().find(is_switch) {
            Some(switch) => hung[*switch as usize].push(place),
            None => loose.push(place),
        }
    }
    (hung, loose)
}

/// Returns the pairs of switches that a cable connects, by index.
pub fn trunks(picture: &Picture) -> impl Iterator<Item = (u32, u32)> + '_ {
    let topology = &picture.topology;
    let is_switch = |end| topology.node(end).is_some_and(|node| node.kind == NodeKind::Switch);
    let cables = topology.cables.iter().filter(move |cable| is_switch(cable.a) && is_switch(cable.b));
    cables.map(|cable| (cable.a.node, cable.b.node))
}

/// Splits the indexes into parts of about equal size, `parts` at most.
pub fn folded(places: &[u32], parts: usize) -> Vec<Vec<u32>> {
    let size = places.len().div_ceil(parts.max(1)).max(1);
    places.chunks(size).map(<[u32]>::to_vec).collect()
}
