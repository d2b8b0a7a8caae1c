//! Reachability of every LID from every switch, path lengths, and link loads.

use crate::parallel::Parallel;

use super::net::{Net, Owner, Step};

/// Reachability and path lengths. The hops of a path are the switches that it crosses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reach {
    /// Number of pairs of a switch and a LID.
    pub pairs: u64,
    /// Number of pairs without a path.
    pub broken: u64,
    /// Number of these pairs whose path is a loop.
    pub loops: u64,
    /// The first pair without a path, by LID.
    pub first: Option<Broken>,
    /// Mean number of hops over all pairs of end ports.
    pub hops_mean: f64,
    /// Number of hops of the longest path between end ports.
    pub hops_max: u32,
}

/// A path that does not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The switch where the path starts.
    pub from: u32,
    /// The LID.
    pub lid: u16,
    /// The last switch reached.
    pub at: u32,
    /// Reason.
    pub why: Why,
}

/// Reason that a path does not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The table has no entry.
    Unset,
    /// The entry names a port that leads elsewhere or nowhere.
    Astray,
    /// The path is a loop.
    Loop,
}

/// Loads of links between switches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Load of the worst link.
    pub max: u64,
    /// Sum of all loads.
    pub sum: u64,
    /// Number of links, each direction counted.
    pub links: u64,
    /// Number of links without load.
    pub unused: u64,
    /// The worst link: switch and port.
    pub worst: Option<(u32, u8)>,
}

impl Load {
    /// Mean load of a link.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.links.max(1) as f64
    }

    /// Ratio of the worst load to the mean; 1 if there is no load.
    pub fn max_over_mean(&self) -> f64 {
        if self.sum == 0 { 1.0 } else { self.max as f64 / self.mean() }
    }
}

#[derive(Default)]
struct Found {
    reach: Reach,
    hops: u64,
    paths: u64,
    load: Vec<u64>,
}

/// Walks every path.
pub fn reach(net: &Net<'_>, parallel: &dyn Parallel) -> (Reach, Load) {
    let start = || Found { load: vec![0; net.peers.len()], ..Found::default() };
    let found = net.pieces(parallel, start, |found, owner| walk(net, found, owner), join);
    let mut reach = found.reach;
    reach.hops_mean = found.hops as f64 / found.paths.max(1) as f64;
    (reach, sum_up(net, &found.load))
}

/// The LIDs that some switch cannot reach.
pub fn missing(net: &Net<'_>) -> Vec<u16> {
    let mut found = Found { load: vec![0; net.peers.len()], ..Found::default() };
    let switches = || 0..net.sources.len() as u32;
    let is_missing = |to: &&Owner| switches().any(|from| path(net, &mut found, from, to, 0).is_err());
    net.owners.iter().filter(is_missing).map(|to| to.lid).collect()
}

/// Walks the paths from every switch to a LID.
fn walk(net: &Net<'_>, found: &mut Found, to: &Owner) {
    for from in 0..net.sources.len() as u32 {
        let sources = match to.is_end {
            true => u64::from(net.sources[from as usize]) - u64::from(from == to.switch),
            false => 0,
        };
        found.reach.pairs += 1;
        match path(net, found, from, to, sources) {
            Ok(hops) if sources > 0 => {
                found.hops += u64::from(hops) * sources;
                found.paths += sources;
                found.reach.hops_max = found.reach.hops_max.max(hops);
            }
            Ok(_) => {}
            Err(broken) => {
                found.reach.broken += 1;
                found.reach.loops += u64::from(broken.why == Why::Loop);
                found.reach.first.get_or_insert(broken);
            }
        }
    }
}

/// Number of switches on the path from a switch.
fn path(net: &Net<'_>, found: &mut Found, from: u32, to: &Owner, sources: u64) -> Result<u32, Broken> {
    let (mut at, mut hops) = (from, 1);
    let broken = |at, why| Broken { from, lid: to.lid, at, why };
    loop {
        match net.step(at, to) {
            Step::Arrived => return Ok(hops),
            Step::Hop(link, next) => {
                found.load[link] += sources;
                at = next;
                hops += 1;
            }
            Step::Unset => return Err(broken(at, Why::Unset)),
            Step::Astray => return Err(broken(at, Why::Astray)),
        }
        if hops as usize > net.sources.len() {
            return Err(broken(at, Why::Loop));
        }
    }
}

fn join(all: &mut Found, one: Found) {
    let (a, b) = (&mut all.reach, one.reach);
    a.pairs += b.pairs;
    a.broken += b.broken;
    a.loops += b.loops;
    a.hops_max = a.hops_max.max(b.hops_max);
    a.first = [a.first, b.first].into_iter().flatten().min_by_key(|broken| (broken.lid, broken.from));
    all.hops += one.hops;
    all.paths += one.paths;
    all.load.iter_mut().zip(one.load).for_each(|(sum, more)| *sum += more);
}

fn sum_up(net: &Net<'_>, loads: &[u64]) -> Load {
    let mut load = Load::default();
    for (place, carried) in loads.iter().enumerate().filter(|(place, _)| net.peers[*place] != super::net::NONE) {
        load.links += 1;
        load.sum += carried;
        load.unused += u64::from(*carried == 0);
        if *carried > load.max {
            load.max = *carried;
            load.worst = Some(((place / net.stride) as u32, (place % net.stride) as u8));
        }
    }
    load
}
