//! Balanced shortest-path trees: each destination's tree avoids links loaded by earlier trees. Then trees are removed
//! and grown again, one at a time, until no tree finds better paths.

use crate::graph::Graph;
use crate::routing::net::{Channel, NOWHERE, Net, Target, by_distance};
use crate::tables::{NO_PATH, Tables};

/// Maximum number of passes that grow all trees again...
const ROUNDS_MAX: usize = 8;
/// ... and an upper bound of the channels to examine in these passes.
const WORK_MAX: usize = 200_000_000;

/// The paths to one destination.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// Destination switch.
    pub switch: u32,
    /// Trees of the same rank are balanced against each other.
    pub rank: u8,
    /// Number of adapter ports that the tree leads to.
    pub paths: u32,
    /// Next hop of each switch, as an index among the switch's channels.
    pub ways: Vec<u8>,
}

impl Tree {
    /// Calls `tell` for every channel of the tree with the number of paths that cross it, and with the next channel, if
    /// there is one, as an index among the channels of the switch between.
    pub fn flow(&self, net: &Net, mut tell: impl FnMut(usize, Option<usize>, u32)) {
        if self.paths == 0 {
            return;
        }
        let parent = |at: usize| net.channel(at, self.ways[at]);
        let mut below: Vec<u32> = net.hung.iter().map(|hung| hung * self.paths).collect();
        let mut children = vec![0u32; net.switch_count()];
        for channel in (0..children.len()).filter_map(parent) {
            children[net.channels[channel].to as usize] += 1;
        }
        let mut leaves: Vec<usize> = (0..children.len()).filter(|at| children[*at] == 0).collect();
        while let Some(at) = leaves.pop() {
            let Some(channel) = parent(at) else { continue };
            let (paths, to) = (below[at], net.channels[channel].to as usize);
            below[to] += paths;
            children[to] -= 1;
            if children[to] == 0 {
                leaves.push(to);
            }
            tell(channel, (self.ways[to] != NOWHERE).then(|| usize::from(self.ways[to])), paths);
        }
    }
}

impl Net {
    /// Forwarding tables for trees, one tree for each target.
    pub fn tables<'t>(&self, engine: &'static str, graph: &Graph, trees: impl Iterator<Item = &'t Tree>) -> Tables {
        let mut tables = Tables::empty(engine, graph);
        for (target, tree) in self.targets.iter().zip(trees) {
            for (switch, lft) in tables.lfts.iter_mut().enumerate() {
                lft[usize::from(target.lid)] = match self.channel(switch, tree.ways[switch]) {
                    Some(channel) => self.channels[channel].port,
                    None if target.switch as usize == switch => target.port,
                    None => NO_PATH,
                };
            }
        }
        tables
    }
}

/// Whether a channel may be used on the way to a switch.
pub(super) type Allowed<'a> = &'a dyn Fn(&Channel, u32) -> bool;

/// A tree for every target of a net, in the same order, using allowed channels. A switch's own LIDs share the tree of
/// the first adapter port on it, so that they add no turns.
pub(super) fn by_target(net: &Net, far: &[Vec<u16>], allowed: Allowed<'_>) -> Vec<Tree> {
    by_target_and(net, far, allowed, |_| {})
}

/// Like [`by_target`], but `change` modifies the adapters' trees before switches get theirs. The adapters' trees come
/// first, in target order.
pub(super) fn by_target_and(
    net: &Net,
    far: &[Vec<u16>],
    allowed: Allowed<'_>,
    change: impl FnOnce(&mut [Tree]),
) -> Vec<Tree> {
    let mut seed: Vec<Tree> = Vec::with_capacity(net.targets.len());
    let mut of_switch: Vec<Option<usize>> = vec![None; net.switch_count()];
    for target in net.targets.iter().filter(|target| target.end) {
        of_switch[target.switch as usize].get_or_insert(seed.len());
        seed.push(Tree { switch: target.switch, rank: target.rank, paths: 1, ways: Vec::new() });
    }
    let bare: Vec<usize> = (0..net.switch_count()).filter(|switch| of_switch[*switch].is_none()).collect();
    for switch in bare {
        of_switch[switch] = Some(seed.len());
        seed.push(Tree { switch: switch as u32, rank: 0, paths: 0, ways: Vec::new() });
    }
    balance(net, far, &mut seed, allowed);
    change(&mut seed);
    let mut trees: Vec<Tree> = Vec::with_capacity(net.targets.len());
    for (at, target) in net.targets.iter().enumerate() {
        let like = if target.end { at } else { of_switch[target.switch as usize].unwrap_or(at) };
        trees.push(Tree { paths: u32::from(target.end), ..seed[like].clone() });
    }
    trees
}

/// The trees that tables form, one for every target of a net.
pub(super) fn by_tables(net: &Net, tables: &Tables) -> Vec<Tree> {
    let of = |target: &Target| {
        let place = |switch: usize| {
            let port = tables.port(switch as u32, target.lid)?;
            let is_it = |channel: usize| switch != target.switch as usize && net.channels[channel].port == port;
            net.of(switch).position(is_it).map(|place| place as u8)
        };
        let ways = (0..net.switch_count()).map(|switch| place(switch).unwrap_or(NOWHERE)).collect();
        Tree { switch: target.switch, rank: target.rank, paths: u32::from(target.end), ways }
    };
    net.targets.iter().map(of).collect()
}

/// A tree for every switch.
pub(super) fn by_switch(net: &Net, far: &[Vec<u16>]) -> Vec<Tree> {
    let tree = |switch: usize| Tree { switch: switch as u32, rank: 0, paths: net.hung[switch], ways: Vec::new() };
    let mut trees: Vec<Tree> = (0..net.switch_count()).map(tree).collect();
    balance(net, far, &mut trees, &|_, _| true);
    trees
}

/// Grows trees, then improves them in further passes.
fn balance(net: &Net, far: &[Vec<u16>], trees: &mut [Tree], allowed: Allowed<'_>) {
    let mut planter = Planter::new(net, allowed);
    for tree in &mut *trees {
        let far = &far[tree.switch as usize];
        tree.ways = planter.grow(far, tree);
        planter.weigh(far, tree, true);
    }
    let rounds = (WORK_MAX / (trees.len() * net.channels.len()).max(1)).min(ROUNDS_MAX);
    for _ in 0..rounds {
        let mut still = true;
        for tree in &mut *trees {
            let far = &far[tree.switch as usize];
            planter.weigh(far, tree, false);
            let ways = planter.grow(far, tree);
            still &= ways == tree.ways;
            tree.ways = ways;
            planter.weigh(far, tree, true);
        }
        if still {
            break;
        }
    }
}

/// Channel loads and scratch space for growing a tree.
struct Planter<'a> {
    net: &'a Net,
    allowed: Allowed<'a>,
    /// Number of paths on each channel, by rank and channel.
    loads: Vec<Vec<u32>>,
    cost: Vec<u64>,
    below: Vec<u32>,
    order: Vec<u32>,
}

impl<'a> Planter<'a> {
    fn new(net: &'a Net, allowed: Allowed<'a>) -> Planter<'a> {
        let switches = net.switch_count();
        let order = Vec::with_capacity(switches);
        Planter { net, allowed, loads: Vec::new(), cost: vec![0; switches], below: vec![0; switches], order }
    }

    /// Shortest paths with the least sum of squared link loads; ties go to the first.
    fn grow(&mut self, far: &[u16], tree: &Tree) -> Vec<u8> {
        let (net, target) = (self.net, tree.switch as usize);
        self.loads.resize_with(self.loads.len().max(usize::from(tree.rank) + 1), || vec![0; net.channels.len()]);
        let (loads, others) = ranked(&self.loads, tree.rank);
        let mut ways = vec![NOWHERE; far.len()];
        by_distance(far, &mut self.order);
        for at in self.order.iter().map(|at| *at as usize) {
            let mut best = if at == target { 0 } else { u64::MAX };
            for (place, channel) in net.of(at).enumerate() {
                let way = &net.channels[channel];
                let to = way.to as usize;
                if far[to] >= far[at] || far[to] + way.weight != far[at] || !(self.allowed)(way, tree.switch) {
                    continue;
                }
                let load = u64::from(loads[channel]) * u64::from(way.scale) / 256 + 1;
                let elsewhere = others.map_or(0, |others| u64::from(others[channel]));
                let cost = self.cost[to].saturating_add(load.saturating_mul(load)).saturating_add(elsewhere);
                if cost < best {
                    best = cost;
                    ways[at] = place as u8;
                }
            }
            self.cost[at] = best;
        }
        ways
    }

    /// Adds a tree's paths to the loads or removes them.
    fn weigh(&mut self, far: &[u16], tree: &Tree, add: bool) {
        if tree.paths == 0 {
            return;
        }
        by_distance(far, &mut self.order);
        for at in &self.order {
            self.below[*at as usize] = self.net.hung[*at as usize] * tree.paths;
        }
        let loads = &mut self.loads[usize::from(tree.rank)];
        for at in self.order.iter().rev().map(|at| *at as usize) {
            let Some(channel) = self.net.channel(at, tree.ways[at]) else { continue };
            let below = self.below[at];
            self.below[self.net.channels[channel].to as usize] += below;
            loads[channel] = if add { loads[channel] + below } else { loads[channel] - below };
        }
    }
}

/// The loads of a rank, and those of the previous rank, which its trees should avoid.
fn ranked(loads: &[Vec<u32>], rank: u8) -> (&[u32], Option<&[u32]>) {
    let rank = usize::from(rank);
    (&loads[rank], rank.checked_sub(1).map(|before| loads[before].as_slice()))
}
