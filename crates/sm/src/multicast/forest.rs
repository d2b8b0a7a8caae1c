//! The trees of all groups: those that stand are kept, the others grow.

use std::collections::BTreeMap;

use super::build::Growth;
use super::tree::{Forest, Request, Seat, Tree};

/// Computes trees that reach every reachable member and stay as close to the previous ones as possible.
pub fn trees(request: &Request<'_>) -> Forest {
    let graph = request.graph;
    let guids: Vec<u64> = graph.switches.iter().map(|switch| switch.guid).collect();
    let moved = Move::between(&request.previous.guids, &guids);
    let mut kept = Vec::with_capacity(request.wanted.len());
    for wanted in request.wanted {
        let old = request.previous.trees.get(&wanted.mlid).and_then(|tree| moved.tree(tree));
        kept.push(old.filter(|tree| tree.stands(graph, request.without_mft)));
    }
    let mut growth = Growth::new(graph, request.without_mft);
    kept.iter().flatten().for_each(|tree| growth.count(tree));
    let mut forest = Forest { guids, trees: BTreeMap::new() };
    for (wanted, kept) in request.wanted.iter().zip(kept) {
        if wanted.seats.is_empty() {
            continue;
        }
        let tree = match kept {
            Some(tree) => growth.adapt(tree, &wanted.seats),
            None => growth.grow(wanted.mlid, &wanted.seats),
        };
        forest.trees.insert(wanted.mlid, tree);
    }
    forest
}

/// Mapping of switch indices between two graphs: a switch keeps its GUID, not its index.
struct Move {
    /// New index by old index; `None` if no switch moved.
    to: Option<Vec<Option<u32>>>,
}

impl Move {
    fn between(old: &[u64], new: &[u64]) -> Move {
        if old == new {
            return Move { to: None };
        }
        let places: BTreeMap<u64, u32> = new.iter().copied().zip(0..).collect();
        Move { to: Some(old.iter().map(|guid| places.get(guid).copied()).collect()) }
    }

    /// The tree with the new graph's indices; `None` if one of its switches is gone.
    fn tree(&self, tree: &Tree) -> Option<Tree> {
        let Some(to) = &self.to else { return Some(tree.clone()) };
        let place = |old: u32| to.get(old as usize).copied().flatten();
        let masks = tree.masks.iter().map(|(at, mask)| Some((place(*at)?, *mask)));
        let seats = tree.seats.iter().filter_map(|seat| Some(Seat { switch: place(seat.switch)?, ..*seat }));
        Some(Tree { root: place(tree.root)?, masks: masks.collect::<Option<_>>()?, seats: seats.collect() })
    }
}
