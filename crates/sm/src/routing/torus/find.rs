//! Recognizes a torus or a mesh from its cables alone. Two hops of a switch that close a square with two others lie in
//! different dimensions, and opposite sides of a square have the same direction. So links form layers, each the cut
//! between two coordinates. Two hops that close no square follow each other along a dimension, so layers form rings and
//! chains. Both still work if a switch or a link is missing.

use std::collections::BTreeMap;

use crate::routing::net::Net;

/// Maximum number of neighbors of a switch in a torus.
const NEIGHBOURS_MAX: usize = 6;

/// A dimension found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Number of coordinates.
    pub size: u32,
    /// Whether the last coordinate is adjacent to the first.
    pub wraps: bool,
    /// Coordinate of each switch.
    pub at: Vec<u32>,
    /// The port that most switches use to go up.
    pub port: u8,
}

/// Finds the dimensions of a torus or a mesh; `Err` is the reason if the fabric is none.
pub fn find(net: &Net) -> Result<Vec<Dimension>, String> {
    let hops = Hops::new(net)?;
    let layers = hops.layers()?;
    let chains = hops.chains(&layers)?;
    let mut found = Vec::with_capacity(chains.len());
    for (chain, wraps) in &chains {
        found.push(hops.dimension(&layers, chain, *wraps));
    }
    hops.complete(&layers, &chains, &mut found)?;
    found.sort_by_key(|dimension| dimension.port);
    Ok(found)
}

/// Hops between neighbors; parallel cables are one hop.
struct Hops {
    /// First hop of each switch; one more entry at the end.
    first: Vec<usize>,
    /// Source, destination, lowest port.
    hops: Vec<(usize, usize, u8)>,
    /// The opposite hop.
    back: Vec<usize>,
}

/// Layer of each hop; a layer is identified by one of its hops.
type Layers = Vec<usize>;
/// Consecutive layers, and whether the first follows the last.
type Chain = (Vec<usize>, bool);

impl Hops {
    fn new(net: &Net) -> Result<Hops, String> {
        let (mut first, mut hops) = (vec![0], Vec::new());
        for switch in 0..net.switch_count() {
            let mut beside: BTreeMap<usize, u8> = BTreeMap::new();
            for way in &net.channels[net.of(switch)] {
                beside.entry(way.to as usize).or_insert(way.port);
            }
            if beside.len() > NEIGHBOURS_MAX {
                return Err(format!(
                    "a switch has {} neighbours, one of a torus at most {NEIGHBOURS_MAX}",
                    beside.len()
                ));
            }
            hops.extend(beside.into_iter().map(|(to, port)| (switch, to, port)));
            first.push(hops.len());
        }
        let mut found = Hops { first, hops, back: Vec::new() };
        let back = |(from, to, _): &(usize, usize, u8)| found.hop(*to, *from);
        found.back = found.hops.iter().filter_map(back).collect();
        Ok(found)
    }

    fn of(&self, switch: usize) -> std::ops::Range<usize> {
        self.first[switch]..self.first[switch + 1]
    }

    fn hop(&self, from: usize, to: usize) -> Option<usize> {
        self.of(from).find(|hop| self.hops[*hop].1 == to)
    }

    /// Neighbors shared by the destinations of two hops, except the switch where both start.
    fn corners(&self, one: usize, other: usize) -> Vec<usize> {
        let (from, a, _) = self.hops[one];
        let b = self.hops[other].1;
        let beside = self.of(a).map(|hop| self.hops[hop].1);
        beside.filter(|corner| *corner != from && self.hop(b, *corner).is_some()).collect()
    }

    /// Pairs of hops that start at the same switch.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let of = move |switch| {
            self.of(switch).flat_map(move |one| (one + 1..self.of(switch).end).map(move |other| (one, other)))
        };
        (0..self.first.len() - 1).flat_map(of)
    }

    fn layers(&self) -> Result<Layers, String> {
        let mut of: Vec<usize> = (0..self.hops.len()).collect();
        for (one, other) in self.pairs() {
            let [corner] = self.corners(one, other)[..] else { continue };
            let (a, b) = (self.hops[one].1, self.hops[other].1);
            let sides = [(one, self.hop(b, corner)), (other, self.hop(a, corner))];
            for (side, across) in sides {
                let Some(across) = across else { continue };
                join(&mut of, side, across);
                join(&mut of, self.back[side], self.back[across]);
            }
        }
        let layers: Layers = (0..of.len()).map(|hop| root(&mut of, hop)).collect();
        if (0..layers.len()).any(|hop| layers[hop] == layers[self.back[hop]]) {
            return Err("its squares do not line up as those of a torus".to_owned());
        }
        Ok(layers)
    }

    /// The dimensions: rings and chains of layers, each in one of its two directions.
    fn chains(&self, layers: &Layers) -> Result<Vec<Chain>, String> {
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        layers.iter().for_each(|layer| *sizes.entry(*layer).or_default() += 1);
        let mut votes: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for (one, other) in self.pairs().filter(|(one, other)| self.corners(*one, *other).is_empty()) {
            *votes.entry((layers[self.back[one]], layers[other])).or_default() += 1;
            *votes.entry((layers[self.back[other]], layers[one])).or_default() += 1;
        }
        // Most votes first: near a missing switch, some votes are wrong.
        let mut votes: Vec<(usize, (usize, usize))> = votes.into_iter().map(|(pair, votes)| (votes, pair)).collect();
        votes.sort_by_key(|(votes, pair)| (std::cmp::Reverse(*votes), *pair));
        let (mut next, mut previous) = (BTreeMap::new(), BTreeMap::new());
        for (votes, (before, after)) in votes {
            let most = votes * 2 > sizes[&before].min(sizes[&after]);
            if most && !next.contains_key(&before) && !previous.contains_key(&after) {
                next.insert(before, after);
                previous.insert(after, before);
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        let mut chains = Vec::new();
        for layer in sizes.keys() {
            if seen.contains(layer) {
                continue;
            }
            let (chain, wraps) = chain(*layer, &next, &previous);
            seen.extend(chain.iter().flat_map(|layer| [*layer, layers[self.back[*layer]]]));
            chains.push((chain, wraps));
        }
        Ok(chains)
    }

    fn dimension(&self, layers: &Layers, chain: &[usize], wraps: bool) -> Dimension {
        let place: BTreeMap<usize, u32> = chain.iter().copied().zip(0u32..).collect();
        let size = chain.len() as u32 + u32::from(!wraps);
        let mut at = vec![u32::MAX; self.first.len() - 1];
        let mut ports = [BTreeMap::<u8, usize>::new(), BTreeMap::new()];
        for (hop, (from, to, port)) in self.hops.iter().enumerate() {
            let Some(place) = place.get(&layers[hop]) else { continue };
            (at[*from], at[*to]) = (*place, (place + 1) % size);
            *ports[0].entry(*port).or_default() += 1;
            *ports[1].entry(self.hops[self.back[hop]].2).or_default() += 1;
        }
        let most = |ports: &BTreeMap<u8, usize>| {
            ports.iter().max_by_key(|(port, count)| (**count, !**port)).map_or(0, |(port, _)| *port)
        };
        let (up, down) = (most(&ports[0]), most(&ports[1]));
        if down < up {
            at.iter_mut().filter(|at| **at != u32::MAX).for_each(|at| *at = size - 1 - *at);
        }
        Dimension { size, wraps, at, port: up.min(down) }
    }

    /// Copies coordinates from neighbors to switches that have no link in a dimension. Then checks that every link is
    /// one step in one dimension, and that no two switches have the same coordinates.
    fn complete(&self, layers: &Layers, chains: &[Chain], found: &mut [Dimension]) -> Result<(), String> {
        let mut dimension_of: BTreeMap<usize, usize> = BTreeMap::new();
        for (at, (chain, _)) in chains.iter().enumerate() {
            dimension_of
                .extend(chain.iter().flat_map(|layer| [*layer, layers[self.back[*layer]]]).map(|layer| (layer, at)));
        }
        let along = |hop: usize| dimension_of.get(&layers[hop]).copied().unwrap_or(usize::MAX);
        for _ in 0..found.len() {
            for (hop, (from, to, _)) in self.hops.iter().enumerate() {
                for (_, dimension) in found.iter_mut().enumerate().filter(|(at, _)| *at != along(hop)) {
                    if dimension.at[*from] == u32::MAX {
                        dimension.at[*from] = dimension.at[*to];
                    }
                }
            }
        }
        let mut places: Vec<Vec<u32>> =
            (0..self.first.len() - 1).map(|switch| found.iter().map(|d| d.at[switch]).collect()).collect();
        let refused = || Err("its cables do not fit a grid".to_owned());
        if places.iter().flatten().any(|at| *at == u32::MAX) {
            return refused();
        }
        let even = self.hops.iter().enumerate().all(|(hop, (from, to, _))| {
            found.iter().enumerate().all(|(at, dimension)| {
                let (a, b) = (dimension.at[*from], dimension.at[*to]);
                let beside = a.abs_diff(b) == 1 || (dimension.wraps && a.abs_diff(b) + 1 == dimension.size);
                if at == along(hop) { beside } else { a == b }
            })
        });
        places.sort();
        let twice = places.windows(2).any(|pair| pair[0] == pair[1]);
        if !even || twice {
            return refused();
        }
        Ok(())
    }
}

/// The chain of layers that contains a layer, in order.
fn chain(layer: usize, next: &BTreeMap<usize, usize>, previous: &BTreeMap<usize, usize>) -> Chain {
    let mut first = layer;
    while let Some(before) = previous.get(&first).copied().filter(|before| *before != layer) {
        first = before;
    }
    let mut chain = vec![first];
    while let Some(after) = next.get(&chain[chain.len() - 1]).copied().filter(|after| *after != first) {
        chain.push(after);
    }
    let wraps = chain.len() > 1 && next.get(&chain[chain.len() - 1]) == Some(&first);
    (chain, wraps)
}

fn root(of: &mut [usize], mut at: usize) -> usize {
    while of[at] != at {
        of[at] = of[of[at]];
        at = of[at];
    }
    at
}

fn join(of: &mut [usize], one: usize, other: usize) {
    let (one, other) = (root(of, one), root(of, other));
    of[one.max(other)] = one.min(other);
}
