//! Trees that shift permutations share the links of well, where all shortest ways together do not bound them: in a shift
//! the ends of a group send to those of another, so that what all to all finds even may pile up. Trees are taken out and
//! grown again, one at a time, each source by what its own shift finds on a link, and no link gets much more of all to all
//! than it had.

use crate::graph::Graph;
use crate::routing::net::{NOWHERE, Net, by_distance};
use crate::routing::shift_loads::ShiftLoads;
use crate::routing::trees::Tree;

/// Trees are grown again at most so often...
const ROUNDS_MAX: usize = 12;
/// ... only while they get better, but for so many rounds ...
const IDLE_MAX: usize = 2;
/// ... and only so often that no more loads than this are looked at.
const WORK_MAX: usize = 1 << 30;
/// Of what the worst link carried of all to all, so many hundredths more may come.
const ROOM: u32 = 30;
/// What a link that has reached this counts beside one that is the worst of a shift...
const FULL: f64 = 4.0;
/// ... and what each path beyond it counts.
const BEYOND: f64 = 1e3;

/// Gives the trees of adapters' first LIDs ways that shifts share better; `order` is that of ends, by their places.
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

/// Loads, and the tree that is being made.
struct Sharer<'a> {
    net: &'a Net,
    loads: ShiftLoads<'a>,
    /// What no channel may carry of all shifts.
    cap: u32,
    /// By shift, what its loads count.
    weights: Vec<f64>,
    order: Vec<u32>,
}

impl Sharer<'_> {
    /// Adds a tree's paths to the loads, or takes them away.
    fn weigh(&mut self, far: &[u16], tree: &Tree, to: u32, add: bool) {
        (0..far.len()).for_each(|from| self.loads.weigh_from(from, &tree.ways, to, add));
    }

    /// Loads count by how near they come to the worst of their shift.
    fn emphasise(&mut self) {
        let worst = self.loads.worst_by_shift();
        self.weights = worst.into_iter().map(|worst| 1.0 / f64::from(worst.max(1))).collect();
    }

    /// The shortest ways on which each switch's own sources meet the least; their loads are added.
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

    /// What a switch's sources meet over a channel and on.
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
