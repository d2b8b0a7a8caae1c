//! Random bisections: a random half of the end ports sends to the other half, one to one. A path gets the share of
//! bandwidth that its most loaded link allows.

use crate::parallel::Parallel;
use crate::routing::spread::mix;
use crate::routing::work::map;

use super::net::{Net, Owner, Step};

/// Mean bandwidth share of all paths in `draws` bisections, which are the same for equal numbers of end ports; 1 if
/// there are no paths.
pub fn bisection(net: &Net<'_>, draws: usize, parallel: &dyn Parallel) -> f64 {
    let shares = map(parallel, draws, |draw| share(net, draw as u64));
    let pairs = (net.graph.ends.len() / 2 * draws) as f64;
    if pairs == 0.0 { 1.0 } else { shares.iter().sum::<f64>() / pairs }
}

/// Sum of the bandwidth shares in one bisection.
fn share(net: &Net<'_>, draw: u64) -> f64 {
    let mut ends: Vec<usize> = (0..net.graph.ends.len()).collect();
    ends.sort_by_key(|end| mix(draw << 32 | *end as u64));
    let mut load = vec![0u32; net.peers.len()];
    let paths: Vec<Vec<usize>> = ends.chunks_exact(2).map(|pair| path(net, pair[0], pair[1])).collect();
    paths.iter().flatten().for_each(|link| load[*link] += 1);
    let worst = |path: &Vec<usize>| path.iter().map(|link| load[*link]).max().unwrap_or(1);
    paths.iter().map(|path| 1.0 / f64::from(worst(path))).sum()
}

/// The links on a path.
fn path(net: &Net<'_>, from: usize, to: usize) -> Vec<usize> {
    let (from, to) = (&net.graph.ends[from], &net.graph.ends[to]);
    let owner = Owner { lid: to.lid, switch: to.switch, port: to.port, is_end: true };
    let (mut at, mut links) = (from.switch, Vec::new());
    for _ in 0..net.sources.len() {
        let Step::Hop(link, next) = net.step(at, &owner) else { break };
        links.push(link);
        at = next;
    }
    links
}
