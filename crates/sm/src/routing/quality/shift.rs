//! Shift permutations: every end port sends to the one at a fixed distance behind it, as in MPI collectives. Two paths
//! on one link get half the bandwidth each.

use crate::graph::Graph;
use crate::parallel::Parallel;
use crate::routing::levels::tree;
use crate::routing::links::Links;
use crate::routing::order::walk;
use crate::routing::work::map;

use super::checks::Checks;
use super::net::{Net, Owner, Step};

/// Results of shift permutations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shift {
    /// Number of permutations tested.
    pub tried: usize,
    /// Mean of the worst link loads.
    pub worst_mean: f64,
    /// Share of permutations in which no link has more than one path.
    pub free_share: f64,
}

/// Tests shift permutations.
pub fn shifts(net: &Net<'_>, checks: &Checks, parallel: &dyn Parallel) -> Shift {
    let order = if checks.order.is_empty() { by_switches(net.graph) } else { checks.order.clone() };
    let all = order.len().saturating_sub(1);
    let tried = all.min(checks.shifts);
    if tried == 0 {
        return Shift { tried, worst_mean: 0.0, free_share: 1.0 };
    }
    let worst: Vec<u32> = map(parallel, tried, |at| worst(net, &order, 1 + at * all / tried));
    let sum: u64 = worst.iter().map(|worst| u64::from(*worst)).sum();
    let free = worst.iter().filter(|worst| **worst <= 1).count();
    Shift { tried, worst_mean: sum as f64 / tried as f64, free_share: free as f64 / tried as f64 }
}

/// End ports in shift order: on a tree, in the order of a walk along its cables; otherwise in GUID order.
pub fn by_switches(graph: &Graph) -> Vec<u32> {
    let links = Links::new(graph);
    if tree(graph, &links).is_none() {
        return (0..graph.ends.len() as u32).collect();
    }
    let walk = walk(graph, &links);
    walk.iter().flat_map(|switch| graph.switches[*switch as usize].hung().map(|(_, end)| end)).collect()
}

/// Load of the worst link in a shift.
fn worst(net: &Net<'_>, order: &[u32], shift: usize) -> u32 {
    let mut load = vec![0u32; net.peers.len()];
    let mut worst = 0;
    for (at, from) in order.iter().enumerate() {
        let end = |place: u32| net.graph.ends.get(place as usize);
        let (Some(from), Some(to)) = (end(*from), order.get((at + shift) % order.len()).and_then(|to| end(*to))) else {
            continue;
        };
        let owner = Owner { lid: to.lid, switch: to.switch, port: to.port, is_end: true };
        let mut at = from.switch;
        for _ in 0..net.sources.len() {
            let Step::Hop(link, next) = net.step(at, &owner) else { break };
            load[link] += 1;
            worst = worst.max(load[link]);
            at = next;
        }
    }
    worst
}
