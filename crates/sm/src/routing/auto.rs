//! No engine named: the fabric is looked at, and gets tables that suit it. Trees are routed as trees; for whatever else,
//! several engines that promise no credit loops compute tables, and the best are taken, if the fabric is small enough to
//! afford the comparison; otherwise the first that the lanes suffice for.

use crate::tables::Tables;

use super::levels::tree;
use super::links::Links;
use super::quality::{Checks, Quality, check};
use super::{Engine, Request, RouteError, RoutingOptions, engine};

/// `auto`.
pub const ENGINE: Engine = Engine {
    name: "auto",
    about: "recognises trees, tori and dragonflies, and takes balanced tables without credit loops for anything",
    run,
};

/// Engines for a tree, the best first.
const TREE: &[&str] = &["ftree", "dfsssp", "nue", "updn", "minhop"];

/// Engines for anything else, the most special first. Each refuses what it is not made for; the last, which
/// promises nothing but ways, never does.
const OTHER: &[&str] = &["dragonfly", "torus-2QoS", "dfsssp", "lash", "nue", "updn", "minhop"];

/// Entries of tables up to which engines are compared.
const COMPARED_MAX: usize = 1 << 18;

/// Shift permutations that a comparison tries.
const SHIFTS: usize = 32;

fn run(request: &Request<'_>) -> Result<Tables, RouteError> {
    // Whichever engine is best takes what lanes there are.
    let options = RoutingOptions { nue_max_num_vls: 0, ..request.options.clone() };
    let request = &Request { options: &options, ..*request };
    let graph = request.graph;
    let is_tree = tree(graph, &Links::new(graph)).is_some();
    let names = if is_tree { TREE } else { OTHER };
    let engines: Vec<&Engine> = names.iter().filter_map(|name| engine(name)).collect();
    let entries = graph.switch_count() * (usize::from(graph.lid_top()) + 1);
    let best = if !is_tree && entries <= COMPARED_MAX { best(request, &engines) } else { None };
    best.map_or_else(|| first(request, &engines), Ok)
}

/// The tables of the first engine that has some.
fn first(request: &Request<'_>, engines: &[&Engine]) -> Result<Tables, RouteError> {
    let mut why = String::from("the fabric has no switches");
    for engine in engines {
        match (engine.run)(request) {
            Ok(tables) => return Ok(tables),
            Err(error) => why = error.to_string(),
        }
    }
    Err(RouteError { engine: ENGINE.name, why })
}

/// The best tables of all engines that have sound ones.
fn best(request: &Request<'_>, engines: &[&Engine]) -> Option<Tables> {
    let checks = Checks { shifts: SHIFTS, ..Checks::default() };
    let judged = engines.iter().filter_map(|engine| {
        let tables = (engine.run)(request).ok()?;
        let quality = check(request.graph, &tables, &checks, request.parallel);
        quality.is_sound().then_some((tables, quality))
    });
    let judged: Vec<(Tables, Quality)> = judged.collect();
    let least =
        |of: &dyn Fn(&Quality) -> f64| judged.iter().map(|(_, q)| of(q)).fold(f64::INFINITY, f64::min).max(1e-9);
    let (load, shift) = (least(&|q| q.load.max as f64), least(&|q| q.shift.worst_mean));
    // Shifts count twice what all to all, their sum, does: collectives go one by one. Of equals the first.
    let price = |q: &Quality| q.load.max as f64 / load + 2.0 * q.shift.worst_mean / shift;
    let at = (0..judged.len()).min_by(|a, b| price(&judged[*a].1).total_cmp(&price(&judged[*b].1)))?;
    judged.into_iter().nth(at).map(|(tables, _)| tables)
}
