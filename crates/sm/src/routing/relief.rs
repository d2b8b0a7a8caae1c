//! Relief of the worst links for all-to-all traffic: switches of a tree move from one next hop to another at the same
//! distance, with everything behind them, as long as the sum of a high power of all loads falls. Growing whole trees by
//! the loads of other trees achieves less, because a tree does not see the load that its own branches add to a link.

use crate::routing::net::{NOWHERE, Net, by_distance};
use crate::routing::trees::Tree;

/// Successive exponents of the loads in the sum to minimize: the higher, the more the worst link counts.
const POWERS: &[i32] = &[4, 8, 16, 32];
/// Maximum number of passes over all trees for each exponent...
const ROUNDS_MAX: usize = 6;
/// ... and an upper bound of the channels to examine for all exponents together.
const WORK_MAX: usize = 60_000_000;
/// Changes of the sum up to this count as none.
const LEAST: f64 = 1e-12;

/// Moves switches in trees of shortest paths to minimize the load of the worst link, and returns that load. Only
/// changes trees of rank 0.
pub(super) fn relieve(net: &Net, far: &[Vec<u16>], trees: &mut [Tree]) -> u32 {
    let of_rank = |tree: &&mut Tree| tree.rank == 0 && tree.paths > 0;
    let count = trees.iter_mut().filter(of_rank).count();
    let mut left = WORK_MAX / (count * net.channels.len()).max(1);
    let mut reliever = Reliever::new(net);
    trees.iter_mut().filter(of_rank).for_each(|tree| reliever.add(tree));
    let mut best = (reliever.worst(), trees.to_vec());
    for power in POWERS {
        reliever.power = *power;
        for _ in 0..ROUNDS_MAX.min(left) {
            left -= 1;
            reliever.top = reliever.worst().0.max(1) as f64;
            let mut moved = false;
            for tree in trees.iter_mut().filter(of_rank) {
                moved |= reliever.move_in(&far[tree.switch as usize], tree);
            }
            if !moved {
                break;
            }
            let worst = reliever.worst();
            if worst < best.0 {
                best = (worst, trees.to_vec());
            }
        }
    }
    trees.clone_from_slice(&best.1);
    best.0.0.try_into().unwrap_or(u32::MAX)
}

/// Loads, and scratch space for moving the switches of a tree.
struct Reliever<'a> {
    net: &'a Net,
    /// Number of paths on each channel.
    loads: Vec<u64>,
    /// Load that counts as one.
    top: f64,
    power: i32,
    /// Switches, the nearest to the tree's target first.
    order: Vec<u32>,
    /// Number of paths of the tree through each switch.
    below: Vec<u32>,
    /// Channels of the path before and after a move.
    old: Vec<usize>,
    new: Vec<usize>,
}

impl<'a> Reliever<'a> {
    fn new(net: &'a Net) -> Reliever<'a> {
        let loads = vec![0; net.channels.len()];
        Reliever { net, loads, top: 1.0, power: 1, order: vec![], below: vec![], old: vec![], new: vec![] }
    }

    /// Adds a tree's paths.
    fn add(&mut self, tree: &Tree) {
        let (net, loads) = (self.net, &mut self.loads);
        tree.flow(net, |channel, _, paths| loads[channel] += u64::from(paths));
    }

    /// The worst load and the sum of squared loads.
    fn worst(&self) -> (u64, u128) {
        let squares = self.loads.iter().map(|load| u128::from(*load) * u128::from(*load)).sum();
        (self.loads.iter().copied().max().unwrap_or(0), squares)
    }

    /// Moves every switch of a tree that has a better next hop, the nearest to the target first. Returns whether any
    /// moved.
    fn move_in(&mut self, far: &[u16], tree: &mut Tree) -> bool {
        let net = self.net;
        by_distance(far, &mut self.order);
        let order = std::mem::take(&mut self.order);
        self.below.clear();
        self.below.extend(net.hung.iter().map(|hung| hung * tree.paths));
        for at in order.iter().rev().map(|at| *at as usize) {
            if let Some(channel) = net.channel(at, tree.ways[at]) {
                self.below[net.channels[channel].to as usize] += self.below[at];
            }
        }
        let mut moved = false;
        let target = tree.switch as usize;
        for at in order.iter().map(|at| *at as usize).filter(|at| *at != target) {
            if self.below[at] == 0 {
                continue;
            }
            let Some(now) = net.channel(at, tree.ways[at]) else { continue };
            let Some(place) = self.better(at, now, far, tree) else { continue };
            self.shift(at, now, place, tree);
            moved = true;
        }
        self.order = order;
        moved
    }

    /// Index of a better next-hop channel for a switch, if there is one.
    fn better(&mut self, at: usize, now: usize, far: &[u16], tree: &Tree) -> Option<u8> {
        let net = self.net;
        let flow = self.below[at];
        let mut best = (-LEAST, None);
        trace(net, now, &tree.ways, &mut self.old);
        for (place, channel) in (0u8..).zip(net.of(at)).filter(|(_, channel)| *channel != now) {
            let way = &net.channels[channel];
            let to = way.to as usize;
            let is_open = far[to] < far[at] && far[to] + way.weight == far[at];
            if !is_open || (to != tree.switch as usize && tree.ways[to] == NOWHERE) {
                continue;
            }
            trace(net, channel, &tree.ways, &mut self.new);
            let same = self.old.iter().rev().zip(self.new.iter().rev()).take_while(|(a, b)| a == b).count();
            let (old, new) = (&self.old[..self.old.len() - same], &self.new[..self.new.len() - same]);
            let less: f64 = old.iter().map(|channel| self.price(*channel, flow, false)).sum();
            let more: f64 = new.iter().map(|channel| self.price(*channel, flow, true)).sum();
            if more - less < best.0 {
                best = (more - less, Some(place));
            }
        }
        best.1
    }

    /// Change of the sum if a channel gains or loses `flow` paths.
    fn price(&self, channel: usize, flow: u32, more: bool) -> f64 {
        let flow = u64::from(flow);
        let load = self.loads[channel];
        let (low, high) = if more { (load, load + flow) } else { (load - flow, load) };
        (high as f64 / self.top).powi(self.power) - (low as f64 / self.top).powi(self.power)
    }

    /// Changes the next hop of a switch.
    fn shift(&mut self, at: usize, now: usize, place: u8, tree: &mut Tree) {
        let net = self.net;
        let flow = self.below[at];
        trace(net, now, &tree.ways, &mut self.old);
        for channel in &self.old {
            self.loads[*channel] -= u64::from(flow);
            self.below[net.channels[*channel].to as usize] -= flow;
        }
        tree.ways[at] = place;
        trace(net, net.of(at).start + usize::from(place), &tree.ways, &mut self.new);
        for channel in &self.new {
            self.loads[*channel] += u64::from(flow);
            self.below[net.channels[*channel].to as usize] += flow;
        }
    }
}

/// Records the path that starts with a channel.
fn trace(net: &Net, first: usize, ways: &[u8], path: &mut Vec<usize>) {
    path.clear();
    let mut next = Some(first);
    while let Some(channel) = next {
        path.push(channel);
        let to = net.channels[channel].to as usize;
        next = net.channel(to, ways[to]);
    }
}
