//! Up/down routing: switches have levels below the roots, and a path goes up, then down, never up again; for `dnup`,
//! the reverse. No credit loop can occur. Roots are the configured ones, or the tops of a tree, or the center of any
//! other fabric.

use std::sync::atomic::Ordering;

use crate::graph::Graph;
use crate::tables::Tables;

use super::levels::{Lapses, Levels, centre, tree};
use super::links::Links;
use super::order::{groups, heights};
use super::patch::is_steady;
use super::quality::credit_loop;
use super::spread::spread;
use super::{Engine, Request, RouteError};

/// `updn`.
pub const UPDN: Engine = Engine {
    name: "updn",
    about: "up from the leaves and down again: free of credit loops on any fabric, long ways without a tree",
    run: |request| run("updn", request),
};

/// `dnup`.
pub const DNUP: Engine = Engine {
    name: "dnup",
    about: "away from the switches with hosts and back again, for fabrics with hosts near the roots",
    run: |request| {
        let links = Links::ordered(request);
        let levels = Levels::by_height(&heights(request.graph, &links));
        let before = |old: &Graph| Some(Levels::by_height(&heights(old, &Links::new(old))));
        let steady = is_steady(request, &links, &levels, before);
        by_levels("dnup", request, &links, &levels, steady).map_or_else(|| around("dnup", request, &links, None), Ok)
    },
};

fn run(name: &'static str, request: &Request<'_>) -> Result<Tables, RouteError> {
    let graph = request.graph;
    let links = Links::ordered(request);
    let told = told(name, request)?;
    let Some(levels) = told_or_tree(request, graph, &links) else { return around(name, request, &links, None) };
    let steady = is_steady(request, &links, &levels, |old| told_or_tree(request, old, &Links::new(old)));
    by_levels(name, request, &links, &levels, steady)
        .map_or_else(|| around(name, request, &links, told.first().copied()), Ok)
}

/// Levels below the configured roots, or those of a tree; `None` if the fabric is no tree.
pub fn told_or_tree(request: &Request<'_>, graph: &Graph, links: &Links) -> Option<Levels> {
    let told = places(graph, &request.options.root_guids);
    match told.is_empty() {
        true => tree(graph, links).map(|height| Levels::by_height(&height)),
        false => Some(Levels::by_roots(links, &told)),
    }
}

/// The configured root switches.
pub fn told(name: &'static str, request: &Request<'_>) -> Result<Vec<u32>, RouteError> {
    let told = places(request.graph, &request.options.root_guids);
    if told.is_empty() && !request.options.root_guids.is_empty() {
        let why = "no switch has a GUID of root_guid_file: correct the file, or leave it out to have roots found";
        return Err(RouteError { engine: name, why: why.into() });
    }
    Ok(told)
}

/// Tables around a single root, where all paths can meet; several roots may leave switches that only meet below them.
fn around(name: &'static str, request: &Request<'_>, links: &Links, root: Option<u32>) -> Result<Tables, RouteError> {
    let root = root.unwrap_or_else(|| centre(request.graph, links, request.parallel));
    by_levels(name, request, links, &Levels::by_roots(links, &[root]), false)
        .ok_or_else(|| RouteError { engine: name, why: "the fabric is in parts that no cable joins".into() })
}

/// Tables for these levels; `None` if they disconnect hosts or close a credit loop on the way to some switch.
fn by_levels(
    name: &'static str,
    request: &Request<'_>,
    links: &Links,
    levels: &Levels,
    steady: bool,
) -> Option<Tables> {
    let lapses = Lapses::new(request.graph);
    let groups = groups(request.graph, links, request.options);
    let tables = spread(name, request, links, &groups, steady, &|to| levels.toward(links, to, &lapses, 0));
    is_right(request, &tables, &lapses).then_some(tables)
}

/// Whether all hosts have paths, and paths against the rule close no credit loop.
pub fn is_right(request: &Request<'_>, tables: &Tables, lapses: &Lapses) -> bool {
    let is_safe = || credit_loop(request.graph, tables, request.parallel).is_none();
    !lapses.cut.load(Ordering::Relaxed) && (!lapses.to_switches.load(Ordering::Relaxed) || is_safe())
}

/// The switches with these GUIDs.
fn places(graph: &Graph, guids: &[u64]) -> Vec<u32> {
    let named = (0u32..).zip(&graph.switches).filter(|(_, switch)| guids.contains(&switch.guid));
    named.map(|(place, _)| place).collect()
}
