//! Search for the cheapest paths to a switch along permitted turns, given the loads of channels.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::routing::net::{Channel, FAR, NOWHERE, Net};
use crate::routing::trees::Tree;

/// Cost of a hop, in addition to the square of its channel's load; both are relative to the average load.
const HOP_COST: u64 = 1;

/// Loads of channels.
pub(super) struct Loads<'a> {
    net: &'a Net,
    by_channel: Vec<u32>,
    total: u64,
}

impl<'a> Loads<'a> {
    /// Creates loads of 0.
    pub fn new(net: &'a Net) -> Loads<'a> {
        Loads { net, by_channel: vec![0; net.channels.len()], total: 0 }
    }

    /// Adds a tree's paths or removes them.
    pub fn weigh(&mut self, tree: &Tree, add: bool) {
        let (loads, total) = (&mut self.by_channel, &mut self.total);
        tree.flow(self.net, |channel, _, paths| {
            loads[channel] = if add { loads[channel] + paths } else { loads[channel] - paths };
            *total = if add { *total + u64::from(paths) } else { *total - u64::from(paths) };
        });
    }

    /// Load of the worst channel.
    pub fn worst(&self) -> u32 {
        self.by_channel.iter().max().copied().unwrap_or(0)
    }

    fn mean(&self) -> u64 {
        self.total / self.by_channel.len().max(1) as u64 + 1
    }

    /// Cost of one more path on a channel.
    fn cost(&self, channel: usize, mean: u64) -> u64 {
        let way = &self.net.channels[channel];
        let load = u64::from(self.by_channel[channel]) * u64::from(way.scale) / 256;
        mean * HOP_COST * u64::from(way.weight) + load.saturating_mul(load) / mean
    }

    /// The cheapest paths to a switch over permitted pairs of channels. If a switch stays unreached, fixes the next
    /// hops of others to include it, up to `repairs` times; `None` if that fails.
    pub fn search(
        &self,
        far: &[u16],
        target: usize,
        repairs: usize,
        mut allow: impl FnMut(usize, usize) -> bool,
    ) -> Option<Vec<u8>> {
        let mut told = vec![NOWHERE; far.len()];
        for repair in 0..=repairs {
            let ways = self.spread(target, &told, &mut allow);
            let lost = (0..ways.len()).filter(|at| far[*at] != FAR && *at != target && ways[*at] == NOWHERE);
            let Some(lost) = lost.min_by_key(|at| far[*at]) else { return Some(ways) };
            if repair == repairs || !self.tell(target, lost, &mut told, &mut allow) {
                return None;
            }
        }
        None
    }

    /// The cheapest paths to a switch from all switches that reach it. Each switch decides once; `told` fixes some next
    /// hops.
    fn spread(&self, target: usize, told: &[u8], allow: &mut impl FnMut(usize, usize) -> bool) -> Vec<u8> {
        let net = self.net;
        let mut ways = vec![NOWHERE; net.switch_count()];
        let mut heap = BinaryHeap::new();
        let mean = self.mean();
        let offer = |heap: &mut BinaryHeap<Reverse<(u64, usize)>>, ways: &[u8], at: usize, cost: u64| {
            for channel in net.of(at) {
                let Channel { to, back, .. } = net.channels[channel];
                if ways[to as usize] == NOWHERE {
                    heap.push(Reverse((cost.saturating_add(self.cost(back as usize, mean)), back as usize)));
                }
            }
        };
        offer(&mut heap, &ways, target, 0);
        while let Some(Reverse((cost, channel))) = heap.pop() {
            let Channel { from, to, .. } = net.channels[channel];
            let (from, to) = (from as usize, to as usize);
            if from == target || ways[from] != NOWHERE {
                continue;
            }
            let place = (channel - net.of(from).start) as u8;
            let is_told = told[from] == NOWHERE || told[from] == place;
            if is_told && net.channel(to, ways[to]).is_none_or(|next| allow(channel, next)) {
                ways[from] = place;
                offer(&mut heap, &ways, from, cost);
            }
        }
        ways
    }

    /// Fixes the next hops along the cheapest path from an unreached switch.
    fn tell(&self, target: usize, lost: usize, told: &mut [u8], allow: &mut impl FnMut(usize, usize) -> bool) -> bool {
        let net = self.net;
        let mean = self.mean();
        let mut next = vec![u32::MAX; net.channels.len()];
        let mut done = vec![false; net.channels.len()];
        let mut heap = BinaryHeap::new();
        let fits = |told: &[u8], channel: usize| {
            let from = net.channels[channel].from as usize;
            from != target && (told[from] == NOWHERE || usize::from(told[from]) == channel - net.of(from).start)
        };
        for back in net.of(target).map(|channel| net.channels[channel].back as usize) {
            if fits(told, back) {
                heap.push(Reverse((self.cost(back, mean), back, u32::MAX)));
            }
        }
        while let Some(Reverse((cost, channel, then))) = heap.pop() {
            if std::mem::replace(&mut done[channel], true) {
                continue;
            }
            next[channel] = then;
            let from = net.channels[channel].from as usize;
            if from == lost {
                return follow(net, channel, &next, told);
            }
            for way in net.of(from).filter(|way| *way != channel) {
                let back = net.channels[way].back as usize;
                if !done[back] && fits(told, back) && allow(back, channel) {
                    heap.push(Reverse((cost.saturating_add(self.cost(back, mean)), back, channel as u32)));
                }
            }
        }
        false
    }
}

/// Records a path in `told`, channel by channel; returns false if it visits a switch twice.
fn follow(net: &Net, first: usize, next: &[u32], told: &mut [u8]) -> bool {
    let mut channel = first as u32;
    while channel != u32::MAX {
        let at = channel as usize;
        let from = net.channels[at].from as usize;
        let place = (at - net.of(from).start) as u8;
        if told[from] != NOWHERE && told[from] != place {
            return false;
        }
        told[from] = place;
        channel = next[at];
    }
    true
}
