//! Random regular networks: every switch has the same number of cables to random others. A ring with chords is shuffled
//! by swapping the ends of two cables at a time, which keeps every switch's number of cables.

use crate::rng::Rng;
use rustc_hash::FxHashSet;

use super::cluster::Cluster;
use super::plan::refuse;
use crate::topology::{Result, limits};

/// Swaps tried for each cable: enough to forget the ring.
const SWAPS_PER_CABLE: u64 = 20;
/// Shuffles tried until one is connected; from degree 3 on, almost every one is.
const SHUFFLES_MAX: u32 = 64;

/// Generates the network.
pub fn draw(c: &mut Cluster<'_>, switches: u32, degree: u8, hosts: u8, seed: u64) -> Result<()> {
    let nodes = u64::from(switches) * (1 + u64::from(hosts));
    let ports = u32::from(degree) + u32::from(hosts);
    let odd = u64::from(switches) * u64::from(degree) % 2 == 1;
    let loose = degree < 2 && switches > 2;
    if switches < 2 || degree == 0 || u32::from(degree) >= switches || odd || loose {
        return refuse(
            format!("{switches} switches with {degree} cables each"),
            "each has 2 or more and fewer than there are switches, and both numbers cannot be odd: --random 64,5",
        );
    }
    if nodes > limits::NODES_MAX as u64 || ports > u32::from(limits::PORTS_MAX) {
        return refuse(
            format!("{nodes} nodes, {ports} ports a switch"),
            format!("at most {} nodes, {} ports a switch", limits::NODES_MAX, limits::PORTS_MAX),
        );
    }
    let cables = shuffled(switches, u32::from(degree), seed);
    let mut places = Vec::new();
    for number in 1..=switches {
        let place = c.switch(&format!("sw{number}"), ports)?;
        places.push(place);
        for host in 1..=u32::from(hosts) {
            c.host_at(place, u32::from(degree) + host)?;
        }
    }
    let mut next = vec![1; places.len()];
    for (a, b) in cables {
        let (a, b) = (a as usize, b as usize);
        c.cable(places[a], next[a], places[b], next[b])?;
        next[a] += 1;
        next[b] += 1;
    }
    Ok(())
}

/// Returns a connected set of cables, as pairs of switches.
fn shuffled(switches: u32, degree: u32, seed: u64) -> Vec<(u32, u32)> {
    let mut lots = Rng::new(seed);
    let mut cables = ring(switches, degree);
    for _ in 0..SHUFFLES_MAX {
        let mut trial = cables.clone();
        shuffle(&mut trial, &mut lots);
        if connected(switches, &trial) {
            return trial;
        }
        cables = trial;
    }
    // The ring itself is connected.
    ring(switches, degree)
}

/// Cables every switch to its next ones on a circle; for an odd degree also to the opposite one.
fn ring(switches: u32, degree: u32) -> Vec<(u32, u32)> {
    let mut cables = Vec::new();
    for step in 1..=degree / 2 {
        for a in 0..switches {
            cables.push((a, (a + step) % switches));
        }
    }
    if degree % 2 == 1 {
        cables.extend((0..switches / 2).map(|a| (a, a + switches / 2)));
    }
    cables
}

fn shuffle(cables: &mut [(u32, u32)], lots: &mut Rng) {
    let key = |a: u32, b: u32| (a.min(b), a.max(b));
    let mut laid: FxHashSet<(u32, u32)> = cables.iter().map(|(a, b)| key(*a, *b)).collect();
    let count = cables.len() as u64;
    for _ in 0..count * SWAPS_PER_CABLE {
        let (i, j) = (lots.below(count) as usize, lots.below(count) as usize);
        let ((a, b), (c, d)) = (cables[i], cables[j]);
        if a == c || a == d || b == c || b == d || laid.contains(&key(a, d)) || laid.contains(&key(c, b)) {
            continue;
        }
        laid.remove(&key(a, b));
        laid.remove(&key(c, d));
        laid.insert(key(a, d));
        laid.insert(key(c, b));
        (cables[i], cables[j]) = ((a, d), (c, b));
    }
}

fn connected(switches: u32, cables: &[(u32, u32)]) -> bool {
    let mut neighbours = vec![Vec::new(); switches as usize];
    for (a, b) in cables {
        neighbours[*a as usize].push(*b);
        neighbours[*b as usize].push(*a);
    }
    let (mut seen, mut open) = (vec![false; switches as usize], vec![0u32]);
    let mut count = 0;
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut seen[at as usize], true) {
            count += 1;
            open.extend(&neighbours[at as usize]);
        }
    }
    count == switches
}
