//! Improves tables of shortest paths: lowers the worst all-to-all load and the conflicts in shifts. Paths keep their
//! length and stay free of credit loops through VLs.

use crate::tables::Tables;

use super::Request;
use super::lanes::assign;
use super::moves::{Rules, improve};
use super::net::{NOWHERE, Net};
use super::quality::by_switches;
use super::relief::relieve;
use super::trees::{Tree, by_tables};
use super::work::map;

/// Increases over the least worst load found, in percent, to try: room for shifts.
const ROOMS: &[u32] = &[0, 3, 6];

/// Improved variants of tables of shortest paths, under the name of `engine`. Returns none if some path is not a
/// shortest one, if links differ in speed, or if the fabric is too large.
pub(super) fn variants(engine: &'static str, request: &Request<'_>, tables: &Tables) -> Vec<Tables> {
    let net = Net::new(request.graph);
    let even = net.channels.windows(2).all(|pair| pair[0].scale == pair[1].scale);
    let far = net.distances(request.parallel);
    let trees = by_tables(&net, tables);
    if !even || !trees.iter().all(|tree| is_shortest(&net, &far, tree)) {
        return Vec::new();
    }
    let nearer = |target: u32, channel: usize| is_nearer(&net, &far[target as usize], channel);
    let order = by_switches(request.graph);
    let mut relieved = trees.clone();
    let least = relieve(&net, &far, &mut relieved);
    let finish = |trees: Vec<Tree>| {
        let assigned = assign(&net, &far, &trees, net.lanes_max(request)).ok()?;
        let mut tables = net.tables(engine, request.graph, trees.iter());
        (tables.service_levels, tables.lanes) = assigned.levels(&net, request.graph);
        Some(tables)
    };
    let tries: Vec<(&Vec<Tree>, u32)> =
        [&trees, &relieved].into_iter().flat_map(|from| ROOMS.iter().map(move |room| (from, *room))).collect();
    let improved = map(request.parallel, tries.len(), |at| {
        let (from, room) = tries[at];
        let mut trees = from.clone();
        let cap = u64::from(least) * u64::from(100 + room) / 100;
        let cap = Some(u32::try_from(cap).unwrap_or(u32::MAX));
        let rules = Rules { hop: &nearer, turn: &|_, _, _| true, room: 0, cap };
        improve(&net, request.graph, &mut trees, &order, &rules)?;
        finish(trees)
    });
    improved.into_iter().flatten().collect()
}

/// Whether all paths of a tree are shortest paths.
fn is_shortest(net: &Net, far: &[Vec<u16>], tree: &Tree) -> bool {
    let far = &far[tree.switch as usize];
    tree.ways.iter().enumerate().all(|(at, place)| match net.channel(at, *place) {
        Some(channel) => is_nearer(net, far, channel),
        None => at == tree.switch as usize && *place == NOWHERE,
    })
}

/// Whether a channel is on a shortest path, given distances to the destination.
fn is_nearer(net: &Net, far: &[u16], channel: usize) -> bool {
    let way = net.channels[channel];
    let (here, there) = (far[way.from as usize], far[way.to as usize]);
    there < here && there + way.weight == here
}
