//! Growing of multicast trees: from a root central to the members, along links that few other trees use.

use std::collections::BTreeMap;

use crate::graph::{Graph, Peer};

use super::tree::{Seat, Tree, clear, has, ports, set};

/// Distance of a switch that is not reached.
const FAR: u16 = u16::MAX;

/// The fabric while trees grow in it.
pub(super) struct Growth<'a> {
    graph: &'a Graph,
    /// Whether the switch has no multicast table, by switch index.
    lacks_mft: Vec<bool>,
    /// Number of trees that use a link, by switch and port.
    load: Vec<u32>,
    /// Port count of the largest switch, including port 0.
    stride: usize,
    /// Number of trees rooted at the switch, by switch index.
    roots: Vec<u32>,
}

impl<'a> Growth<'a> {
    pub fn new(graph: &'a Graph, without_mft: &[u32]) -> Growth<'a> {
        let count = graph.switch_count();
        let stride = graph.switches.iter().map(|switch| switch.ports.len()).max().unwrap_or(0);
        let mut lacks_mft = vec![false; count];
        for switch in without_mft {
            if let Some(lacks) = lacks_mft.get_mut(*switch as usize) {
                *lacks = true;
            }
        }
        Growth { graph, lacks_mft, load: vec![0; count * stride], stride, roots: vec![0; count] }
    }

    /// Counts the links and the root of an existing tree.
    pub fn count(&mut self, tree: &Tree) {
        for (at, mask) in &tree.masks {
            for port in ports(mask) {
                self.add(*at, port, 1);
            }
        }
        if let Some(root) = self.roots.get_mut(tree.root as usize) {
            *root += 1;
        }
    }

    fn add(&mut self, switch: u32, port: u8, trees: i32) {
        if let Some(load) = self.load.get_mut(switch as usize * self.stride + usize::from(port)) {
            *load = load.saturating_add_signed(trees);
        }
    }

    fn load(&self, switch: u32, port: u8) -> u32 {
        self.load.get(switch as usize * self.stride + usize::from(port)).copied().unwrap_or(0)
    }

    /// Whether the switch exists and has a multicast table.
    fn hears(&self, switch: u32) -> bool {
        self.lacks_mft.get(switch as usize) == Some(&false)
    }

    /// Links of a switch to other switches with multicast tables.
    fn links(&self, switch: u32) -> impl Iterator<Item = (u8, u32, u8)> + '_ {
        let links = self.graph.switches.get(switch as usize).into_iter().flat_map(|switch| switch.links());
        links.filter(|(_, other, _)| self.hears(*other))
    }

    /// Grows a new tree for these members.
    pub fn grow(&mut self, mlid: u16, seats: &[Seat]) -> Tree {
        let mut tree = Tree { root: u32::MAX, masks: BTreeMap::new(), seats: seats.to_vec() };
        let mut left: Vec<u32> = seats.iter().map(|seat| seat.switch).filter(|at| self.hears(*at)).collect();
        left.sort_unstable();
        left.dedup();
        // If the fabric is partitioned, each piece gets its own tree.
        while let Some(first) = left.first().copied() {
            let root = self.root(mlid, first, &left);
            let distances = self.distances(root);
            let reached = |at: &u32| distances.get(*at as usize).is_some_and(|distance| *distance != FAR);
            let mut near: Vec<u32> = left.iter().copied().filter(reached).collect();
            left.retain(|at| !reached(at));
            near.sort_by_key(|at| std::cmp::Reverse(distances[*at as usize]));
            tree.masks.entry(root).or_default();
            for at in near {
                self.climb(&mut tree, &distances, at, mlid);
            }
            if tree.root == u32::MAX {
                tree.root = root;
                self.roots[root as usize] += 1;
            }
        }
        self.seat(&mut tree);
        self.prune(&mut tree);
        tree
    }

    /// Changes the tree's members to these.
    pub fn adapt(&mut self, mut tree: Tree, seats: &[Seat]) -> Tree {
        for seat in std::mem::replace(&mut tree.seats, seats.to_vec()) {
            if let Some(mask) = tree.masks.get_mut(&seat.switch).filter(|mask| has(mask, seat.port)) {
                clear(mask, seat.port);
                self.add(seat.switch, seat.port, -1);
            }
        }
        for seat in seats {
            if self.hears(seat.switch) && !tree.masks.contains_key(&seat.switch) {
                self.graft(&mut tree, seat.switch);
            }
        }
        self.seat(&mut tree);
        self.prune(&mut tree);
        tree
    }

    /// Adds the members' ports to the masks.
    fn seat(&mut self, tree: &mut Tree) {
        for seat in tree.seats.iter().filter(|seat| seat.receives) {
            if let Some(mask) = tree.masks.get_mut(&seat.switch) {
                set(mask, seat.port);
                self.add(seat.switch, seat.port, 1);
            }
        }
    }

    /// Returns a switch central to the members: half way between two that are farthest from each other. Of several, it
    /// takes the one that is the root of the fewest trees.
    fn root(&self, mlid: u16, first: u32, members: &[u32]) -> u32 {
        let (from_first, _) = self.farthest(first, members);
        if from_first == first {
            return first;
        }
        let (other, away) = self.farthest(from_first, members);
        let back = self.distances(other);
        let length = away.get(other as usize).copied().unwrap_or(0);
        let between = |at: &u32| {
            let at = *at as usize;
            away[at] != FAR && back[at] != FAR && away[at] + back[at] == length && away[at] == length / 2
        };
        let count = self.graph.switch_count() as u32;
        // The tie-break order differs from group to group.
        let turn = |at: u32| at.wrapping_add(u32::from(mlid).wrapping_mul(0x9e37_79b9)) % count.max(1);
        (0..count).filter(between).min_by_key(|at| (self.roots[*at as usize], turn(*at))).unwrap_or(first)
    }

    /// The member that is farthest from a switch, and the distances from that switch.
    fn farthest(&self, from: u32, members: &[u32]) -> (u32, Vec<u16>) {
        let distances = self.distances(from);
        let near = members.iter().filter(|at| distances.get(**at as usize).is_some_and(|distance| *distance != FAR));
        let far = near.max_by_key(|at| (distances[**at as usize], std::cmp::Reverse(**at))).copied();
        (far.unwrap_or(from), distances)
    }

    /// Hops from a switch to every switch.
    fn distances(&self, from: u32) -> Vec<u16> {
        let mut distances = vec![FAR; self.graph.switch_count()];
        let Some(start) = distances.get_mut(from as usize) else { return distances };
        *start = 0;
        let mut queue = vec![from];
        let mut next = 0;
        while let Some(at) = queue.get(next).copied() {
            next += 1;
            let distance = distances[at as usize] + 1;
            for (_, other, _) in self.links(at) {
                if distances[other as usize] == FAR {
                    distances[other as usize] = distance;
                    queue.push(other);
                }
            }
        }
        distances
    }

    /// Adds the path from a switch up toward the root, until it meets the tree. Prefers switches already in the tree,
    /// then lightly used links.
    fn climb(&mut self, tree: &mut Tree, distances: &[u16], from: u32, mlid: u16) {
        let mut way = Vec::new();
        let mut at = from;
        while !tree.masks.contains_key(&at) {
            let here = distances[at as usize];
            let up = self.links(at).filter(|(_, other, _)| distances[*other as usize].saturating_add(1) == here);
            let best = up.min_by_key(|(port, other, _)| {
                let turn = port.wrapping_add(mlid as u8);
                (!tree.masks.contains_key(other), self.load(at, *port), turn)
            });
            let Some((port, other, back)) = best else { return };
            way.push((at, port, other, back));
            at = other;
        }
        self.take(tree, &way);
    }

    /// Adds the shortest path from a switch to the tree, along lightly used links.
    fn graft(&mut self, tree: &mut Tree, from: u32) {
        let mut came: BTreeMap<u32, (u32, u8, u8)> = BTreeMap::new();
        let mut queue = vec![from];
        let mut next = 0;
        let mut met = None;
        while let Some(at) = queue.get(next).copied() {
            next += 1;
            let mut links: Vec<_> = self.links(at).collect();
            links.sort_by_key(|(port, _, _)| self.load(at, *port));
            for (port, other, back) in links {
                if other != from && !came.contains_key(&other) {
                    came.insert(other, (at, port, back));
                    queue.push(other);
                    if met.is_none() && tree.masks.contains_key(&other) {
                        met = Some(other);
                    }
                }
            }
            if met.is_some() {
                break;
            }
        }
        // A piece of the fabric that the tree does not reach gets its own tree.
        tree.masks.entry(from).or_default();
        let mut way = Vec::new();
        let mut at = met;
        while let Some((before, port, back)) = at.and_then(|at| came.get(&at).copied()) {
            way.push((before, port, at.unwrap_or(before), back));
            at = Some(before);
        }
        self.take(tree, &way);
    }

    /// Adds links to a tree, at both ends.
    fn take(&mut self, tree: &mut Tree, way: &[(u32, u8, u32, u8)]) {
        for (at, port, other, back) in way {
            for (switch, port) in [(*at, *port), (*other, *back)] {
                set(tree.masks.entry(switch).or_default(), port);
                self.add(switch, port, 1);
            }
        }
    }

    /// Removes switches that lead to no member.
    fn prune(&mut self, tree: &mut Tree) {
        let mut seats: Vec<u32> = tree.seats.iter().map(|seat| seat.switch).collect();
        seats.sort_unstable();
        let mut suspects: Vec<u32> = tree.masks.keys().copied().collect();
        while let Some(at) = suspects.pop() {
            let Some(mask) = tree.masks.get(&at).copied() else { continue };
            let (first, second) = {
                let mut links = ports(&mask);
                (links.next(), links.next())
            };
            if seats.binary_search(&at).is_ok() || second.is_some() {
                continue;
            }
            let link = first.and_then(|port| Some((port, self.peer(at, port)?)));
            tree.masks.remove(&at);
            if let Some((port, (other, back))) = link {
                self.add(at, port, -1);
                self.add(other, back, -1);
                if let Some(mask) = tree.masks.get_mut(&other) {
                    clear(mask, back);
                }
                suspects.push(other);
            }
            if tree.root == at {
                self.uproot(tree, at, link.map(|(_, (other, _))| other));
            }
        }
    }

    /// Moves the root after it was pruned: the tree now counts as rooted at the switch that the old root was linked to.
    fn uproot(&mut self, tree: &mut Tree, old: u32, new: Option<u32>) {
        let new = new.or_else(|| tree.masks.keys().next().copied()).unwrap_or(old);
        for (root, more) in [(old, -1), (new, 1)] {
            if let Some(count) = self.roots.get_mut(root as usize) {
                *count = count.saturating_add_signed(more);
            }
        }
        tree.root = new;
    }

    /// The switch and port at the other end of a port of the tree.
    fn peer(&self, at: u32, port: u8) -> Option<(u32, u8)> {
        match self.graph.switches.get(at as usize)?.ports.get(usize::from(port))?.peer {
            Peer::Switch { switch, port } => Some((switch, port)),
            _ => None,
        }
    }
}
