//! Local search for shift permutations: moves switches within a tree, with everything behind them, as long as that
//! lowers the worst link loads of shifts and respects the permitted hops and turns.

use std::ops::Range;

use crate::graph::Graph;
use crate::routing::net::{NOWHERE, Net};
use crate::routing::shift_loads::ShiftLoads;
use crate::routing::trees::Tree;

/// Maximum number of passes over all trees...
const ROUNDS_MAX: usize = 4;
/// ... and an upper bound of the loads to examine in these passes.
const WORK_MAX: usize = 1 << 28;
/// Cost of each path beyond a link's limit on all-to-all load.
const BEYOND: f64 = 1e3;
/// Cost of a hop for each path. The unit is the cost of the first path on a link that is the worst of its shift with a
/// load of one.
const HOP: f64 = 0.1;

/// Constraints on trees.
pub(super) struct Rules<'a> {
    /// Whether a path to a switch may use a channel.
    pub hop: &'a dyn Fn(u32, usize) -> bool,
    /// Whether, on the way to a switch, the second channel may follow the first.
    pub turn: &'a dyn Fn(u32, usize, usize) -> bool,
    /// Increase of the worst all-to-all load that is acceptable, in percent.
    pub room: u32,
    /// Limit on the all-to-all load of a link: links beyond it give paths away. Overrides `room`.
    pub cap: Option<u32>,
}

/// Quality figures of trees.
pub(super) struct Figures {
    /// All-to-all load of the worst link.
    pub all: f64,
    /// Mean over all shifts of the worst link's load.
    pub shift: f64,
}

/// Improves the trees of adapters' first LIDs. `order` lists end ports by index in shift order. Returns `None` and
/// changes nothing if the fabric is too large.
pub(super) fn improve(
    net: &Net,
    graph: &Graph,
    trees: &mut [Tree],
    order: &[u32],
    rules: &Rules<'_>,
) -> Option<Figures> {
    let count = order.len();
    let loads = ShiftLoads::new(net, graph, order)?;
    let mut hops = 0usize;
    trees.iter().for_each(|tree| tree.flow(net, |_, _, paths| hops += paths as usize));
    // Every switch of every tree tries all its channels, with the paths behind it, for all remaining hops.
    let work = (hops / count).saturating_mul(hops / count).saturating_mul(net.degree).max(1);
    let rounds = (WORK_MAX / work).min(ROUNDS_MAX);
    if rounds == 0 {
        return None;
    }
    let targets = loads.targets(graph, order, trees);
    let mut mover = Mover::new(net, loads);
    for (tree, place) in &targets {
        (0..net.switch_count()).for_each(|from| mover.loads.weigh_from(from, &trees[*tree].ways, *place, true));
    }
    let worst = mover.loads.all.iter().max().copied().unwrap_or(0);
    let room = (u64::from(worst) * u64::from(100 + rules.room) / 100).min(u64::from(u32::MAX)) as u32;
    (mover.cap, mover.relieves) = (rules.cap.unwrap_or(room), rules.cap.is_some());
    let mut best = (mover.rating(worst), worst, trees.to_vec());
    for _ in 0..rounds {
        mover.emphasise();
        let mut still = true;
        for (tree, place) in &targets {
            still &= !mover.move_in(&mut trees[*tree], *place, rules);
        }
        let worst = mover.loads.all.iter().max().copied().unwrap_or(0);
        let rating = mover.rating(worst);
        if rating < best.0 {
            best = (rating, worst, trees.to_vec());
        }
        if still {
            break;
        }
    }
    let ((_, shift), all, found) = best;
    trees.clone_from_slice(&found);
    Some(Figures { all: f64::from(all), shift: shift as f64 / count as f64 })
}

struct Mover<'a> {
    net: &'a Net,
    loads: ShiftLoads<'a>,
    /// Limit on the all-to-all load of a channel.
    cap: u32,
    /// Whether channels beyond the limit give paths away; otherwise they only accept none.
    relieves: bool,
    /// Weight of each shift's loads.
    weights: Vec<f32>,
    /// Shifts of the paths that a move takes along, as a list and as ranges.
    shifts: Vec<u32>,
    runs: Vec<Range<usize>>,
    old: Vec<usize>,
    new: Vec<usize>,
}

impl<'a> Mover<'a> {
    fn new(net: &'a Net, loads: ShiftLoads<'a>) -> Mover<'a> {
        Mover {
            net,
            cap: 0,
            relieves: false,
            weights: vec![1.0; loads.count as usize],
            loads,
            shifts: Vec::new(),
            runs: Vec::new(),
            old: Vec::new(),
            new: Vec::new(),
        }
    }

    /// Cost of the trees: first the load beyond the cap if channels must be relieved of it, then the shifts.
    fn rating(&self, worst: u32) -> (u32, u64) {
        (if self.relieves { worst.saturating_sub(self.cap) } else { 0 }, self.loads.worst())
    }

    /// Sets the weights so that a load counts relative to the worst one of its shift.
    fn emphasise(&mut self) {
        let worst = self.loads.worst_by_shift();
        self.weights = worst.into_iter().map(|worst| 1.0 / f32::from(worst.max(1))).collect();
    }

    /// Moves every switch of a tree that has a better next hop. Returns whether any moved.
    fn move_in(&mut self, tree: &mut Tree, to: u32, rules: &Rules<'_>) -> bool {
        let net = self.net;
        let mut children: Vec<Vec<u32>> = vec![Vec::new(); net.switch_count()];
        for (at, place) in tree.ways.iter().enumerate() {
            if let Some(channel) = net.channel(at, *place) {
                children[net.channels[channel].to as usize].push(at as u32);
            }
        }
        let mut order = vec![tree.switch];
        let mut done = 0;
        while done < order.len() {
            order.extend_from_slice(&children[order[done] as usize]);
            done += 1;
        }
        let mut moved = false;
        for at in order.into_iter().skip(1).map(|at| at as usize) {
            self.gather(at, &children, to);
            if self.shifts.is_empty() {
                continue;
            }
            let Some(now) = net.channel(at, tree.ways[at]) else { continue };
            let Some(place) = self.better(at, now, tree, &children[at], rules) else { continue };
            self.trace(at, now, &tree.ways, false);
            self.shift_loads(false);
            tree.ways[at] = place;
            let new = net.of(at).start + usize::from(place);
            self.trace(at, new, &tree.ways, true);
            self.shift_loads(true);
            children[net.channels[now].to as usize].retain(|child| *child as usize != at);
            children[net.channels[new].to as usize].push(at as u32);
            moved = true;
        }
        moved
    }

    /// Collects the shifts of all paths to an end port that pass a switch.
    fn gather(&mut self, at: usize, children: &[Vec<u32>], to: u32) {
        self.shifts.clear();
        let mut next = vec![at as u32];
        while let Some(at) = next.pop() {
            for source in &self.loads.sources[at as usize] {
                self.shifts.push(self.loads.shift(*source, to) as u32);
            }
            next.extend_from_slice(&children[at as usize]);
        }
        self.shifts.sort_unstable();
        self.runs.clear();
        for shift in self.shifts.iter().map(|shift| *shift as usize) {
            match self.runs.last_mut() {
                Some(run) if run.end == shift => run.end += 1,
                _ => self.runs.push(shift..shift + 1),
            }
        }
    }

    /// Records the channels from a switch to the target. Returns false if they form a loop.
    fn trace(&mut self, at: usize, first: usize, ways: &[u8], new: bool) -> bool {
        let net = self.net;
        let path = if new { &mut self.new } else { &mut self.old };
        path.clear();
        let mut next = Some(first);
        while let Some(channel) = next {
            path.push(channel);
            let to = net.channels[channel].to as usize;
            if to == at {
                return false;
            }
            next = net.channel(to, ways[to]);
        }
        true
    }

    /// Adds the moved paths to the recorded channels or removes them.
    fn shift_loads(&mut self, new: bool) {
        for channel in if new { &self.new } else { &self.old } {
            self.loads.weigh_channel(*channel, &self.shifts, new);
        }
    }

    /// Index of a better next-hop channel for a switch, if there is one.
    fn better(&mut self, at: usize, now: usize, tree: &Tree, children: &[u32], rules: &Rules<'_>) -> Option<u8> {
        let net = self.net;
        let (target, ways) = (tree.switch, &tree.ways);
        let follows = |channel: usize, next: Option<usize>| next.is_none_or(|next| (rules.turn)(target, channel, next));
        let mut best = (-1e-6, None);
        self.trace(at, now, ways, false);
        for (place, channel) in (0u8..).zip(net.of(at)).filter(|(_, channel)| *channel != now) {
            let to = net.channels[channel].to as usize;
            let is_open = (to == target as usize || ways[to] != NOWHERE)
                && (rules.hop)(target, channel)
                && follows(channel, net.channel(to, ways[to]))
                && children.iter().all(|child| {
                    let child = *child as usize;
                    net.channel(child, ways[child]).is_some_and(|before| follows(before, Some(channel)))
                });
            if !is_open || !self.trace(at, channel, ways, true) {
                continue;
            }
            let same = self.old.iter().rev().zip(self.new.iter().rev()).take_while(|(a, b)| a == b).count();
            let (old, new) = (self.old.len() - same, self.new.len() - same);
            let gain: f64 = self.old[..old].iter().map(|channel| self.price(*channel, false)).sum();
            let mut change = -gain;
            for channel in &self.new[..new] {
                change += self.price(*channel, true);
                if change >= best.0 {
                    break;
                }
            }
            if change < best.0 {
                best = (change, Some(place));
            }
        }
        best.1
    }

    /// Cost of adding the moved paths to a channel, or saving from removing them.
    fn price(&self, channel: usize, new: bool) -> f64 {
        let row = self.loads.row(channel);
        let less = u16::from(!new);
        let mut price = 0.0f32;
        for run in &self.runs {
            for (load, weight) in row[run.clone()].iter().zip(&self.weights[run.clone()]) {
                let load = f32::from(load - less) * weight;
                let (low, high) = (load * load, (load + weight) * (load + weight));
                price += high * high * high - low * low * low;
            }
        }
        let paths = self.shifts.len() as u32;
        let all = if new { self.loads.all[channel] } else { self.loads.all[channel] - paths };
        let from = if self.relieves { self.cap } else { self.cap.max(all) };
        let beyond = (all + paths).saturating_sub(from) - all.saturating_sub(from);
        f64::from(price) + HOP * f64::from(paths) + BEYOND * f64::from(beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::Sequential;
    use crate::routing::figures::{random, topology};
    use crate::routing::trees::by_target;

    #[test]
    fn shifts_meet_less_and_hops_stay_as_they_are_allowed() {
        for graph in [topology("rnd64"), random(24, 4, 2)] {
            let net = Net::new(&graph);
            let far = net.distances(&Sequential);
            let order: Vec<u32> = (0..graph.ends.len() as u32).collect();
            let shortest = by_target(&net, &far, &|_, _| true);
            let nearer = |target: u32, channel: usize| {
                let way = net.channels[channel];
                far[target as usize][way.to as usize] < far[target as usize][way.from as usize]
            };
            let figures = |hop: &dyn Fn(u32, usize) -> bool| {
                let mut trees = shortest.clone();
                let rules = Rules { hop, turn: &|_, _, _| true, room: 0, cap: None };
                let figures = improve(&net, &graph, &mut trees, &order, &rules).expect("a small fabric");
                (figures, trees)
            };
            let (before, same) = figures(&|_, _| false);
            assert!(same.iter().zip(&shortest).all(|(a, b)| a.ways == b.ways));
            let (after, trees) = figures(&nearer);
            assert!(after.all <= before.all && after.shift < before.shift * 0.95, "{} {}", after.shift, before.shift);
            for tree in &trees {
                let channels = (0..net.switch_count()).filter_map(|at| net.channel(at, tree.ways[at]));
                assert!(channels.into_iter().all(|channel| nearer(tree.switch, channel)));
            }
        }
    }
}
