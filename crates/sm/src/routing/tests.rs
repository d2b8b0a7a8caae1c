//! Tree engines on trees: full and thinned ones, with random GUIDs, with missing links and hosts.

use proptest::prelude::*;
use weft_fabric::topology::generate::Shape;

use super::matrix::{judge, without_link};
use super::quality::{Checks, Quality, check};
use super::testing::{Tree, hang, shuffled};
use super::{Previous, Request, RoutingOptions, engine};
use crate::graph::{Graph, Peer, Port};
use crate::parallel::Sequential;
use crate::tables::Tables;
use crate::testing::generated;

fn full(radix: u8, levels: u8) -> Graph {
    generated(Shape::FatTree { radix, levels, hosts: None, hosts_per_leaf: None })
}

fn tables(name: &str, graph: &Graph, options: &RoutingOptions, previous: Option<Previous<'_>>) -> Tables {
    let request = Request { previous, ..Request::new(graph, options, &Sequential) };
    (engine(name).expect("an engine").run)(&request).expect("tables")
}

/// The quality on a graph with this shift order of end ports.
fn in_order(name: &str, graph: &Graph, order: Vec<u32>) -> Quality {
    let tables = tables(name, graph, &RoutingOptions::default(), None);
    check(graph, &tables, &Checks { order, ..Checks::default() }, &Sequential)
}

/// Two pods of two leaves and two spines.
const SMALL: Tree = Tree { pods: 2, leaves: 2, spines: 2, hosts: 2, cables: 1, up: 2, cores: 2, side_by_side: false };

const TREE_ENGINES: &[&str] = &["minhop", "updn", "dnup", "ftree", "auto"];

#[test]
fn no_shift_collides_on_a_full_tree_whoever_numbered_it() {
    let trees = [
        full(8, 2),
        full(8, 3),
        full(4, 4),
        // Two cables from a spine to each core; then cores shared by several spines of a pod.
        Tree { pods: 3, leaves: 6, spines: 6, hosts: 6, up: 6, cores: 3, ..SMALL }.graph(),
        Tree { pods: 4, leaves: 4, spines: 4, hosts: 4, up: 4, cores: 8, ..SMALL }.graph(),
        Tree { pods: 4, leaves: 4, spines: 4, hosts: 4, up: 4, cores: 8, side_by_side: true, ..SMALL }.graph(),
        Tree { pods: 12, leaves: 4, spines: 4, hosts: 4, up: 4, cores: 16, ..SMALL }.graph(),
        // Eight cables from every leaf to every spine.
        Tree { pods: 1, leaves: 4, spines: 2, hosts: 16, cables: 8, up: 0, cores: 0, side_by_side: false }.graph(),
    ];
    for (at, graph) in trees.iter().enumerate() {
        let natural = in_order("ftree", graph, (0..graph.ends.len() as u32).collect());
        assert!(natural.is_sound() && natural.load.unused == 0, "{at}: {natural}");
        assert_eq!(natural.shift.free_share, 1.0, "{at}: {natural}");
        let (mixed, order) = shuffled(graph, 7);
        for name in TREE_ENGINES {
            let quality = in_order(name, &mixed, order.clone());
            assert!(quality.is_sound(), "{name} on {at}: {quality}");
            assert_eq!(
                (quality.load.max, quality.shift.free_share),
                (natural.load.max, 1.0),
                "{name} on {at}: {quality}"
            );
        }
    }
}

#[test]
fn a_thinned_tree_is_loaded_evenly() {
    // Eight hosts for two uplinks.
    let graph = generated(Shape::FatTree { radix: 10, levels: 2, hosts: None, hosts_per_leaf: Some(8) });
    let quality = judge("ftree", &graph, &RoutingOptions::default());
    assert!(quality.is_sound() && quality.load.max_over_mean() < 1.001, "{quality}");
    assert!(quality.shift.worst_mean <= 4.0, "{quality}");
}

#[test]
fn missing_hosts_do_not_bring_shifts_into_disorder() {
    let mut graph = full(12, 3);
    // One host of every seventh leaf is missing and leaves a gap.
    let mut order: Vec<u32> = Vec::new();
    let ends = std::mem::take(&mut graph.ends);
    for (at, end) in ends.into_iter().enumerate() {
        let is_gone = at % 41 == 7;
        let place = graph.ends.len() as u32;
        order.push(if is_gone { u32::MAX } else { place });
        let port = &mut graph.switches[end.switch as usize].ports[usize::from(end.port)];
        if is_gone {
            *port = Port::default();
        } else {
            port.peer = Peer::End(place);
            graph.ends.push(end);
        }
    }
    let quality = in_order("ftree", &graph, order);
    assert!(quality.is_sound() && quality.shift.free_share == 1.0, "{quality}");
}

#[test]
fn compute_nodes_are_spread_first() {
    let graph = full(8, 2);
    // Storage on the first port of every leaf.
    let storage: Vec<u64> = graph.ends.iter().filter(|end| end.port == 1).map(|end| end.guid).collect();
    let cn_guids = graph.ends.iter().map(|end| end.guid).filter(|guid| !storage.contains(guid)).collect();
    let options = RoutingOptions { cn_guids, ..RoutingOptions::default() };
    let tables = tables("ftree", &graph, &options, None);
    let order = (0u32..).zip(&graph.ends).filter(|(_, end)| end.port != 1).map(|(place, _)| place).collect();
    let quality = check(&graph, &tables, &Checks { order, ..Checks::default() }, &Sequential);
    assert!(quality.is_sound() && quality.shift.free_share == 1.0, "{quality}");
}

#[test]
fn storage_at_a_root_is_reached_backwards_as_far_as_is_allowed() {
    let mut graph = SMALL.graph();
    // Both cores have storage; the path between them goes down and up again.
    let cores = [8u32, 9];
    cores.iter().for_each(|core| {
        graph.switches[*core as usize].ports.resize(10, Port::default());
        hang(&mut graph, *core, 9);
    });
    let io_guids: Vec<u64> = graph.ends.iter().rev().take(2).map(|end| end.guid).collect();
    let run = |max_reverse_hops: u8| {
        let root_guids = cores.iter().map(|core| graph.switches[*core as usize].guid).collect();
        let options =
            RoutingOptions { io_guids: io_guids.clone(), max_reverse_hops, root_guids, ..RoutingOptions::default() };
        (engine("ftree").expect("ftree").run)(&Request::new(&graph, &options, &Sequential))
    };
    assert!(run(0).is_err());
    let tables = run(1).expect("tables");
    assert_eq!(check(&graph, &tables, &Checks::default(), &Sequential).reach.broken, 0);
}

#[test]
fn several_lids_take_several_spines() {
    let mut graph = full(8, 3);
    for (at, end) in (0u16..).zip(&mut graph.ends) {
        (end.lid, end.lmc) = (128 + 4 * at, 2);
    }
    for name in ["minhop", "updn", "ftree"] {
        let tables = tables(name, &graph, &RoutingOptions::default(), None);
        assert!(check(&graph, &tables, &Checks::default(), &Sequential).is_sound());
        let away = |end: &&crate::graph::End| end.switch != graph.ends[0].switch;
        for end in graph.ends.iter().filter(away) {
            let row = &tables.lfts[graph.ends[0].switch as usize];
            let mut ports: Vec<u8> = end.lids().map(|lid| row[usize::from(lid)]).collect();
            ports.sort_unstable();
            ports.dedup();
            assert_eq!(ports.len(), 4, "{name}: four LIDs, four spines");
        }
    }
}

#[test]
fn a_cut_changes_little_and_what_comes_back_is_used() {
    let graph = full(12, 3);
    let options = RoutingOptions::default();
    for name in ["minhop", "updn", "ftree"] {
        let before = tables(name, &graph, &options, None);
        let cut = without_link(graph.clone(), 100);
        let previous = Some(Previous { graph: &graph, tables: &before });
        let kept = tables(name, &cut, &options, previous);
        assert!(check(&cut, &kept, &Checks::default(), &Sequential).is_sound());
        let changed = |a: &Tables, b: &Tables| -> usize {
            let differ = |(a, b): (&Vec<u8>, &Vec<u8>)| a.iter().zip(b).filter(|(a, b)| a != b).count();
            a.lfts.iter().zip(&b.lfts).map(differ).sum()
        };
        let entries = graph.switch_count() * usize::from(graph.lid_top());
        let (few, many) = (changed(&before, &kept), changed(&before, &tables(name, &cut, &options, None)));
        assert!(few * 100 < entries && few <= many, "{name}: {few}, {many} of {entries}");
        let previous = Some(Previous { graph: &cut, tables: &kept });
        assert_eq!(tables(name, &graph, &options, previous), before, "{name}");
    }
}

/// Fabrics that lose one link after another, each time routed from the previous tables: no host is cut off, and no
/// credit loop occurs except with minhop, which does not prevent them.
#[test]
fn losses_one_after_another_are_patched_soundly() {
    let options = RoutingOptions::default();
    for (name, whole) in [("updn", full(8, 3)), ("ftree", full(8, 3)), ("dnup", SMALL.graph()), ("minhop", full(6, 3))]
    {
        let mut graph = whole;
        let mut held = tables(name, &graph, &options, None);
        for lot in 0..12u64 {
            let less = without_link(graph.clone(), super::spread::mix(lot) as usize % 997);
            let previous = Some(Previous { graph: &graph, tables: &held });
            let request = Request { previous, ..Request::new(&less, &options, &Sequential) };
            let Ok(next) = (engine(name).expect("an engine").run)(&request) else { break };
            let quality = check(&less, &next, &Checks { shifts: 0, ..Checks::default() }, &Sequential);
            let is_good = quality.reach.broken == 0 && (name == "minhop" || quality.credit_loop.is_none());
            assert!(is_good, "{name} after {lot}: {quality} {:?}", quality.reach);
            (graph, held) = (less, next);
        }
    }
}

#[test]
fn a_host_that_comes_or_goes_moves_nobody_else() {
    let whole = full(8, 3);
    let gone = whole.ends.len() as u32 - 1;
    let mut graph = whole.clone();
    let end = graph.ends.pop().expect("one");
    graph.switches[end.switch as usize].ports[usize::from(end.port)] = Port::default();
    for name in TREE_ENGINES.iter().filter(|name| **name != "auto" && **name != "dnup") {
        let options = RoutingOptions::default();
        let before = tables(name, &graph, &options, None);
        let after = tables(name, &whole, &options, Some(Previous { graph: &graph, tables: &before }));
        assert!(check(&whole, &after, &Checks::default(), &Sequential).is_sound(), "{name}");
        let others = (0..graph.switch_count()).flat_map(|switch| (1..=graph.lid_top()).map(move |lid| (switch, lid)));
        let at_home = |lid: u16| whole.ends.iter().any(|other| other.lid == lid && other.switch == end.switch);
        let moved = others.filter(|(switch, lid)| {
            let lid = usize::from(*lid);
            !at_home(lid as u16) && before.lfts[*switch][lid] != after.lfts[*switch][lid]
        });
        assert_eq!(moved.count(), 0, "{name}");
        assert_eq!(after.port(end.switch, whole.ends[gone as usize].lid), Some(end.port));
    }
}

#[test]
fn options_of_order_keep_tables_sound() {
    let graph = full(8, 3);
    let guid_routing_order = graph.ends.iter().rev().step_by(3).map(|end| end.guid).collect();
    let dimn_ports = graph.switches.iter().map(|switch| (switch.guid, vec![8, 7, 6, 5])).collect();
    let all = [
        RoutingOptions { guid_routing_order, ..RoutingOptions::default() },
        RoutingOptions { scatter_ports: 7, ..RoutingOptions::default() },
        RoutingOptions { port_shifting: true, ..RoutingOptions::default() },
        RoutingOptions { remote_guid_sorting: true, ..RoutingOptions::default() },
        RoutingOptions { dimn_ports, ..RoutingOptions::default() },
    ];
    let plain = tables("minhop", &graph, &RoutingOptions::default(), None);
    for options in all {
        let tables = tables("minhop", &graph, &options, None);
        let quality = check(&graph, &tables, &Checks::default(), &Sequential);
        assert!(quality.is_sound() && quality.load.max_over_mean() < 2.0, "{quality}");
        assert!(options.remote_guid_sorting || tables != plain, "{options:?} has no effect");
    }
}

#[test]
fn a_hop_that_counts_more_is_avoided() {
    let mut graph = generated(Shape::Torus { sizes: vec![4], hosts_per_switch: 1, wraps: true });
    let to = graph.ends[2].lid;
    graph.switches[1].ports[1].weight = 9;
    let tables = tables("minhop", &graph, &RoutingOptions::default(), None);
    assert_eq!((tables.port(0, to), tables.port(1, to)), (Some(2), Some(2)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn faulty_trees_and_random_graphs_are_routed_soundly(
        which in 0usize..4, links in prop::collection::vec(0usize..10_000, 0..12), seed in 0u64..1000
    ) {
        let graph = [
            || full(8, 3),
            || Tree { pods: 3, leaves: 3, spines: 4, hosts: 3, cores: 4, ..SMALL }.graph(),
            || generated(Shape::Random { switches: 16, degree: 3, hosts_per_switch: 2, seed: 3 }),
            || generated(Shape::Dragonfly { switches_per_group: 3, hosts_per_switch: 1, global_per_switch: 1, groups: None }),
        ][which]();
        let graph = links.iter().fold(graph, |graph, link| without_link(graph, *link));
        let (graph, _) = shuffled(&graph, seed);
        let reached = super::ways::distances(&super::links::Links::new(&graph), 0);
        prop_assume!(reached.iter().all(|distance| *distance != super::ways::FAR));
        for name in ["updn", "dnup", "auto"] {
            let quality = judge(name, &graph, &RoutingOptions::default());
            prop_assert!(quality.is_sound(), "{} on {}: {} {:?}", name, which, quality, quality.reach);
        }
        let quality = judge("minhop", &graph, &RoutingOptions::default());
        prop_assert!(quality.reach.broken == 0, "minhop: {:?}", quality.reach);
    }
}
