use weft_fabric::topology::generate::Shape;

use super::{Checks, Why, check};
use crate::graph::{Graph, Peer};
use crate::parallel::Sequential;
use crate::routing::{Request, RoutingOptions, engine};
use crate::tables::{Lanes, NO_PATH, ServiceLevels, Tables};
use crate::testing::generated;

fn routed(graph: &Graph) -> Tables {
    let options = RoutingOptions::default();
    (engine("minhop").expect("minhop").run)(&Request::new(graph, &options, &Sequential)).expect("tables")
}

fn ring(switches: u32) -> Graph {
    generated(Shape::Torus { sizes: vec![switches], hosts_per_switch: 1, wraps: true })
}

/// Tables with which every path of a ring goes up, through port 1.
fn one_way(graph: &Graph) -> Tables {
    let mut tables = Tables::empty("one way", graph);
    for (at, row) in (0u32..).zip(&mut tables.lfts) {
        row.fill(1);
        let switch = &graph.switches[at as usize];
        row[usize::from(switch.lid)] = 0;
        for (port, end) in switch.hung() {
            row[usize::from(graph.ends[end as usize].lid)] = port;
        }
    }
    tables
}

#[test]
fn a_tree_is_measured() {
    let graph = generated(Shape::FatTree { radix: 8, levels: 2, hosts: None, hosts_per_leaf: None });
    let quality = check(&graph, &routed(&graph), &Checks::default(), &Sequential);
    // 32 hosts, 4 at each of 8 leaves: a host has 3 others at its leaf, 28 behind a spine.
    assert!(quality.is_sound());
    assert_eq!((quality.reach.broken, quality.reach.hops_max), (0, 3));
    assert!((quality.reach.hops_mean - (3.0 + 28.0 * 3.0) / 31.0).abs() < 1e-9);
    assert_eq!((quality.load.max, quality.load.unused, quality.load.links), (28, 0, 64));
    assert!((quality.load.max_over_mean() - 1.0).abs() < 1e-9);
    assert_eq!((quality.shift.tried, quality.shift.worst_mean, quality.shift.free_share), (31, 1.0, 1.0));
}

#[test]
fn a_ring_that_goes_one_way_blocks_itself_and_is_named() {
    let graph = ring(4);
    let quality = check(&graph, &one_way(&graph), &Checks::default(), &Sequential);
    assert_eq!(quality.reach.broken, 0);
    let circle = quality.credit_loop.expect("a credit loop");
    assert_eq!(circle.len(), 4);
    for (at, channel) in circle.iter().enumerate() {
        let next = circle[(at + 1) % circle.len()];
        let port = &graph.switches[channel.switch as usize].ports[usize::from(channel.port)];
        assert!(matches!(port.peer, Peer::Switch { switch, .. } if switch == next.switch));
    }
}

#[test]
fn lanes_open_a_ring() {
    let graph = ring(4);
    let mut tables = one_way(&graph);
    // Paths over the link from the last switch to the first use another VL than the rest. Of these, paths that start at
    // the second switch would close the cycle again, so they use a third VL.
    let switches = graph.switch_count();
    let place = |at: usize| u32::try_from(at).expect("small");
    let order: Vec<u32> = {
        let mut order = vec![0];
        while order.len() < switches {
            let at = order[order.len() - 1];
            let Peer::Switch { switch, .. } = graph.switches[at as usize].ports[1].peer else { panic!("a ring") };
            order.push(switch);
        }
        order
    };
    let rank = |switch: usize| order.iter().position(|at| *at == place(switch)).expect("in the ring");
    let level = |from: usize, to: usize| match (rank(from), rank(to)) {
        (from, to) if from <= to => 0,
        (1, _) => 2,
        _ => 1,
    };
    let levels = (0..switches * switches).map(|at| level(at / switches, at % switches)).collect();
    tables.service_levels = ServiceLevels::BySwitches(levels);
    tables.lanes = Lanes::Identity { count: 3 };
    let quality = check(&graph, &tables, &Checks::default(), &Sequential);
    assert_eq!((quality.lanes, quality.credit_loop), (3, None));
}

#[test]
fn what_does_not_arrive_is_told() {
    let graph = ring(5);
    let good = routed(&graph);
    let lid = graph.ends[0].lid;
    let away = (0..5).find(|at| *at != graph.ends[0].switch).expect("another switch");

    let mut unset = good.clone();
    unset.lfts[away as usize][usize::from(lid)] = NO_PATH;
    let broken = check(&graph, &unset, &Checks::default(), &Sequential).reach.first.expect("broken");
    assert_eq!((broken.lid, broken.at, broken.why), (lid, away, Why::Unset));

    let mut astray = good.clone();
    astray.lfts[away as usize][usize::from(lid)] = 3;
    let broken = check(&graph, &astray, &Checks::default(), &Sequential).reach.first.expect("broken");
    assert_eq!((broken.at, broken.why), (away, Why::Astray));

    let mut round = good;
    round.lfts.iter_mut().for_each(|row| row[usize::from(lid)] = 1);
    let reach = check(&graph, &round, &Checks::default(), &Sequential).reach;
    assert_eq!((reach.broken, reach.loops), (5, 5));
}
