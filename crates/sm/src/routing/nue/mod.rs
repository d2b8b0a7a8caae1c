//! Paths without credit loops on any number of VLs, even one, as in Nue (Domke, Hoefler, Matsuoka: "Routing on the
//! Dependency Graph: A New Approach to Deadlock-Free High-Performance Routing"). If balanced shortest paths fit the
//! VLs, they are used. Otherwise each VL gets a share of the destinations and permits the turns that these need: up and
//! down by ranks that suit their paths (`ranks`). Trees grow along these turns (`grow`, `search`), and are finally
//! improved for shifts.

mod grow;
mod ranks;
mod search;

use crate::graph::Graph;
use crate::tables::Tables;

use super::lanes::{Assigned, assign};
use super::levels::tree;
use super::links::Links;
use super::minhop;
use super::moves::{Figures, Rules, improve};
use super::net::Net;
use super::quality::by_switches;
use super::trees::{Tree, by_tables, by_target};
use super::work::map;
use super::{Engine, Request, RouteError};

use grow::{Grower, Style};

/// `nue`.
pub const ENGINE: Engine =
    Engine { name: "nue", about: "balanced ways free of credit loops on any number of lanes, one included", run };

/// Maximum number of styles of ranks to try...
const STYLES_MAX: usize = 48;
/// ... and minimum, however large the fabric is; between them, `WORK_MAX` channels to examine set the number.
const STYLES_MIN: usize = 3;
/// Number of styles from which on they are tried with a tree for every adapter instead of every switch.
const EXACT_MIN: usize = 48;
const WORK_MAX: usize = 3_000_000;
/// Increase of the worst all-to-all load, in percent, that is acceptable for better shifts.
const ROOM: u32 = 15;

fn run(request: &Request<'_>) -> Result<Tables, RouteError> {
    let net = Net::new(request.graph);
    let far = net.distances(request.parallel);
    let lanes_max = match request.options.nue_max_num_vls {
        0 => net.lanes_max(request),
        told => told.min(net.lanes_max(request)),
    };
    let (trees, assigned) = on_tree(request, &net, &far, lanes_max).unwrap_or_else(|| {
        let order = by_switches(request.graph);
        let shortest = by_target(&net, &far, &|_, _| true);
        match assign(&net, &far, &shortest, lanes_max) {
            Ok(assigned) => {
                shared(request.graph, &net, &far, &shortest, &order, lanes_max).unwrap_or((shortest, assigned))
            }
            Err(_) => best(request, &net, &far, &shortest, lanes_max).grow(request.graph, &order),
        }
    });
    let mut tables = net.tables(ENGINE.name, request.graph, trees.iter());
    (tables.service_levels, tables.lanes) = assigned.levels(&net, request.graph);
    Ok(tables)
}

/// On trees, the shortest paths as `minhop` spreads them, so that shifts do not collide; `None` if the fabric is no
/// tree or needs more VLs.
fn on_tree(request: &Request<'_>, net: &Net, far: &[Vec<u16>], lanes_max: u8) -> Option<(Vec<Tree>, Assigned)> {
    tree(request.graph, &Links::new(request.graph))?;
    let tables = (minhop::ENGINE.run)(&Request { previous: None, ..*request }).ok()?;
    let trees = by_tables(net, &tables);
    let assigned = assign(net, far, &trees, lanes_max).ok()?;
    Some((trees, assigned))
}

/// The shortest paths, improved for shifts; `None` if they need more VLs.
fn shared(
    graph: &Graph,
    net: &Net,
    far: &[Vec<u16>],
    shortest: &[Tree],
    order: &[u32],
    lanes_max: u8,
) -> Option<(Vec<Tree>, Assigned)> {
    let nearer = |target: u32, channel: usize| {
        let (far, way) = (&far[target as usize], net.channels[channel]);
        let (here, there) = (far[way.from as usize], far[way.to as usize]);
        there < here && there + way.weight == here
    };
    let with = |room: u32| {
        let mut trees = shortest.to_vec();
        let rules = Rules { hop: &nearer, turn: &|_, _, _| true, room, cap: None };
        let figures = improve(net, graph, &mut trees, order, &rules)?;
        Some((figures, trees))
    };
    let mut tries: Vec<(Figures, Vec<Tree>)> = [0, ROOM].into_iter().filter_map(with).collect();
    tries.retain(|(_, trees)| assign(net, far, trees, lanes_max).is_ok());
    let all = tries.iter().map(|(figures, _)| figures.all).fold(f64::INFINITY, f64::min);
    let shift = tries.iter().map(|(figures, _)| figures.shift).fold(f64::INFINITY, f64::min);
    // The same weights as in `auto`.
    let price = |figures: &Figures| figures.all / all + 2.0 * figures.shift / shift;
    let (_, mut trees) = tries.into_iter().min_by(|(a, _), (b, _)| price(a).total_cmp(&price(b)))?;
    like_adapters(&mut trees);
    let assigned = assign(net, far, &trees, lanes_max).ok()?;
    Some((trees, assigned))
}

/// Copies the tree of an adapter to the LIDs of its switch, so that they need no further turns.
fn like_adapters(trees: &mut [Tree]) {
    for at in (0..trees.len()).filter(|at| trees[*at].paths == 0).collect::<Vec<_>>() {
        let switch = trees[at].switch;
        let known = trees.iter().find(|tree| tree.paths > 0 && tree.switch == switch).map(|tree| tree.ways.clone());
        if let Some(ways) = known {
            trees[at].ways = ways;
        }
    }
}

/// VLs with the ranks that promise the lowest worst link load.
fn best<'a>(request: &Request<'_>, net: &'a Net, far: &'a [Vec<u16>], wanted: &[Tree], lanes_max: u8) -> Grower<'a> {
    let lanes = usize::from(lanes_max);
    let styles = |trees: usize| WORK_MAX / (2 * trees * net.channels.len()).max(1);
    let exact = styles(net.targets.len()) >= EXACT_MIN;
    let ranks = styles(net.switch_count()).clamp(STYLES_MIN, STYLES_MAX);
    let styles: Vec<Style> = [false, true]
        .into_iter()
        .filter(|open| exact || !open)
        .flat_map(|open| (0..ranks).map(move |ranks| Style { ranks, open }))
        .collect();
    let worst =
        map(request.parallel, styles.len(), |at| Grower::new(net, far, lanes, wanted, styles[at]).estimate(exact));
    let least = styles.iter().zip(worst).min_by_key(|(_, worst)| *worst);
    Grower::new(net, far, lanes, wanted, least.map_or(Style::default(), |(style, _)| *style))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::Sequential;
    use crate::routing::figures::{random, torus};
    use crate::routing::matrix::without_link;
    use crate::routing::quality::{Checks, check};

    #[test]
    fn every_style_is_sound_on_any_number_of_lanes() {
        for graph in [torus(&[5, 5], 2), random(16, 3, 1), without_link(torus(&[4, 3, 3], 1), 7)] {
            let net = Net::new(&graph);
            let far = net.distances(&Sequential);
            let wanted = by_target(&net, &far, &|_, _| true);
            let order = by_switches(&graph);
            for (lanes, ranks, open) in
                [1, 2, 3].into_iter().flat_map(|lanes| (0..8).flat_map(move |h| [(lanes, h, false), (lanes, h, true)]))
            {
                let (trees, assigned) =
                    Grower::new(&net, &far, lanes, &wanted, Style { ranks, open }).grow(&graph, &order);
                let mut tables = net.tables(ENGINE.name, &graph, trees.iter());
                (tables.service_levels, tables.lanes) = assigned.levels(&net, &graph);
                let quality = check(&graph, &tables, &Checks::default(), &Sequential);
                assert!(quality.is_sound(), "{lanes} lanes, style {ranks}, {open}: {quality}");
                assert!(usize::from(quality.lanes) <= lanes);
            }
        }
    }
}
