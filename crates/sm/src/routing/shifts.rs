//! Trees that shift permutations share the links of well, where all shortest ways together do not bound them: in a shift
//! the ends of a group send to those of another, so that what all to all finds even may pile up. Trees are taken out and
//! grown again, one at a time, each source by what its own shift finds on a link, and no link gets much more of all to all
//! than it had.

use crate::graph::{Graph, Peer};
use crate::routing::net::{NOWHERE, Net, by_distance};
use crate::routing::trees::Tree;

/// Trees are grown again at most so often...
const ROUNDS_MAX: usize = 12;
/// ... only while they get better, but for so many rounds ...
const IDLE_MAX: usize = 2;
/// ... and only so often that no more loads than this are looked at.
const WORK_MAX: usize = 1 << 30;
/// Loads, of a link in a shift, that are worth their memory.
const LOADS_MAX: usize = 1 << 24;
/// Of what the worst link carried of all to all, so many hundredths more may come.
const ROOM: u32 = 30;
/// What a link that has reached this counts beside one that is the worst of a shift...
const FULL: f64 = 4.0;
/// ... and what each path beyond it counts.
const BEYOND: f64 = 1e3;

/// Gives the trees of adapters' first LIDs ways that shifts share better; `order` is that of ends, by their places.
pub(super) fn share(net: &Net, graph: &Graph, far: &[Vec<u16>], trees: &mut [Tree], order: &[u32]) {
    let count = order.len();
    let Some(loads) = count.checked_mul(net.channels.len()).filter(|loads| *loads <= LOADS_MAX && count > 1) else {
        return;
    };
    let mut sharer = Sharer::new(net, graph, order, loads);
    let targets: Vec<(usize, u32)> = sharer.targets(graph, order, trees);
    for (tree, place) in &targets {
        sharer.weigh(&far[trees[*tree].switch as usize], &trees[*tree], *place, true);
    }
    sharer.cap = sharer.all.iter().copied().max().map_or(0, |worst| worst.saturating_mul(100 + ROOM) / 100);
    let mut best = (sharer.worst(), trees.to_vec());
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
        let worst = sharer.worst();
        idle = if worst < best.0 { 0 } else { idle + 1 };
        if worst < best.0 {
            best = (worst, trees.to_vec());
        }
    }
    trees.clone_from_slice(&best.1);
}

/// Loads of channels in every shift, and the tree that is being made.
struct Sharer<'a> {
    net: &'a Net,
    /// Ends, and so shifts.
    count: u32,
    /// By switch, the places in order of the ends that hang on it.
    sources: Vec<Vec<u32>>,
    /// By channel, by shift: the paths that cross it.
    loads: Vec<u16>,
    /// By channel: the paths of all shifts.
    all: Vec<u32>,
    /// What no channel may carry of all shifts.
    cap: u32,
    /// By shift, what its loads count.
    weights: Vec<f64>,
    order: Vec<u32>,
}

impl<'a> Sharer<'a> {
    fn new(net: &'a Net, graph: &Graph, order: &[u32], loads: usize) -> Sharer<'a> {
        let mut sources = vec![Vec::new(); net.switch_count()];
        for (place, end) in (0u32..).zip(order) {
            sources[graph.ends[*end as usize].switch as usize].push(place);
        }
        Sharer {
            net,
            count: order.len() as u32,
            sources,
            loads: vec![0; loads],
            all: vec![0; net.channels.len()],
            cap: 0,
            weights: vec![1.0; order.len()],
            order: Vec::new(),
        }
    }

    /// The trees of first LIDs of ends, with the places of these in order.
    fn targets(&self, graph: &Graph, order: &[u32], trees: &[Tree]) -> Vec<(usize, u32)> {
        let mut places = vec![u32::MAX; graph.ends.len()];
        (0u32..).zip(order).for_each(|(place, end)| places[*end as usize] = place);
        let of = |(tree, target): (usize, &crate::routing::net::Target)| {
            let port = graph.switches[target.switch as usize].ports.get(usize::from(target.port))?;
            let Peer::End(end) = port.peer else { return None };
            (target.end && target.rank == 0).then_some((tree, places[end as usize]))
        };
        let trees = self.net.targets.iter().take(trees.len()).enumerate();
        trees.filter_map(of).filter(|(_, place)| *place != u32::MAX).collect()
    }

    /// The shift in which an end sends to another.
    fn shift(&self, from: u32, to: u32) -> usize {
        (if to >= from { to - from } else { to + self.count - from }) as usize
    }

    /// Adds a tree's paths to the loads, or takes them away.
    fn weigh(&mut self, far: &[u16], tree: &Tree, to: u32, add: bool) {
        (0..far.len()).for_each(|from| self.weigh_from(from, &tree.ways, to, add));
    }

    /// Adds the paths from a switch's ends, or takes them away.
    fn weigh_from(&mut self, from: usize, ways: &[u8], to: u32, add: bool) {
        let mut at = from;
        while let Some(channel) = self.net.channel(at, ways[at]) {
            for source in &self.sources[from] {
                let at = channel * self.count as usize + self.shift(*source, to);
                let load = &mut self.loads[at];
                *load = if add { *load + 1 } else { *load - 1 };
            }
            let paths = self.sources[from].len() as u32;
            self.all[channel] = if add { self.all[channel] + paths } else { self.all[channel] - paths };
            at = self.net.channels[channel].to as usize;
        }
    }

    /// What the worst links of all shifts carry, in sum.
    fn worst(&self) -> u64 {
        self.worst_by_shift().into_iter().map(u64::from).sum()
    }

    fn worst_by_shift(&self) -> Vec<u16> {
        let mut worst = vec![0u16; self.count as usize];
        for row in self.loads.chunks_exact(self.count as usize) {
            worst.iter_mut().zip(row).for_each(|(worst, load)| *worst = (*worst).max(*load));
        }
        worst
    }

    /// Loads count by how near they come to the worst of their shift.
    fn emphasise(&mut self) {
        let worst = self.worst_by_shift();
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
            self.weigh_from(at, &ways, to, true);
        }
        self.order = order;
        ways
    }

    /// What a switch's sources meet over a channel and on.
    fn price(&self, from: usize, channel: usize, ways: &[u8], to: u32) -> f64 {
        let sources = &self.sources[from];
        let mut price = 0.0;
        let mut next = Some(channel);
        while let Some(channel) = next {
            let all = self.all[channel] + sources.len() as u32;
            price += BEYOND * f64::from(all.saturating_sub(self.cap));
            price += FULL * (f64::from(all) / f64::from(self.cap.max(1))).powi(8);
            let row = &self.loads[channel * self.count as usize..][..self.count as usize];
            for source in sources {
                let shift = self.shift(*source, to);
                price += (f64::from(row[shift] + 1) * self.weights[shift]).powi(4);
            }
            let at = self.net.channels[channel].to as usize;
            next = self.net.channel(at, ways[at]);
        }
        price
    }
}
