//! Ranks of switches, chosen so that paths that first go up and then only down lose as little as possible. The turns
//! from down to up are lost, and each counts by the number of paths that would take it.

use std::collections::{BinaryHeap, VecDeque};

use crate::routing::net::Net;
use crate::routing::spread::mix;
use crate::routing::trees::Tree;

/// Maximum number of passes in which every switch seeks a better rank.
const SWEEPS_MAX: usize = 40;

/// Number of paths of some trees on each turn, by channel and index of the next channel at the switch between, as
/// dependencies are numbered.
pub(super) fn demand<'t>(net: &Net, trees: impl Iterator<Item = &'t Tree>) -> Vec<u32> {
    let mut demand = vec![0u32; net.channels.len() * net.degree];
    for tree in trees {
        tree.flow(net, |channel, next, paths| {
            if let Some(place) = next {
                let turn = &mut demand[channel * net.degree + place];
                *turn = turn.saturating_add(paths);
            }
        });
    }
    demand
}

/// Initial orders based on cables and indices. Styles 0 to 2 settle them, styles 3 to 5 do not, and all further styles
/// settle a random order.
const STARTS: [fn(&Net) -> Vec<usize>; 3] = [plain, deep, wide];

/// Distinct ranks of switches, from 0. In every piece of the fabric, exactly one switch has no neighbor above it.
/// Only trees can tell which ranks suit a fabric, so `style` (from 0) selects alternatives.
pub(super) fn ranks(net: &Net, demand: &[u32], style: usize) -> Vec<u32> {
    let start = STARTS.iter().cycle().take(2 * STARTS.len()).nth(style);
    let order = start.map_or_else(|| by_lot(net, style as u64), |start| start(net));
    let mut builder = Builder { net, demand, rank: vec![0.0; net.switch_count()] };
    builder.number(order);
    if !(STARTS.len()..2 * STARTS.len()).contains(&style) {
        builder.settle();
    }
    builder.one_top();
    builder.ranks()
}

/// Switches by index.
fn plain(net: &Net) -> Vec<usize> {
    (0..net.switch_count()).collect()
}

fn by_lot(net: &Net, lot: u64) -> Vec<usize> {
    let mut order = plain(net);
    order.sort_by_key(|switch| mix(lot << 32 | *switch as u64));
    order
}

/// Switches in depth-first order.
fn deep(net: &Net) -> Vec<usize> {
    let mut seen = vec![false; net.switch_count()];
    let mut order = Vec::with_capacity(seen.len());
    for first in 0..net.switch_count() {
        let mut next = vec![first];
        while let Some(at) = next.pop() {
            if !std::mem::replace(&mut seen[at], true) {
                order.push(at);
                next.extend(net.of(at).rev().map(|channel| net.channels[channel].to as usize).filter(|to| !seen[*to]));
            }
        }
    }
    order
}

/// Switches in breadth-first order.
fn wide(net: &Net) -> Vec<usize> {
    let mut seen = vec![false; net.switch_count()];
    let mut order = Vec::with_capacity(seen.len());
    for first in 0..net.switch_count() {
        let mut next = VecDeque::from([first]);
        while let Some(at) = next.pop_front() {
            if !std::mem::replace(&mut seen[at], true) {
                order.push(at);
                next.extend(net.of(at).map(|channel| net.channels[channel].to as usize).filter(|to| !seen[*to]));
            }
        }
    }
    order
}

struct Builder<'a> {
    net: &'a Net,
    demand: &'a [u32],
    rank: Vec<f64>,
}

impl Builder<'_> {
    /// Sets ranks from an order, bottom first.
    fn number(&mut self, order: Vec<usize>) {
        (0u32..).zip(order).for_each(|(place, switch)| self.rank[switch] = f64::from(place));
    }

    /// Switches from the bottom upward.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.rank.len()).collect();
        order.sort_by(|a, b| self.rank[*a].total_cmp(&self.rank[*b]).then(a.cmp(b)));
        order
    }

    fn ranks(&self) -> Vec<u32> {
        let mut ranks = vec![0; self.rank.len()];
        (0u32..).zip(self.order()).for_each(|(rank, switch)| ranks[switch] = rank);
        ranks
    }

    /// Moves switches until no single move lowers the loss.
    fn settle(&mut self) {
        for _ in 0..SWEEPS_MAX {
            let mut still = true;
            for switch in 0..self.rank.len() {
                still &= !self.seek(switch);
            }
            let order = self.order();
            self.number(order);
            if still {
                break;
            }
        }
    }

    /// Number of paths that turn between two of a switch's channels, in both directions.
    fn pair(&self, a: usize, b: usize) -> i64 {
        let place = |channel: usize| channel - self.net.of(self.net.channels[channel].from as usize).start;
        let turn = |from: usize, to: usize| {
            let incoming = self.net.channels[from].back as usize;
            i64::from(self.demand[incoming * self.net.degree + place(to)])
        };
        turn(a, b) + turn(b, a)
    }

    /// Moves a switch to the rank with the least loss. Returns whether it moved.
    fn seek(&mut self, switch: usize) -> bool {
        let net = self.net;
        let peer = |channel: usize| net.channels[channel].to as usize;
        let mut around: Vec<usize> = net.of(switch).collect();
        around.sort_by(|a, b| self.rank[peer(*a)].total_cmp(&self.rank[peer(*b)]).then(a.cmp(b)));
        // Change of the loss from below all neighbors upward.
        let (mut lost, mut least, mut best, mut now) = (0i64, 0i64, 0, (0, 0i64));
        for at in 0..around.len() {
            let passed = around[at];
            let at_peer = net.channels[passed].back as usize;
            lost -= around[at + 1..].iter().map(|other| self.pair(passed, *other)).sum::<i64>();
            let above = |channel: &usize| self.rank[peer(*channel)] > self.rank[peer(passed)];
            lost += net
                .of(peer(passed))
                .filter(|channel| *channel != at_peer && peer(*channel) != switch && above(channel))
                .map(|channel| self.pair(at_peer, channel))
                .sum::<i64>();
            if around.get(at + 1).is_some_and(|next| peer(*next) == peer(passed)) {
                continue;
            }
            if self.rank[peer(passed)] < self.rank[switch] {
                now = (at + 1, lost);
            }
            if lost < least {
                (least, best) = (lost, at + 1);
            }
        }
        if best == now.0 || least >= now.1 {
            return false;
        }
        let low = best.checked_sub(1).map(|at| self.rank[peer(around[at])]);
        let high = around.get(best).map(|channel| self.rank[peer(*channel)]);
        self.rank[switch] = match (low, high) {
            (Some(low), Some(high)) => (low + high) / 2.0,
            (Some(low), None) => low + 0.5,
            (None, Some(high)) => high - 0.5,
            (None, None) => return false,
        };
        true
    }

    /// Leaves one switch without a higher neighbor in every piece of the fabric: goes from the highest downward, always
    /// to the highest neighbor of the switches already placed. Ranks with a single top do not change.
    fn one_top(&mut self) {
        let ranks = self.ranks();
        let mut placed = vec![false; ranks.len()];
        let mut order = Vec::with_capacity(ranks.len());
        for top in self.order().into_iter().rev() {
            let mut beside = BinaryHeap::from([(ranks[top], top)]);
            while let Some((_, at)) = beside.pop() {
                if !std::mem::replace(&mut placed[at], true) {
                    order.push(at);
                    let peers = self.net.of(at).map(|channel| self.net.channels[channel].to as usize);
                    beside.extend(peers.filter(|peer| !placed[*peer]).map(|peer| (ranks[peer], peer)));
                }
            }
        }
        order.reverse();
        self.number(order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::Sequential;
    use crate::routing::figures::{random, topology, torus};
    use crate::routing::trees::by_target;

    #[test]
    fn one_switch_is_above_all_beside_it() {
        for graph in [torus(&[6, 5], 1), torus(&[4, 4, 4], 1), random(24, 4, 1), topology("df264")] {
            let net = Net::new(&graph);
            let trees = by_target(&net, &net.distances(&Sequential), &|_, _| true);
            let demand = demand(&net, trees.iter());
            for style in 0..9 {
                let rank = ranks(&net, &demand, style);
                let peers = |at: usize| net.of(at).map(|channel| net.channels[channel].to as usize);
                let is_top = |at: &usize| peers(*at).all(|peer| rank[peer] < rank[*at]);
                assert_eq!((0..rank.len()).filter(is_top).count(), 1, "style {style}");
                let mut ranks = rank.clone();
                ranks.sort_unstable();
                assert!((0u32..).zip(&ranks).all(|(expected, rank)| expected == *rank), "style {style}");
            }
        }
    }

    #[test]
    fn settled_ranks_lose_fewer_paths() {
        for graph in [random(24, 4, 1), topology("df264"), topology("rnd64")] {
            let net = Net::new(&graph);
            let trees = by_target(&net, &net.distances(&Sequential), &|_, _| true);
            let demand = demand(&net, trees.iter());
            let lost = |style: usize| -> u64 {
                let rank = ranks(&net, &demand, style);
                let is_up = |at: usize| {
                    let way = net.channels[at];
                    rank[way.from as usize] < rank[way.to as usize]
                };
                let down = (0..net.channels.len()).filter(|channel| !is_up(*channel));
                let after = |channel: usize| net.of(net.channels[channel].to as usize).enumerate();
                let valleys = down.flat_map(|channel| after(channel).map(move |(place, next)| (channel, place, next)));
                let turns = valleys.filter(|(_, _, next)| is_up(*next));
                turns.map(|(channel, place, _)| u64::from(demand[channel * net.degree + place])).sum()
            };
            let settled: u64 = (0..STARTS.len()).map(lost).sum();
            let begun: u64 = (STARTS.len()..2 * STARTS.len()).map(lost).sum();
            assert!(settled < begun, "{settled}, {begun}");
        }
    }
}
