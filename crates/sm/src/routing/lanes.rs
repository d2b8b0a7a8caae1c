//! Assignment of paths to virtual lanes so that packets of a VL cannot wait for each other in a cycle. Each VL's
//! channel dependency graph (Dally, Seitz) stays acyclic as paths are added. A topological order is maintained and
//! repaired where a new dependency violates it (Pearce, Kelly: "A Dynamic Topological Sort Algorithm").

use crate::graph::Graph;
use crate::routing::net::{Net, by_distance};
use crate::routing::trees::Tree;
use crate::tables::{Lanes, ServiceLevels};

/// VLs that fit in a mask: the data VLs of InfiniBand.
pub(super) const LANES_MAX: usize = 15;

/// Acyclic channel dependency graphs of several VLs.
pub(super) struct Dependencies<'a> {
    net: &'a Net,
    /// Mask of the VLs that have a dependency, by channel and index of the next channel at the switch between.
    lanes_of: Vec<u16>,
    /// Topological rank of each channel, by VL.
    ranks: Vec<Vec<u32>>,
    before: Vec<u32>,
    after: Vec<u32>,
    seen: Vec<bool>,
    slots: Vec<u32>,
}

impl<'a> Dependencies<'a> {
    /// Creates graphs without VLs.
    pub fn new(net: &'a Net) -> Dependencies<'a> {
        Dependencies {
            net,
            lanes_of: vec![0; net.channels.len() * net.degree],
            ranks: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            seen: vec![false; net.channels.len()],
            slots: Vec::new(),
        }
    }

    /// Adds a VL.
    pub fn open(&mut self) {
        self.open_in((0..self.net.channels.len() as u32).collect());
    }

    /// Adds a VL with these distinct initial ranks of its channels: dependencies that go upward in them are the
    /// cheapest to add.
    pub fn open_in(&mut self, ranks: Vec<u32>) {
        self.ranks.push(ranks);
    }

    /// The number of VLs.
    pub fn lanes(&self) -> usize {
        self.ranks.len()
    }

    /// Mask of the VLs that have a dependency.
    pub fn lanes_of(&self, channel: usize, next: usize) -> u16 {
        self.lanes_of[self.at(channel, next)]
    }

    /// Adds a dependency to a VL unless it would close a cycle. Returns whether the VL has it now.
    pub fn add(&mut self, lane: usize, channel: usize, next: usize) -> bool {
        let at = self.at(channel, next);
        if self.lanes_of[at] & 1 << lane != 0 {
            return true;
        }
        if self.ranks[lane][channel] >= self.ranks[lane][next] && !self.reorder(lane, channel, next) {
            return false;
        }
        self.lanes_of[at] |= 1 << lane;
        true
    }

    /// Removes a dependency from a VL.
    pub fn remove(&mut self, lane: usize, channel: usize, next: usize) {
        let at = self.at(channel, next);
        self.lanes_of[at] &= !(1 << lane);
    }

    /// Moves the successors of `next` after `channel` in the order. Returns false if `channel` is one of them.
    fn reorder(&mut self, lane: usize, channel: usize, next: usize) -> bool {
        let (low, high) = (self.ranks[lane][next], self.ranks[lane][channel]);
        let open = self.gather_after(lane, next, channel, high);
        if open {
            self.gather_before(lane, channel, low);
            self.shift(lane);
        }
        for at in self.after.drain(..).chain(self.before.drain(..)) {
            self.seen[at as usize] = false;
        }
        open
    }

    fn gather_after(&mut self, lane: usize, next: usize, channel: usize, high: u32) -> bool {
        self.after.push(next as u32);
        self.seen[next] = true;
        let mut done = 0;
        while done < self.after.len() {
            let at = self.after[done] as usize;
            done += 1;
            let ways = self.net.of(self.net.channels[at].to as usize);
            let row = at * self.net.degree;
            for (place, way) in ways.enumerate() {
                if self.lanes_of[row + place] & 1 << lane == 0 || self.ranks[lane][way] > high {
                    continue;
                }
                if way == channel {
                    return false;
                }
                if !std::mem::replace(&mut self.seen[way], true) {
                    self.after.push(way as u32);
                }
            }
        }
        true
    }

    fn gather_before(&mut self, lane: usize, channel: usize, low: u32) {
        self.before.push(channel as u32);
        self.seen[channel] = true;
        let mut done = 0;
        while done < self.before.len() {
            let at = self.before[done] as usize;
            done += 1;
            let from = self.net.channels[at].from as usize;
            let place = at - self.net.of(from).start;
            for back in self.net.of(from) {
                let way = self.net.channels[back].back as usize;
                if self.lanes_of[way * self.net.degree + place] & 1 << lane == 0 || self.ranks[lane][way] < low {
                    continue;
                }
                if !std::mem::replace(&mut self.seen[way], true) {
                    self.before.push(way as u32);
                }
            }
        }
    }

    fn shift(&mut self, lane: usize) {
        let ranks = &mut self.ranks[lane];
        self.before.sort_unstable_by_key(|at| ranks[*at as usize]);
        self.after.sort_unstable_by_key(|at| ranks[*at as usize]);
        self.slots.clear();
        self.slots.extend(self.before.iter().chain(&self.after).map(|at| ranks[*at as usize]));
        self.slots.sort_unstable();
        for (at, slot) in self.before.iter().chain(&self.after).zip(&self.slots) {
            ranks[*at as usize] = *slot;
        }
    }

    fn at(&self, channel: usize, next: usize) -> usize {
        let start = self.net.first[self.net.channels[channel].to as usize] as usize;
        channel * self.net.degree + (next - start)
    }
}

/// VLs of paths.
pub(super) struct Assigned {
    /// VL by tree and source switch.
    pub lanes: Vec<Vec<u8>>,
    /// The number of VLs.
    pub count: u8,
}

impl Assigned {
    /// Service levels and VLs for tables, given a tree for each target of the net: VL n has service level n.
    pub fn levels(&self, net: &Net, graph: &Graph) -> (ServiceLevels, Lanes) {
        if self.count <= 1 {
            return (ServiceLevels::Any, Lanes::Any);
        }
        let row = usize::from(graph.lid_top()) + 1;
        let mut levels = vec![0; net.switch_count() * row];
        for (target, lanes) in net.targets.iter().zip(&self.lanes) {
            for (switch, lane) in lanes.iter().enumerate() {
                levels[switch * row + usize::from(target.lid)] = *lane;
            }
        }
        (ServiceLevels::ByLid(levels), Lanes::Identity { count: self.count })
    }
}

/// Assigns paths to as few VLs as it can and balances them; `Err` has the number of paths that fit on none of
/// `lanes_max` VLs. Skips paths from switches without adapters.
pub(super) fn assign(net: &Net, far: &[Vec<u16>], trees: &[Tree], lanes_max: u8) -> Result<Assigned, usize> {
    let mut packer = Packer::new(net, usize::from(lanes_max).clamp(1, LANES_MAX));
    let mut left = 0;
    for tree in trees {
        left += packer.pack(&far[tree.switch as usize], tree);
    }
    if left > 0 {
        return Err(left);
    }
    Ok(packer.even(far, trees))
}

struct Packer<'a> {
    net: &'a Net,
    on: Dependencies<'a>,
    lanes_max: usize,
    /// By switch, mask of the VLs that have every dependency of its path.
    have: Vec<u16>,
    order: Vec<u32>,
    added: Vec<(usize, usize)>,
}

impl<'a> Packer<'a> {
    fn new(net: &'a Net, lanes_max: usize) -> Packer<'a> {
        let mut on = Dependencies::new(net);
        on.open();
        Packer { net, on, lanes_max, have: vec![0; net.switch_count()], order: Vec::new(), added: Vec::new() }
    }

    /// Assigns the paths of a tree to VLs. Returns the number of paths without one.
    fn pack(&mut self, far: &[u16], tree: &Tree) -> usize {
        by_distance(far, &mut self.order);
        let order = std::mem::take(&mut self.order);
        let mut left = 0;
        for at in order.iter().map(|at| *at as usize) {
            self.have[at] = self.inherited(at, tree);
            if self.have[at] == 0 && self.net.hung[at] > 0 && !self.place(at, tree) {
                left += 1;
            }
        }
        self.order = order;
        left
    }

    /// The VLs that already have all of a path, given those of the next switch on it.
    fn inherited(&self, at: usize, tree: &Tree) -> u16 {
        if at == tree.switch as usize {
            return u16::MAX;
        }
        let Some(channel) = self.net.channel(at, tree.ways[at]) else { return u16::MAX };
        let next = self.net.channels[channel].to as usize;
        match self.net.channel(next, tree.ways[next]) {
            Some(after) => self.have[next] & self.on.lanes_of(channel, after),
            None => u16::MAX,
        }
    }

    /// Assigns a path to the first VL that can take it.
    fn place(&mut self, from: usize, tree: &Tree) -> bool {
        for lane in 0..self.lanes_max {
            if lane == self.on.lanes() {
                self.on.open();
            }
            if self.extend(lane, from, tree) {
                self.mark(lane, from, tree);
                return true;
            }
        }
        false
    }

    /// Adds all missing dependencies of a path to a VL, or none.
    fn extend(&mut self, lane: usize, from: usize, tree: &Tree) -> bool {
        let mut at = from;
        self.added.clear();
        while let Some(channel) = self.net.channel(at, tree.ways[at]) {
            at = self.net.channels[channel].to as usize;
            let Some(next) = self.net.channel(at, tree.ways[at]) else { break };
            if self.on.lanes_of(channel, next) & 1 << lane == 0 {
                if !self.on.add(lane, channel, next) {
                    for (channel, next) in self.added.drain(..) {
                        self.on.remove(lane, channel, next);
                    }
                    return false;
                }
                self.added.push((channel, next));
            }
            if self.have[at] & 1 << lane != 0 {
                break;
            }
        }
        true
    }

    fn mark(&mut self, lane: usize, from: usize, tree: &Tree) {
        let mut at = from;
        while let Some(channel) = self.net.channel(at, tree.ways[at]) {
            if self.have[at] & 1 << lane != 0 {
                break;
            }
            self.have[at] |= 1 << lane;
            at = self.net.channels[channel].to as usize;
        }
    }

    /// Moves each path to the least loaded of the VLs that have all of it.
    fn even(mut self, far: &[Vec<u16>], trees: &[Tree]) -> Assigned {
        let count = self.on.lanes();
        let mut taken = vec![0u64; count];
        let mut lanes = Vec::with_capacity(trees.len());
        for tree in trees {
            let mut row = vec![0; self.net.switch_count()];
            by_distance(&far[tree.switch as usize], &mut self.order);
            for place in 0..self.order.len() {
                let at = self.order[place] as usize;
                self.have[at] = self.inherited(at, tree);
                let fit = (0..count).filter(|lane| self.have[at] & 1 << lane != 0);
                let lane = fit.min_by_key(|lane| taken[*lane]).unwrap_or(0);
                taken[lane] += u64::from(self.net.hung[at]) * u64::from(tree.paths);
                row[at] = lane as u8;
            }
            lanes.push(row);
        }
        Assigned { lanes, count: count as u8 }
    }
}
