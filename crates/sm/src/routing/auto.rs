//! Default engine: examines the fabric and selects suitable tables. A tree that `ftree` balances as well as any tables
//! could is routed with `ftree`. Otherwise, if the fabric is small enough, several engines that avoid credit loops
//! compute tables, and the best ones are taken and polished. On larger fabrics the first engine with enough VLs is
//! taken.

use crate::graph::Graph;
use crate::tables::Tables;

use super::levels::tree;
use super::links::Links;
use super::polish::variants;
use super::quality::{Checks, bisection_share, check};
use super::{Engine, Request, RouteError, RoutingOptions, engine};

/// `auto`.
pub const ENGINE: Engine = Engine {
    name: "auto",
    about: "recognises trees, tori and dragonflies, and takes balanced tables without credit loops for anything",
    run,
};

/// Engines for a tree, the best first.
const TREE: &[&str] = &["ftree", "dfsssp", "nue", "updn", "minhop"];

/// Engines for anything else, the most specialized first. Each refuses topologies that it does not support; only the
/// last one, which does not avoid credit loops, never does.
const OTHER: &[&str] = &["dragonfly", "torus-2QoS", "dfsssp", "lash", "nue", "dor", "updn", "minhop"];

/// Table entries up to which engines are compared.
const COMPARED_MAX: usize = 1 << 18;

/// Table entries up to which tables are polished, and on trees up to which engines are compared.
const POLISHED_MAX: usize = 1 << 15;

/// Shift permutations to test in a comparison.
const SHIFTS: usize = 32;

/// Weight of shifts in a comparison. All-to-all traffic and random bisections have a weight of one.
const SHIFT_WEIGHT: f64 = 1.4;

/// Random bisections to draw in a comparison...
const BISECTIONS: usize = 64;
/// ... and the minimum share of their bandwidth that polished tables must keep.
const BISECTION_KEPT: f64 = 0.97;

fn run(request: &Request<'_>) -> Result<Tables, RouteError> {
    // All engines may use all available VLs.
    let options = RoutingOptions { nue_max_num_vls: 0, ..request.options.clone() };
    let request = &Request { options: &options, ..*request };
    let graph = request.graph;
    let is_tree = tree(graph, &Links::new(graph)).is_some();
    let names = if is_tree { TREE } else { OTHER };
    let engines: Vec<&Engine> = names.iter().filter_map(|name| engine(name)).collect();
    let entries = graph.switch_count() * (usize::from(graph.lid_top()) + 1);
    let compared_max = if is_tree { POLISHED_MAX } else { COMPARED_MAX };
    // After a fault `ftree` changes few of its paths; a new comparison could change all of them.
    let is_kept = is_tree && request.previous.is_some_and(|previous| previous.tables.engine == TREE[0]);
    if is_kept || entries > compared_max {
        return first(request, &engines);
    }
    let even = if is_tree { even(request, engines[0]) } else { None };
    let best = even.or_else(|| best(request, &engines, entries));
    best.map_or_else(|| first(request, &engines), Ok)
}

/// The tables of the first engine that succeeds.
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

/// The tables of an engine, if no tables could have a lower worst link load.
fn even(request: &Request<'_>, engine: &Engine) -> Option<Tables> {
    let tables = (engine.run)(request).ok()?;
    let quality = check(request.graph, &tables, &Checks { shifts: 0, ..Checks::default() }, request.parallel);
    (quality.is_sound() && quality.load.max <= least(request.graph)).then_some(tables)
}

/// Lower bound of the worst link load for any tables. A switch sends the traffic of its end ports to all other LIDs
/// over its own links, and receives the traffic to its LIDs over them too.
fn least(graph: &Graph) -> u64 {
    let lids = |switch: usize| graph.switches[switch].hung().map(|(_, end)| 1u64 << graph.ends[end as usize].lmc).sum();
    let own: Vec<u64> = (0..graph.switch_count()).map(lids).collect();
    let (all, ends) = (own.iter().sum::<u64>(), graph.ends.len() as u64);
    let bound = |switch: usize| {
        let links = graph.switches[switch].links().count() as u64;
        let hung = graph.switches[switch].hung().count() as u64;
        let out = hung * (all - own[switch]).div_ceil(links.max(1));
        let into = (own[switch] * (ends - hung)).div_ceil(links.max(1));
        if links == 0 { 0 } else { out.max(into) }
    };
    (0..graph.switch_count()).map(bound).max().unwrap_or(0)
}

/// Sound tables, and the figures by which they are compared: the lower, the better.
struct Judged {
    tables: Tables,
    /// All-to-all load of the worst link.
    load: f64,
    /// Mean over shifts of the worst link's load.
    shift: f64,
    /// Inverse of the bandwidth share in random bisections.
    slowdown: f64,
}

/// The best sound tables of all engines, polished.
fn best(request: &Request<'_>, engines: &[&Engine], entries: usize) -> Option<Tables> {
    let checks = Checks { shifts: SHIFTS, ..Checks::default() };
    let judged = engines.iter().filter_map(|engine| {
        let tables = (engine.run)(request).ok()?;
        let quality = check(request.graph, &tables, &checks, request.parallel);
        let share =
            quality.is_sound().then(|| bisection_share(request.graph, &tables, BISECTIONS, request.parallel))?;
        Some(Judged { load: quality.load.max as f64, shift: quality.shift.worst_mean, slowdown: 1.0 / share, tables })
    });
    let judged: Vec<Judged> = judged.collect();
    let least = |of: fn(&Judged) -> f64| judged.iter().map(of).fold(f64::INFINITY, f64::min).max(1e-9);
    let (load, shift, slowdown) = (least(|j| j.load), least(|j| j.shift), least(|j| j.slowdown));
    // Shifts count more than their sum, all-to-all: collectives run one shift at a time. They do not count for so much
    // that a dragonfly with one cable between two groups would give up more in the other two than it gains in shifts.
    // Ties go to the first.
    let price = |j: &Judged| j.load / load + SHIFT_WEIGHT * j.shift / shift + j.slowdown / slowdown;
    let tables = judged.iter().min_by(|a, b| price(a).total_cmp(&price(b)))?.tables.clone();
    Some(if entries <= POLISHED_MAX { polished(request, tables) } else { tables })
}

/// The best variant that is worse in no respect, except slightly in random bisections; the original tables if there is
/// none.
fn polished(request: &Request<'_>, tables: Tables) -> Tables {
    let judge = |tables: &Tables| {
        let quality = check(request.graph, tables, &Checks::default(), request.parallel);
        (quality, bisection_share(request.graph, tables, BISECTIONS, request.parallel))
    };
    let (was, was_share) = judge(&tables);
    let part = |now: f64, was: f64| now / was.max(1e-9);
    let price = |tables: &Tables| {
        let (now, share) = judge(tables);
        let is_no_worse = now.is_sound()
            && now.load.max <= was.load.max
            && now.shift.worst_mean <= was.shift.worst_mean
            && share >= was_share * BISECTION_KEPT;
        let load = part(now.load.max as f64, was.load.max as f64);
        is_no_worse.then(|| load + part(now.shift.worst_mean, was.shift.worst_mean) + part(was_share, share))
    };
    let priced =
        variants(ENGINE.name, request, &tables).into_iter().filter_map(|tables| Some((price(&tables)?, tables)));
    // Ties go to the first variant, and to the original tables over any variant.
    priced
        .filter(|(price, _)| *price < 3.0)
        .min_by(|(a, _), (b, _)| a.total_cmp(b))
        .map_or(tables, |(_, better)| better)
}
