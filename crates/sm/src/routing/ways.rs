//! Links that a packet to a destination may take from each switch: an acyclic graph in which every path ends at the
//! destination. Engines differ in the links that they allow; [`super::spread`] selects among them.

use std::collections::VecDeque;

use super::links::Links;

/// Distance of an unreachable switch.
pub const FAR: u32 = u32::MAX;

/// The allowed paths to a destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// Switches that have a path, the furthest first; without the destination itself.
    pub order: Vec<u32>,
    /// Start of each of these switches' links in `links`, and the end of the last one's.
    pub start: Vec<u32>,
    /// Indices of links among all links.
    pub links: Vec<u32>,
    /// Which of `order` are above the destination and only go down, if any of these has a choice of next switches;
    /// otherwise empty.
    pub forks: Vec<bool>,
}

impl Ways {
    /// The paths on which every hop permitted by `may` brings a packet nearer.
    pub fn nearer(links: &Links, distance: &[u32], may: impl Fn(u32, u32) -> bool) -> Ways {
        let mut order: Vec<u32> =
            (0u32..).zip(distance).filter(|(_, d)| **d != FAR && **d != 0).map(|(s, _)| s).collect();
        order.sort_by_key(|switch| std::cmp::Reverse(distance[*switch as usize]));
        let mut ways = Ways { start: Vec::with_capacity(order.len() + 1), ..Ways::default() };
        ways.start.push(0);
        for switch in &order {
            let left = distance[*switch as usize];
            for (place, link) in links.numbered(*switch) {
                let beyond = distance[link.peer as usize];
                if beyond != FAR && beyond + u32::from(link.weight) == left && may(*switch, link.peer) {
                    ways.links.push(place);
                }
            }
            ways.start.push(ways.links.len() as u32);
        }
        ways.order = order;
        ways
    }

    /// Adds `forks`: `is_direct` returns whether a switch only goes down.
    pub fn forked(mut self, links: &Links, is_direct: impl Fn(u32) -> bool) -> Ways {
        let is_fork = |(switch, places): (u32, &[u32])| {
            let peer = |place: &u32| links.at(*place).peer;
            is_direct(switch) && places.iter().any(|place| peer(place) != peer(&places[0]))
        };
        if self.each().any(is_fork) {
            self.forks = self.order.iter().map(|switch| is_direct(*switch)).collect();
        }
        self
    }

    /// Each switch that has a path, the furthest first, with its links.
    pub fn each(&self) -> impl Iterator<Item = (u32, &[u32])> + '_ {
        self.order
            .iter()
            .zip(self.start.windows(2))
            .map(|(switch, at)| (*switch, &self.links[at[0] as usize..at[1] as usize]))
    }
}

/// Distance of every switch from `to`, in hops or by hop weights.
pub fn distances(links: &Links, to: u32) -> Vec<u32> {
    let mut distance = vec![FAR; links.switch_count()];
    distance[to as usize] = 0;
    spread_out(links, &mut distance, |_, _| true);
    distance
}

/// Propagates distances from the switches that have one, over links on which `may(from, to)` allows the hop toward the
/// destination.
pub fn spread_out(links: &Links, distance: &mut [u32], may: impl Fn(u32, u32) -> bool) {
    let mut first: Vec<u32> = (0u32..).zip(&*distance).filter(|(_, d)| **d != FAR).map(|(s, _)| s).collect();
    first.sort_by_key(|switch| distance[*switch as usize]);
    let mut near: VecDeque<u32> = first.into();
    if !links.is_weighted() && near.len() == 1 {
        return breadth_first(links, distance, near, may);
    }
    let mut buckets: Vec<Vec<u32>> = Vec::new();
    for switch in near.drain(..) {
        push(&mut buckets, distance[switch as usize], switch);
    }
    let mut at = 0;
    while at < buckets.len() {
        let mut next = 0;
        while let Some(switch) = buckets[at].get(next).copied() {
            next += 1;
            if distance[switch as usize] as usize != at {
                continue;
            }
            for link in links.of(switch) {
                let far = at as u32 + u32::from(link.back_weight);
                if far < distance[link.peer as usize] && may(link.peer, switch) {
                    distance[link.peer as usize] = far;
                    push(&mut buckets, far, link.peer);
                }
            }
        }
        at += 1;
    }
}

fn push(buckets: &mut Vec<Vec<u32>>, distance: u32, switch: u32) {
    if buckets.len() <= distance as usize {
        buckets.resize_with(distance as usize + 1, Vec::new);
    }
    buckets[distance as usize].push(switch);
}

fn breadth_first(links: &Links, distance: &mut [u32], mut near: VecDeque<u32>, may: impl Fn(u32, u32) -> bool) {
    while let Some(switch) = near.pop_front() {
        let far = distance[switch as usize] + 1;
        for link in links.of(switch) {
            if distance[link.peer as usize] == FAR && may(link.peer, switch) {
                distance[link.peer as usize] = far;
                near.push_back(link.peer);
            }
        }
    }
}
