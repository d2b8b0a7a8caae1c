//! Paths free of credit loops on any number of lanes, one included (Domke, Hoefler, Matsuoka: "Routing on the Dependency
//! Graph: A New Approach to Deadlock-Free High-Performance Routing"). If the balanced shortest paths of `dfsssp` fit the
//! lanes, they are taken. Otherwise each lane has its share of the destinations, and their trees grow along dependencies
//! that close no circle on it; where a tree gets stuck, it takes the ways of a spanning tree that every lane keeps free.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::tables::Tables;

use super::lanes::{Assigned, Dependencies, assign};
use super::net::{Channel, FAR, NOWHERE, Net};
use super::trees::{Tree, by_target};
use super::{Engine, Request, RouteError};

/// `nue`.
pub const ENGINE: Engine =
    Engine { name: "nue", about: "balanced ways free of credit loops on any number of lanes, one included", run };

fn run(request: &Request<'_>) -> Result<Tables, RouteError> {
    let net = Net::new(request.graph);
    let far = net.distances(request.parallel);
    let lanes_max = match request.options.nue_max_num_vls {
        0 => net.lanes_max(request),
        told => told.min(net.lanes_max(request)),
    };
    let shortest = by_target(&net, &far, &|_, _| true);
    let (trees, assigned) = match assign(&net, &far, &shortest, lanes_max) {
        Ok(assigned) => (shortest, assigned),
        Err(_) => Grower::new(&net, &far, usize::from(lanes_max)).grow(),
    };
    let mut tables = net.tables(ENGINE.name, request.graph, trees.iter());
    (tables.service_levels, tables.lanes) = assigned.levels(&net, request.graph);
    Ok(tables)
}

/// How often trees are set in again among the dependencies that there are; the best of these times counts.
const ROUNDS: usize = 3;
/// What a hop costs beside the square of its link's load, both in average loads.
const HOP_COST: u64 = 1;

struct Grower<'a> {
    net: &'a Net,
    far: &'a [Vec<u16>],
    on: Dependencies<'a>,
    lanes: usize,
    /// As dependencies are named: the lanes on which they would close a circle, now and ever after.
    refused: Vec<u16>,
    /// By lane, by channel: whether it belongs to the spanning tree.
    trunks: Vec<Vec<bool>>,
    loads: Vec<u32>,
    total: u64,
    /// What the tree that grows has added, and what it was refused.
    added: Vec<(usize, usize)>,
    denied: Vec<usize>,
}

impl<'a> Grower<'a> {
    fn new(net: &'a Net, far: &'a [Vec<u16>], lanes_max: usize) -> Grower<'a> {
        let lanes = lanes_max.min(net.switch_count()).max(1);
        let mut grower = Grower {
            net,
            far,
            on: Dependencies::new(net),
            lanes,
            refused: vec![0; net.channels.len() * net.degree],
            trunks: Vec::with_capacity(lanes),
            loads: vec![0; net.channels.len()],
            total: 0,
            added: Vec::new(),
            denied: Vec::new(),
        };
        for lane in 0..lanes {
            grower.on.open();
            grower.keep_trunk(lane);
        }
        grower
    }

    /// The lane of paths to a switch.
    fn lane_of(&self, switch: u32) -> usize {
        switch as usize * self.lanes / self.net.switch_count()
    }

    /// Sets aside the ways of a spanning tree, from the middle of what the lane leads to.
    fn keep_trunk(&mut self, lane: usize) {
        let switches = 0..self.net.switch_count();
        let away = |from: &usize| -> u64 {
            let of_lane = switches.clone().filter(|to| self.lane_of(*to as u32) == lane);
            of_lane.map(|to| u64::from(self.far[to][*from])).sum()
        };
        let mut trunk = vec![false; self.net.channels.len()];
        let mut reached = vec![false; self.net.switch_count()];
        // A fabric in several pieces has a tree in each.
        for root in switches.clone().min_by_key(away).into_iter().chain(switches) {
            let mut next = VecDeque::new();
            if !std::mem::replace(&mut reached[root], true) {
                next.push_back(root);
            }
            while let Some(at) = next.pop_front() {
                for channel in self.net.of(at) {
                    let way = self.net.channels[channel];
                    if !std::mem::replace(&mut reached[way.to as usize], true) {
                        (trunk[channel], trunk[way.back as usize]) = (true, true);
                        next.push_back(way.to as usize);
                    }
                }
            }
        }
        for channel in (0..trunk.len()).filter(|channel| trunk[*channel]) {
            let Channel { to, back, .. } = self.net.channels[channel];
            for after in self.net.of(to as usize).filter(|after| trunk[*after] && *after != back as usize) {
                self.on.add(lane, channel, after);
            }
        }
        self.trunks.push(trunk);
    }

    /// Every tree, and its lane.
    fn grow(mut self) -> (Vec<Tree>, Assigned) {
        let net = self.net;
        let mut trees: Vec<Tree> = Vec::with_capacity(net.targets.len());
        let mut stuck = vec![false; net.targets.len()];
        for (target, stuck) in net.targets.iter().zip(&mut stuck) {
            let (lane, to) = (self.lane_of(target.switch), target.switch as usize);
            let ways = self.search(lane, to, true);
            *stuck = ways.is_none();
            let ways = ways.unwrap_or_else(|| self.along_trunk(lane, to));
            trees.push(Tree { switch: target.switch, rank: target.rank, paths: u32::from(target.end), ways });
            self.weigh(&trees[trees.len() - 1], true);
        }
        let mut best = (self.loads.iter().max().copied(), trees.clone());
        for _ in 0..ROUNDS {
            for (tree, stuck) in trees.iter_mut().zip(&mut stuck) {
                self.weigh(tree, false);
                if let Some(ways) = self.search(self.lane_of(tree.switch), tree.switch as usize, *stuck) {
                    (tree.ways, *stuck) = (ways, false);
                }
                self.weigh(tree, true);
            }
            let worst = self.loads.iter().max().copied();
            if worst < best.0 {
                best = (worst, trees.clone());
            }
        }
        let lanes = best.1.iter().map(|tree| vec![self.lane_of(tree.switch) as u8; net.switch_count()]).collect();
        (best.1, Assigned { lanes, count: self.lanes as u8 })
    }

    /// The cheapest ways to a switch along dependencies of a lane; with more of them, if they close no circle. `None` if
    /// it gets stuck.
    fn search(&mut self, lane: usize, target: usize, open: bool) -> Option<Vec<u8>> {
        let net = self.net;
        let mut ways = vec![NOWHERE; net.switch_count()];
        let mut heap = BinaryHeap::new();
        let mean = self.total / self.loads.len().max(1) as u64 + 1;
        self.added.clear();
        self.denied.clear();
        self.reach(&mut heap, target, 0, mean);
        let mut left = self.far[target].iter().filter(|far| **far != FAR).count() - 1;
        while let Some(Reverse((cost, channel))) = heap.pop().filter(|_| left > 0) {
            let Channel { from, to, .. } = net.channels[channel];
            let (from, to) = (from as usize, to as usize);
            if from == target || ways[from] != NOWHERE {
                continue;
            }
            if net.channel(to, ways[to]).is_none_or(|next| self.allow(lane, channel, next, open)) {
                ways[from] = (channel - net.of(from).start) as u8;
                left -= 1;
                self.reach(&mut heap, from, cost, mean);
            }
        }
        if left > 0 {
            self.give_back(lane);
            return None;
        }
        Some(ways)
    }

    /// Offers the channels that lead to a switch.
    fn reach(&self, heap: &mut BinaryHeap<Reverse<(u64, usize)>>, at: usize, cost: u64, mean: u64) {
        for channel in self.net.of(at) {
            let back = self.net.channels[channel].back as usize;
            let way = &self.net.channels[back];
            let load = u64::from(self.loads[back]) * u64::from(way.scale) / 256;
            let own = mean * HOP_COST * u64::from(way.weight) + load.saturating_mul(load) / mean;
            heap.push(Reverse((cost.saturating_add(own), back)));
        }
    }

    /// Whether a tree may use a dependency.
    fn allow(&mut self, lane: usize, channel: usize, next: usize, open: bool) -> bool {
        if self.on.lanes_of(channel, next) & 1 << lane != 0 {
            return true;
        }
        let at = channel * self.net.degree + next - self.net.of(self.net.channels[channel].to as usize).start;
        if !open || self.refused[at] & 1 << lane != 0 {
            return false;
        }
        if self.on.add(lane, channel, next) {
            self.added.push((channel, next));
            return true;
        }
        self.refused[at] |= 1 << lane;
        self.denied.push(at);
        false
    }

    /// Takes back what a tree that got stuck has added, and what it was refused meanwhile.
    fn give_back(&mut self, lane: usize) {
        for (channel, next) in self.added.drain(..) {
            self.on.remove(lane, channel, next);
        }
        for at in self.denied.drain(..) {
            self.refused[at] &= !(1 << lane);
        }
    }

    /// The ways to a switch along the spanning tree.
    fn along_trunk(&self, lane: usize, target: usize) -> Vec<u8> {
        let mut ways = vec![NOWHERE; self.net.switch_count()];
        let mut next = vec![target];
        while let Some(at) = next.pop() {
            for channel in self.net.of(at).filter(|channel| self.trunks[lane][*channel]) {
                let Channel { to, back, .. } = self.net.channels[channel];
                let to = to as usize;
                if to != target && ways[to] == NOWHERE {
                    ways[to] = (back as usize - self.net.of(to).start) as u8;
                    next.push(to);
                }
            }
        }
        ways
    }

    /// Adds a tree's paths to the loads, or takes them away.
    fn weigh(&mut self, tree: &Tree, add: bool) {
        if tree.paths == 0 {
            return;
        }
        let net = self.net;
        let parent = |at: usize| net.channel(at, tree.ways[at]);
        let mut below: Vec<u32> = net.hung.iter().map(|hung| hung * tree.paths).collect();
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
            self.loads[channel] = if add { self.loads[channel] + paths } else { self.loads[channel] - paths };
            self.total = if add { self.total + u64::from(paths) } else { self.total - u64::from(paths) };
        }
    }
}
