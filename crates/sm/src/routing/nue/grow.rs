//! Growing of trees along the turns permitted on their VL: either up/down turns by ranks chosen for the VL, or any
//! turns that close no cycle with those of earlier trees.

use std::cmp::Reverse;

use crate::graph::Graph;
use crate::routing::lanes::{Assigned, Dependencies};
use crate::routing::moves::{Rules, improve};
use crate::routing::net::{Channel, NOWHERE, Net};
use crate::routing::trees::Tree;

use super::ranks::{demand, ranks};
use super::search::Loads;

/// Number of passes that grow all trees again, given the loads of all others; the best result counts.
const ROUNDS: usize = 2;

/// How turns are permitted on a VL.
#[derive(Clone, Copy, Default)]
pub(super) struct Style {
    /// Index of the ranks to use.
    pub ranks: usize,
    /// Whether trees may take any turn that closes no cycle; the ranks then only determine a spanning tree.
    pub open: bool,
}

/// Maximum number of switches for which to fix the path when a tree cannot reach them.
const MENDS_MAX: usize = 16;

/// VLs with their permitted turns, and trees along these.
pub(super) struct Grower<'a> {
    net: &'a Net,
    far: &'a [Vec<u16>],
    on: Dependencies<'a>,
    lanes: usize,
    open: bool,
    /// Channel up a spanning tree, by VL and switch, as an index among the switch's channels.
    trunks: Vec<Vec<u8>>,
    loads: Loads<'a>,
}

impl<'a> Grower<'a> {
    /// Creates VLs whose turns restrict the wanted trees as little as possible, with ranks of a given style.
    pub fn new(net: &'a Net, far: &'a [Vec<u16>], lanes_max: usize, wanted: &[Tree], style: Style) -> Grower<'a> {
        let lanes = lanes_max.min(net.switch_count()).max(1);
        let (on, loads) = (Dependencies::new(net), Loads::new(net));
        let mut grower = Grower { net, far, on, lanes, open: style.open, trunks: Vec::with_capacity(lanes), loads };
        for lane in 0..lanes {
            let demand = demand(net, wanted.iter().filter(|tree| grower.lane_of(tree.switch) == lane));
            let rank = ranks(net, &demand, style.ranks);
            grower.trunks.push(trunk(net, &rank));
            grower.permit(lane, &rank);
        }
        grower
    }

    /// Estimates the worst link load quickly: it grows trees again only once, and unless `exact` all paths to a switch
    /// share one tree.
    pub fn estimate(mut self, exact: bool) -> u32 {
        let hung = (0u32..).zip(&self.net.hung).filter(|(_, hung)| **hung > 0);
        let by_switch = hung.map(|(switch, hung)| Tree { switch, rank: 0, paths: *hung, ways: Vec::new() });
        let mut trees = if exact { self.unplanted() } else { by_switch.collect() };
        self.plant(&mut trees);
        let first = self.loads.worst();
        self.again(&mut trees);
        self.loads.worst().min(first)
    }

    /// A tree without paths for every LID of an adapter.
    fn unplanted(&self) -> Vec<Tree> {
        let ends = self.net.targets.iter().filter(|target| target.end);
        ends.map(|target| Tree { switch: target.switch, rank: target.rank, paths: 1, ways: Vec::new() }).collect()
    }

    /// Grows a tree for every target of the net, and returns their VLs.
    pub fn grow(mut self, graph: &Graph, order: &[u32]) -> (Vec<Tree>, Assigned) {
        let net = self.net;
        let mut trees = self.unplanted();
        self.plant(&mut trees);
        let mut best = (self.loads.worst(), trees.clone());
        for _ in 0..ROUNDS {
            self.again(&mut trees);
            let worst = self.loads.worst();
            if worst < best.0 {
                best = (worst, trees.clone());
            }
        }
        let mut trees = best.1;
        let turn =
            |target: u32, channel: usize, next: usize| self.on.lanes_of(channel, next) & 1 << self.lane_of(target) != 0;
        improve(net, graph, &mut trees, order, &Rules { hop: &|_, _| true, turn: &turn, room: 0, cap: None });
        self.add_switches(&mut trees);
        let lanes = trees.iter().map(|tree| vec![self.lane_of(tree.switch) as u8; net.switch_count()]).collect();
        (trees, Assigned { lanes, count: self.lanes as u8 })
    }

    /// Adds the trees of switches: copies of the tree of an adapter at the same switch, if there is one.
    fn add_switches(&mut self, trees: &mut Vec<Tree>) {
        let mut of_switch: Vec<Option<usize>> = vec![None; self.net.switch_count()];
        (0..).zip(&*trees).for_each(|(at, tree)| _ = of_switch[tree.switch as usize].get_or_insert(at));
        for target in self.net.targets.iter().filter(|target| !target.end) {
            let known = of_switch[target.switch as usize].map(|at| trees[at].ways.clone());
            let ways = known.unwrap_or_else(|| self.ways_to(target.switch));
            trees.push(Tree { switch: target.switch, rank: target.rank, paths: 0, ways });
        }
    }

    /// The VL of paths to a switch.
    fn lane_of(&self, switch: u32) -> usize {
        switch as usize * self.lanes / self.net.switch_count()
    }

    /// Permits turns on a VL, either all or those of its spanning tree, except turns from down to up. Any of those
    /// would close a cycle: up to the single top and down again to the start.
    fn permit(&mut self, lane: usize, rank: &[u32]) {
        let net = self.net;
        let is_up = |channel: usize| {
            let Channel { from, to, .. } = net.channels[channel];
            rank[from as usize] < rank[to as usize]
        };
        // Channels up before channels down, each nearer to the start of paths before those that follow.
        let mut order: Vec<u32> = (0..net.channels.len() as u32).collect();
        let switches = rank.len() as u32;
        order.sort_by_key(|channel| {
            let from = rank[net.channels[*channel as usize].from as usize];
            if is_up(*channel as usize) { from } else { 2 * switches - from }
        });
        let mut ranks = vec![0; order.len()];
        (0u32..).zip(&order).for_each(|(rank, channel)| ranks[*channel as usize] = rank);
        self.on.open_in(ranks);
        let up = &self.trunks[lane];
        let leads_up = |channel: usize| {
            net.channel(net.channels[channel].from as usize, up[net.channels[channel].from as usize]) == Some(channel)
        };
        let trunk: Vec<bool> = (0..net.channels.len())
            .map(|channel| leads_up(channel) || leads_up(net.channels[channel].back as usize))
            .collect();
        for channel in (0..net.channels.len()).filter(|channel| !self.open || trunk[*channel]) {
            let Channel { to, back, .. } = net.channels[channel];
            for next in net.of(to as usize).filter(|next| *next != back as usize && (!self.open || trunk[*next])) {
                if is_up(channel) || !is_up(next) {
                    self.on.add(lane, channel, next);
                }
            }
        }
    }

    /// Grows trees, one after another.
    fn plant(&mut self, trees: &mut [Tree]) {
        for tree in trees {
            tree.ways = self.ways_to(tree.switch);
            self.loads.weigh(tree, true);
        }
    }

    /// Removes trees and grows them again, one after another.
    fn again(&mut self, trees: &mut [Tree]) {
        for tree in trees {
            self.loads.weigh(tree, false);
            tree.ways = self.ways_to(tree.switch);
            self.loads.weigh(tree, true);
        }
    }

    /// The cheapest paths to a switch along the turns of its VL; along the spanning tree if a switch cannot be reached.
    fn ways_to(&mut self, target: u32) -> Vec<u8> {
        let lane = self.lane_of(target);
        let far = &self.far[target as usize];
        let (on, open) = (&mut self.on, self.open);
        let mut added = Vec::new();
        let allow = |channel, next| {
            let has = on.lanes_of(channel, next) & 1 << lane != 0;
            let is_new = !has && open && on.add(lane, channel, next);
            added.extend(is_new.then_some((channel, next)));
            has || is_new
        };
        let ways = self.loads.search(far, target as usize, if open { 0 } else { MENDS_MAX }, allow);
        if ways.is_none() {
            added.into_iter().for_each(|(channel, next)| self.on.remove(lane, channel, next));
        }
        ways.unwrap_or_else(|| self.along_trunk(lane, target as usize))
    }

    /// The paths to a switch along the spanning tree.
    fn along_trunk(&self, lane: usize, target: usize) -> Vec<u8> {
        let net = self.net;
        let mut ways = self.trunks[lane].clone();
        // Reverse the path from the target to the top.
        let (mut at, mut down) = (target, NOWHERE);
        loop {
            let up = std::mem::replace(&mut ways[at], down);
            let Some(channel) = net.channel(at, up) else { break };
            let Channel { to, back, .. } = net.channels[channel];
            at = to as usize;
            down = (back as usize - net.of(at).start) as u8;
        }
        ways
    }
}

/// Channel of each switch up a spanning tree, as near to the top as possible.
fn trunk(net: &Net, rank: &[u32]) -> Vec<u8> {
    let mut order: Vec<usize> = (0..rank.len()).collect();
    order.sort_by_key(|switch| Reverse(rank[*switch]));
    let mut depth = vec![0u32; rank.len()];
    let mut up = vec![NOWHERE; rank.len()];
    for at in order {
        let above = net.of(at).filter(|channel| rank[net.channels[*channel].to as usize] > rank[at]);
        let Some(channel) = above.min_by_key(|channel| depth[net.channels[*channel].to as usize]) else { continue };
        up[at] = (channel - net.of(at).start) as u8;
        depth[at] = depth[net.channels[channel].to as usize] + 1;
    }
    up
}
