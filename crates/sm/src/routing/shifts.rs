//! Balances trees for shift permutations when the balance of all shortest paths together does not suffice. In a shift
//! the end ports of one group send to those of another, so that paths which are even for all-to-all traffic may pile
//! up. Removes trees and grows them again, one at a time, routing each source by the loads of its own shift, while no
//! link gets much more all-to-all load than before.

use crate::graph::Graph;
use crate::routing::net::{NOWHERE, Net, by_distance};
use crate::routing::shift_loads::ShiftLoads;
use crate::routing::trees::Tree;

/// Maximum number of passes that grow all trees again...
const ROUNDS_MAX: usize = 12;
/// ... number of passes without improvement after which to stop...
const IDLE_MAX: usize = 2;
/// ... and an upper bound of the loads to examine in these passes.
const WORK_MAX: usize = 1 << 30;
/// Increase of the worst all-to-all load that is acceptable, in percent.
const ROOM: u32 = 30;
/// Cost of a link at its limit, relative to one that is the worst of a shift...
const FULL: f64 = 4.0;
/// ... and cost of each path beyond the limit.
const BEYOND: f64 = 1e3;

/// Improves the trees of adapters' first LIDs for shifts. `order` lists end ports by index in shift order.
pub(super) fn share(net: &Net, graph: &Graph, far: &[Vec<u16>], trees: &mut [Tree], order: &[u32]) {
    let Some(loads) = ShiftLoads::new(net, graph, order) else { return };
    let targets = loads.targets(graph, order, trees);
    let mut sharer = Sharer { net, weights: vec![1.0; order.len()], loads, cap: 0, order: Vec::new() };
    for (tree, place) in &targets {
        sharer.weigh(&far[trees[*tree].switch as usize], &trees[*tree], *place, true);
    }
    sharer.cap = sharer.loads.all.iter().copied().max().map_or(0, |worst| worst.saturating_mul(100 + ROOM) / 100);
    let mut best = (sharer.loads.worst(), trees.to_vec());
    let rounds = (WORK_MAX / (targets.len() * net.channels.len() * 4).max(1)).min(ROUNDS_MAX);
    let mut idle = 0;
    for _ in 0..rounds {
        if idle == IDLE_MAX {
            break;
        }
        sharer.emphasise();
        for (tree, place) in &targets {
            let tree = &mut trees[*tree];
            let far = &far[tree.switch as usize];
            sharer.weigh(far, tree, *place, false);
            tree.ways = sharer.grow(far, tree, *place);
        }
        let worst = sharer.loads.worst();
        idle = if worst < best.0 { 0 } else { idle + 1 };
        if worst < best.0 {
            best = (worst, trees.to_vec());
        }
    }
    trees.clone_from_slice(&best.1);
}

/// Channel loads and scratch space for growing a tree.
struct Sharer<'a> {
    net: &'a Net,
    loads: ShiftLoads<'a>,
    /// Limit on the all-to-all load of a channel.
    cap: u32,
    /// Weight of each shift's loads.
    weights: Vec<f64>,
    order: Vec<u32>,
}

impl Sharer<'_> {
    /// Adds a tree's paths to the loads or removes them.
    fn weigh(&mut self, far: &[u16], tree: &Tree, to: u32, add: bool) {
        (0..far.len()).for_each(|from| self.loads.weigh_from(from, &tree.ways, to, add));
    }

    /// Sets the weights so that a load counts relative to the worst one of its shift.
    fn emphasise(&mut self) {
        let worst = self.loads.worst_by_shift();
        self.weights = worst.into_iter().map(|worst| 1.0 / f64::from(worst.max(1))).collect();
    }

    /// Shortest paths on which each switch's own sources meet the least load; adds their loads.
    fn grow(&mut self, far: &[u16], tree: &Tree, to: u32) -> Vec<u8> {
        let net = self.net;
        let mut ways = vec![NOWHERE; far.len()];
        by_distance(far, &mut self.order);
        let order = std::mem::take(&mut self.order);
        for at in order.iter().map(|at| *at as usize).filter(|at| *at != tree.switch as usize) {
            let nearer = |channel: usize| {
                let way = net.channels[channel];
                far[way.to as usize] < far[at] && far[way.to as usize] + way.weight == far[at]
            };
            let places = net.of(at).enumerate().filter(|(_, channel)| nearer(*channel));
            let priced = places.map(|(place, channel)| (place, self.price(at, channel, &ways, to)));
            let best = priced.min_by(|(_, a), (_, b)| a.total_cmp(b));
            ways[at] = best.map_or(NOWHERE, |(place, _)| place as u8);
            self.loads.weigh_from(at, &ways, to, true);
        }
        self.order = order;
        ways
    }

    /// Cost for a switch's sources of a channel and the channels after it.
    fn price(&self, from: usize, channel: usize, ways: &[u8], to: u32) -> f64 {
        let sources = &self.loads.sources[from];
        let mut price = 0.0;
        let mut next = Some(channel);
        while let Some(channel) = next {
            let all = self.loads.all[channel] + sources.len() as u32;
            price += BEYOND * f64::from(all.saturating_sub(self.cap));
            price += FULL * (f64::from(all) / f64::from(self.cap.max(1))).powi(8);
            let row = self.loads.row(channel);
            for source in sources {
                let shift = self.loads.shift(*source, to);
                price += (f64::from(row[shift] + 1) * self.weights[shift]).powi(4);
            }
            let at = self.net.channels[channel].to as usize;
            next = self.net.channel(at, ways[at]);
        }
        price
    }
}
