//! Engines that avoid credit loops, on complete topologies and on ones that lack links and switches.

use proptest::prelude::*;
use weft_fabric::topology::generate::Shape;

use crate::graph::{Graph, Peer, Port};
use crate::parallel::Sequential;
use crate::routing::figures::{random, topology, torus};
use crate::routing::quality::{Checks, Quality, check};
use crate::routing::record::{BEST, NUE};
use crate::routing::{Request, RouteError, RoutingOptions, engine};
use crate::tables::Tables;
use crate::testing::generated;

/// Engines for any topology, with numbers of VLs.
const GENERAL: &[(&str, u8)] = &[("dfsssp", 8), ("lash", 8), ("nue", 1), ("nue", 2), ("nue", 8)];

/// Options that allow this number of VLs.
fn on_lanes(lanes: u8) -> RoutingOptions {
    RoutingOptions { lanes_max: lanes, nue_max_num_vls: lanes, ..RoutingOptions::default() }
}

pub fn route(name: &str, graph: &Graph, options: &RoutingOptions) -> Result<Tables, RouteError> {
    (engine(name).expect("an engine").run)(&Request::new(graph, options, &Sequential))
}

/// The quality of an engine's tables, with shifts in end port order.
pub fn judge(name: &str, graph: &Graph, options: &RoutingOptions) -> Quality {
    let tables = route(name, graph, options).expect("tables");
    let order = (0..graph.ends.len() as u32).collect();
    check(graph, &tables, &Checks { shifts: 64, order, ..Checks::default() }, &Sequential)
}

/// The figures that tests pin: worst load, VLs.
fn pin(name: &str, on: &str) -> (u64, u8) {
    let quality = judge(name, &topology(on), &RoutingOptions::default());
    assert_eq!(quality.reach.broken, 0, "{name} on {on}: {:?}", quality.reach.first);
    assert_eq!(quality.credit_loop, None, "{name} on {on}");
    (quality.load.max, quality.lanes)
}

pub fn cut(graph: &mut Graph, switch: u32, port: u8) {
    let place = &mut graph.switches[switch as usize].ports[usize::from(port)];
    if let Peer::Switch { switch, port } = std::mem::take(&mut place.peer) {
        graph.switches[switch as usize].ports[usize::from(port)] = Port::default();
    }
}

/// The graph without one link, selected by `number`.
pub fn without_link(mut graph: Graph, number: usize) -> Graph {
    let links: Vec<(u32, u8)> = (0u32..)
        .zip(&graph.switches)
        .flat_map(|(at, switch)| switch.links().map(move |(port, ..)| (at, port)))
        .collect();
    if let Some((switch, port)) = links.get(number % links.len().max(1)) {
        cut(&mut graph, *switch, *port);
    }
    graph
}

/// The graph without a switch and its end ports.
pub fn without_switch(graph: &Graph, gone: u32) -> Graph {
    let moved = |switch: u32| if switch > gone { switch - 1 } else { switch };
    let mut left = Graph::default();
    let mut ends = vec![None; graph.ends.len()];
    for (at, end) in graph.ends.iter().enumerate().filter(|(_, end)| end.switch != gone) {
        ends[at] = Some(left.ends.len() as u32);
        left.ends.push(crate::graph::End { switch: moved(end.switch), ..end.clone() });
    }
    for (_, switch) in (0u32..).zip(&graph.switches).filter(|(at, _)| *at != gone) {
        let mut switch = switch.clone();
        for port in &mut switch.ports {
            port.peer = match port.peer {
                Peer::Switch { switch, .. } if switch == gone => Peer::None,
                Peer::Switch { switch, port } => Peer::Switch { switch: moved(switch), port },
                Peer::End(end) => ends[end as usize].map_or(Peer::None, Peer::End),
                Peer::None => Peer::None,
            };
        }
        left.switches.push(switch);
    }
    left
}

/// Whether every switch is reachable from the first.
fn connected(graph: &Graph) -> bool {
    let mut seen = vec![false; graph.switch_count()];
    let mut next = vec![0u32];
    while let Some(at) = next.pop() {
        if !std::mem::replace(&mut seen[at as usize], true) {
            next.extend(graph.switches[at as usize].links().map(|(_, to, _)| to));
        }
    }
    seen.into_iter().all(|seen| seen)
}

#[test]
fn small_topologies_are_routed_soundly() {
    let shapes = [
        Shape::Star { hosts: 3 },
        Shape::FatTree { radix: 8, levels: 2, hosts: None, hosts_per_leaf: None },
        Shape::FatTree { radix: 6, levels: 3, hosts: None, hosts_per_leaf: None },
        Shape::Torus { sizes: vec![5, 3], hosts_per_switch: 2, wraps: true },
        Shape::Torus { sizes: vec![4, 3, 2], hosts_per_switch: 1, wraps: false },
        Shape::Torus { sizes: vec![2, 2, 2, 2], hosts_per_switch: 1, wraps: false },
        Shape::Torus { sizes: vec![7], hosts_per_switch: 1, wraps: true },
        Shape::Random { switches: 20, degree: 3, hosts_per_switch: 2, seed: 7 },
    ];
    for shape in shapes {
        let graph = generated(shape.clone());
        for (name, lanes_max) in GENERAL {
            let options = on_lanes(*lanes_max);
            let quality = judge(name, &graph, &options);
            assert!(quality.is_sound(), "{name} on {shape}: {quality}");
        }
    }
}

/// Every worst load is at most that of OpenSM 3.3.23's best engine on the same topology (48, 576, 640, 88, 1472, 22,
/// 528). On the tori, where OpenSM's engines run out of VLs, some VLs are left.
#[test]
fn balanced_engines_keep_their_figures() {
    let pins: &[(&str, &str, (u64, u8))] = &[
        ("dfsssp", "t444", (32, 1)),
        ("dfsssp", "t1616", (528, 4)),
        ("dfsssp", "t888", (576, 7)),
        ("dfsssp", "df264", (72, 2)),
        ("dfsssp", "rnd10", (18, 2)),
        ("dfsssp", "rnd64", (472, 4)),
        ("lash", "t444", (32, 1)),
        ("lash", "t1616", (528, 4)),
        ("lash", "df264", (72, 2)),
    ];
    for (name, on, figures) in pins {
        assert_eq!(pin(name, on), *figures, "{name} on {on}");
    }
}

/// Neither figure of `auto` is worse than that of OpenSM's best engine; larger fabrics are compared by the example.
#[test]
fn no_engine_of_opensm_loads_links_less() {
    for name in ["ft324", "t444", "t1616", "df264", "rnd10", "rnd64"] {
        let graph = topology(name);
        let best = BEST.iter().find(|best| best.fabric == name).expect("a record");
        let tables = route("auto", &graph, &RoutingOptions::default()).expect("tables");
        let order = (0..graph.ends.len() as u32).collect();
        let ours = check(&graph, &tables, &Checks { order, ..Checks::default() }, &Sequential);
        assert!(ours.is_sound() && ours.lanes <= 8, "{name}: {ours}");
        assert!(ours.load.max <= best.all_to_all.0, "{name}: {ours}");
        assert!(ours.shift.worst_mean <= best.shift.0, "{name}: {ours}");
    }
}

/// Upper bounds for Weft's nue: worst all-to-all link load, mean worst link load of shifts. Most are far below
/// OpenSM's.
const NUE_PINS: &[(&str, u8, u64, f64)] = &[
    ("ft324", 1, 306, 1.0),
    ("ft1944", 1, 1926, 1.0),
    ("t444", 1, 32, 1.0),
    ("t444", 8, 32, 1.0),
    ("t1616", 1, 1205, 7.25),
    ("t1616", 8, 528, 5.34),
    ("df264", 1, 114, 5.14),
    ("df264", 8, 72, 5.47),
    ("df1056", 1, 2140, 19.90),
    ("df1056", 8, 1244, 20.78),
    ("rnd10", 1, 18, 2.32),
    ("rnd10", 8, 18, 2.11),
    ("rnd64", 1, 624, 6.15),
    ("rnd64", 8, 472, 6.92),
];

#[test]
fn nue_is_no_worse_than_opensms_and_than_it_was() {
    for (name, lanes, load, shift) in NUE_PINS {
        let theirs = NUE.iter().find(|theirs| (theirs.0, theirs.1) == (*name, *lanes)).expect("a record");
        assert!(*load <= theirs.2 && *shift <= theirs.3, "{name} on {lanes}: a pin above OpenSM's");
        let graph = topology(name);
        let tables = route("nue", &graph, &on_lanes(*lanes)).expect("tables");
        let order = (0..graph.ends.len() as u32).collect();
        let ours = check(&graph, &tables, &Checks { order, ..Checks::default() }, &Sequential);
        assert!(ours.is_sound() && ours.lanes <= *lanes, "{name} on {lanes}: {ours}");
        // The pins have two decimals.
        assert!(ours.load.max <= *load && ours.shift.worst_mean <= *shift + 0.005, "{name} on {lanes}: {ours}");
    }
}

/// Topologies on which `auto` selects the paths that balance shifts best.
#[test]
fn auto_shares_shifts_on_random_graphs() {
    for (name, load, shift) in [("rnd10", 18, 2.12), ("rnd64", 472, 6.92)] {
        let graph = topology(name);
        let tables = route("auto", &graph, &RoutingOptions::default()).expect("tables");
        let order = (0..graph.ends.len() as u32).collect();
        let ours = check(&graph, &tables, &Checks { order, ..Checks::default() }, &Sequential);
        assert!(ours.is_sound() && ours.load.max <= load && ours.shift.worst_mean <= shift, "{name}: {ours}");
    }
}

#[test]
fn too_few_lanes_are_told() {
    for name in ["dfsssp", "lash"] {
        let options = RoutingOptions { lanes_max: 1, ..RoutingOptions::default() };
        let error = route(name, &torus(&[5, 5], 1), &options).expect_err("credit loops on one lane");
        assert!(error.to_string().contains("each of 1 lanes"), "{error}");
    }
}

#[test]
fn nue_keeps_to_the_lanes_that_it_is_given() {
    for lanes in [1, 2, 3] {
        let quality = judge("nue", &torus(&[6, 6], 1), &on_lanes(lanes));
        assert!(quality.is_sound() && quality.lanes <= lanes, "{quality}");
    }
    let told = RoutingOptions { nue_max_num_vls: 0, ..RoutingOptions::default() };
    assert!(judge("nue", &torus(&[6, 6], 1), &told).is_sound());
}

#[test]
fn lash_begins_at_the_lane_that_it_is_told() {
    let graph = torus(&[5, 5], 1);
    let options = RoutingOptions { lash_start_vl: 2, ..RoutingOptions::default() };
    let tables = route("lash", &graph, &options).expect("tables");
    assert_eq!(tables.lane_count(), 5);
    let levels = (0..25u32).flat_map(|from| (0..25u32).map(move |to| (from, to)));
    assert!(levels.into_iter().all(|(from, to)| (2..5).contains(&tables.service_level(from, to, 1).expect("one"))));
}

#[test]
fn dimension_order_is_free_of_credit_loops_on_a_mesh_and_a_hypercube() {
    for sizes in [vec![4, 5], vec![3, 3, 3], vec![2, 2, 2, 2]] {
        let graph = generated(Shape::Torus { sizes, hosts_per_switch: 1, wraps: false });
        assert!(judge("dor", &graph, &RoutingOptions::default()).is_sound());
    }
}

#[test]
fn dimension_order_on_a_torus_is_as_opensms() {
    let quality = judge("dor", &topology("t444"), &RoutingOptions::default());
    assert_eq!((quality.reach.broken, quality.load.max), (0, 48));
    assert!(quality.credit_loop.is_some());
}

#[test]
fn the_order_of_dimensions_can_be_told() {
    // Ports 1 and 2 are one dimension, 3 and 4 the other; the configuration reverses their order.
    let graph = generated(Shape::Torus { sizes: vec![3, 3], hosts_per_switch: 1, wraps: true });
    let far = graph.ends[4].lid;
    let plain = route("dor", &graph, &RoutingOptions::default()).expect("tables");
    let dimn_ports = graph.switches.iter().map(|switch| (switch.guid, vec![3, 4, 1, 2])).collect();
    let told = route("dor", &graph, &RoutingOptions { dimn_ports, ..RoutingOptions::default() }).expect("tables");
    let first = |tables: &Tables| tables.port(0, far).expect("a port");
    assert!(first(&plain) <= 2 && first(&told) >= 3, "{} {}", first(&plain), first(&told));
}

#[test]
fn several_lids_of_a_port_take_different_ways() {
    let mut graph = random(10, 4, 2);
    let switches = graph.switch_count() as u16;
    for (at, end) in (0u16..).zip(&mut graph.ends) {
        (end.lid, end.lmc) = (4 * (switches / 4 + 1 + at), 2);
    }
    for (name, _) in GENERAL {
        let tables = route(name, &graph, &RoutingOptions::default()).expect("tables");
        let quality = check(&graph, &tables, &Checks::default(), &Sequential);
        assert!(quality.is_sound(), "{name}: {quality}");
    }
    let tables = route("dfsssp", &graph, &RoutingOptions::default()).expect("tables");
    let differ =
        |lft: &Vec<u8>| graph.ends.iter().any(|end| lft[usize::from(end.lid)] != lft[usize::from(end.lid) + 1]);
    assert!(tables.lfts.iter().any(differ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn faulty_fabrics_are_routed_soundly(
        which in 0usize..4, links in prop::collection::vec(0usize..10_000, 0..4), gone in 0u32..1000
    ) {
        let whole = [
            || torus(&[4, 4, 4], 1), || torus(&[6, 5], 1), || topology("df264"), || random(24, 4, 1),
        ][which]();
        let graph = links.iter().fold(whole, |graph, link| without_link(graph, *link));
        let graph = if gone < 500 { without_switch(&graph, gone % graph.switch_count() as u32) } else { graph };
        prop_assume!(connected(&graph));
        for (name, lanes_max) in GENERAL {
            let options = on_lanes(*lanes_max);
            let quality = judge(name, &graph, &options);
            prop_assert!(quality.is_sound(), "{} on {}: {}", name, which, quality);
        }
    }
}
