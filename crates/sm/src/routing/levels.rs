//! Up and down directions of hops: levels of switches, computed or configured. Paths that first go up and then only
//! down cannot form a cycle, on any topology (Schroeder et al., Autonet, 1991).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::graph::Graph;

use super::links::Links;
use super::ways::{FAR, Ways, spread_out};
use super::work::map;

/// An order of switches from the top downward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    /// Rank of each switch: the lowest is the top, and all are distinct.
    rank: Vec<u64>,
}

/// How a switch reaches the destination.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Down all the way.
    Direct,
    /// Up first.
    Climb,
    /// Against the rule, because there is no other path.
    Against,
}

/// Height of every switch above the leaves, if the fabric is a tree: every link joins adjacent heights. Leaves are the
/// switches with end ports, or only those with many if others have a few.
pub fn tree(graph: &Graph, links: &Links) -> Option<Vec<u32>> {
    let mut ends = vec![0u32; graph.switch_count()];
    graph.ends.iter().for_each(|end| ends[end.switch as usize] += 1);
    let most = ends.iter().copied().max()?;
    [1, most.div_ceil(2)].into_iter().filter(|least| *least > 0).find_map(|least| {
        let leaves = (0u32..).zip(&ends).filter(|(_, ends)| **ends >= least).map(|(switch, _)| switch);
        let height = from_all(links, leaves);
        let is_tree = (0..graph.switch_count() as u32).all(|switch| {
            let here = height[switch as usize];
            here != FAR && links.of(switch).iter().all(|link| height[link.peer as usize].abs_diff(here) == 1)
        });
        is_tree.then_some(height)
    })
}

/// Distance of every switch from the nearest of some switches.
fn from_all(links: &Links, from: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut distance = vec![FAR; links.switch_count()];
    let mut queue: VecDeque<u32> = from.collect();
    queue.iter().for_each(|switch| distance[*switch as usize] = 0);
    while let Some(switch) = queue.pop_front() {
        for link in links.of(switch) {
            if distance[link.peer as usize] == FAR {
                distance[link.peer as usize] = distance[switch as usize] + 1;
                queue.push_back(link.peer);
            }
        }
    }
    distance
}

/// The switch nearest to all end ports: a root for a fabric without one.
pub fn centre(graph: &Graph, links: &Links, parallel: &dyn crate::parallel::Parallel) -> u32 {
    let mut ends = vec![0u64; graph.switch_count()];
    graph.ends.iter().for_each(|end| ends[end.switch as usize] += 1);
    let sums = map(parallel, graph.switch_count(), |switch| {
        let distance = super::ways::distances(links, switch as u32);
        // In a fabric of several parts, the switch that reaches the most comes first.
        let reached = distance.iter().zip(&ends).filter(|(d, _)| **d != FAR);
        let (count, sum) = reached.fold((0, 0), |(n, s), (d, ends)| (n + 1, s + u64::from(*d) * (ends + 1)));
        (std::cmp::Reverse(count), sum, std::cmp::Reverse(links.of(switch as u32).len()))
    });
    (0u32..).zip(sums).min_by_key(|(switch, sum)| (*sum, *switch)).map_or(0, |(switch, _)| switch)
}

impl Levels {
    /// Creates levels from heights: the highest is the top.
    pub fn by_height(height: &[u32]) -> Levels {
        let top = height.iter().copied().max().unwrap_or(0);
        Levels::ranked(height.iter().map(|height| top - height))
    }

    /// Creates levels from the distance to roots.
    pub fn by_roots(links: &Links, roots: &[u32]) -> Levels {
        Levels::ranked(from_all(links, roots.iter().copied()).into_iter())
    }

    fn ranked(level: impl Iterator<Item = u32>) -> Levels {
        Levels { rank: (0u64..).zip(level).map(|(place, level)| u64::from(level) << 32 | place).collect() }
    }

    /// Whether a hop goes up.
    pub fn is_up(&self, from: u32, to: u32) -> bool {
        self.rank[to as usize] < self.rank[from as usize]
    }

    /// The paths to a switch that go up and then down. A switch without such a path gets one against the rule if
    /// `lapses` permits.
    pub fn toward(&self, links: &Links, to: u32, lapses: &Lapses, reverse: u32) -> Ways {
        let mut distance = vec![FAR; links.switch_count()];
        distance[to as usize] = 0;
        spread_out(links, &mut distance, |from, to| !self.is_up(from, to));
        let mut kind: Vec<Kind> = distance.iter().map(|d| if *d == FAR { Kind::Climb } else { Kind::Direct }).collect();
        spread_out(links, &mut distance, |from, to| self.is_up(from, to) && kind[from as usize] == Kind::Climb);
        let lost: Vec<u32> = (0u32..).zip(&distance).filter(|(_, d)| **d == FAR).map(|(switch, _)| switch).collect();
        if !lost.is_empty() {
            lost.iter().for_each(|switch| kind[*switch as usize] = Kind::Against);
            lapses.against(links, &mut distance, lost, to, reverse);
        }
        let ways = Ways::nearer(links, &distance, |from, to| match kind[from as usize] {
            Kind::Direct => kind[to as usize] == Kind::Direct && !self.is_up(from, to),
            Kind::Climb => self.is_up(from, to) && kind[to as usize] != Kind::Against,
            Kind::Against => true,
        });
        ways.forked(links, |switch| kind[switch as usize] == Kind::Direct)
    }
}

/// Exceptions to the up/down rule: the switches that may have them, and those that occurred.
#[derive(Debug, Default)]
pub struct Lapses {
    /// Switches without end ports: no other traffic waits for packets that only they send, and they receive few.
    bare: Vec<bool>,
    /// Whether end ports got paths to a switch against the rule, which may close credit loops.
    pub to_switches: AtomicBool,
    /// Whether end ports were left without a path.
    pub cut: AtomicBool,
}

impl Lapses {
    /// Creates an instance without exceptions.
    pub fn new(graph: &Graph) -> Lapses {
        let mut bare = vec![true; graph.switch_count()];
        graph.ends.iter().for_each(|end| bare[end.switch as usize] = false);
        Lapses { bare, ..Lapses::default() }
    }

    /// Sets distances of switches that have no path to `to` by the rule. Between switches with end ports, a path may
    /// take at most `reverse` hops against the rule.
    fn against(&self, links: &Links, distance: &mut [u32], lost: Vec<u32>, to: u32, reverse: u32) {
        let is_bare = |switch: u32| self.bare[switch as usize];
        if is_bare(to) && lost.iter().any(|switch| !is_bare(*switch)) {
            self.to_switches.store(true, Ordering::Relaxed);
        }
        let mut left = lost;
        for round in 1.. {
            let near = |switch: &u32| {
                let beyond = links.of(*switch).iter().filter(|link| distance[link.peer as usize] != FAR);
                let nearest = beyond.map(|link| distance[link.peer as usize] + u32::from(link.weight)).min()?;
                (is_bare(*switch) || is_bare(to) || round <= reverse).then_some((*switch, nearest))
            };
            let found: Vec<(u32, u32)> = left.iter().filter_map(near).collect();
            if found.is_empty() {
                break;
            }
            found.iter().for_each(|(switch, nearest)| distance[*switch as usize] = *nearest);
            left.retain(|switch| distance[*switch as usize] == FAR);
        }
        if left.iter().any(|switch| !is_bare(*switch)) {
            self.cut.store(true, Ordering::Relaxed);
        }
    }
}
