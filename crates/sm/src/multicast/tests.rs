//! Trees on generated fabrics: they are trees, reach the members and no other port, and change as little as they can.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use weft_fabric::topology::generate::Shape;

use super::tree::{has, ports};
use super::{Forest, Request, Seat, Tree, Wanted, trees};
use crate::graph::{Graph, Peer};
use crate::testing::generated;

fn fat_tree() -> Graph {
    generated(Shape::FatTree { radix: 8, levels: 3, hosts: None, hosts_per_leaf: None })
}

fn seat(graph: &Graph, end: usize) -> Seat {
    let end = &graph.ends[end];
    Seat { switch: end.switch, port: end.port, receives: true }
}

fn grown(graph: &Graph, wanted: &[Wanted], previous: &Forest) -> Forest {
    trees(&Request { graph, wanted, without_mft: &[], previous })
}

/// Ends that a packet from a seat reaches. Asserts that it enters no switch twice.
fn reached(graph: &Graph, tree: &Tree, from: Seat) -> BTreeSet<(u32, u8)> {
    let mut seen = BTreeSet::from([from.switch]);
    let mut queue = VecDeque::from([(from.switch, from.port)]);
    let mut reached = BTreeSet::new();
    while let Some((at, came)) = queue.pop_front() {
        let Some(mask) = tree.masks.get(&at) else { continue };
        for port in ports(mask).filter(|port| *port != came) {
            match graph.switches[at as usize].ports[usize::from(port)].peer {
                Peer::Switch { switch, port } => {
                    assert!(seen.insert(switch), "a packet comes to switch {switch} twice");
                    queue.push_back((switch, port));
                }
                _ => {
                    reached.insert((at, port));
                }
            }
        }
    }
    reached
}

fn check(graph: &Graph, forest: &Forest, wanted: &[Wanted]) {
    for wanted in wanted.iter().filter(|wanted| !wanted.seats.is_empty()) {
        let tree = &forest.trees[&wanted.mlid];
        let receivers = wanted.seats.iter().filter(|seat| seat.receives).map(|seat| (seat.switch, seat.port));
        let receivers: BTreeSet<(u32, u8)> = receivers.collect();
        for from in &wanted.seats {
            let mut others = receivers.clone();
            others.remove(&(from.switch, from.port));
            assert_eq!(reached(graph, tree, *from), others, "from {from:?}");
        }
        let seats: BTreeSet<u32> = wanted.seats.iter().map(|seat| seat.switch).collect();
        for (at, mask) in &tree.masks {
            assert!(seats.contains(at) || ports(mask).count() > 1, "switch {at} is in it for nothing");
        }
    }
}

#[test]
fn members_of_a_leaf_need_no_other_switch() {
    let graph = fat_tree();
    let wanted = [Wanted { mlid: 0xc000, seats: vec![seat(&graph, 0), seat(&graph, 1)] }];
    let forest = grown(&graph, &wanted, &Forest::default());
    assert_eq!(graph.ends[0].switch, graph.ends[1].switch);
    assert_eq!(forest.trees[&0xc000].masks.len(), 1);
    check(&graph, &forest, &wanted);
    assert_eq!(forest.rows(graph.ends[0].switch).len(), 1);
    assert_eq!(forest.tables()[graph.ends[0].switch as usize], forest.rows(graph.ends[0].switch));
}

#[test]
fn who_only_sends_is_heard_and_hears_nothing() {
    let graph = fat_tree();
    let sender = Seat { receives: false, ..seat(&graph, 127) };
    let wanted = [Wanted { mlid: 0xc000, seats: vec![seat(&graph, 0), seat(&graph, 50), sender] }];
    let forest = grown(&graph, &wanted, &Forest::default());
    check(&graph, &forest, &wanted);
    assert!(!has(&forest.trees[&0xc000].masks[&sender.switch], sender.port));
}

#[test]
fn roots_and_links_are_spread_over_groups() {
    let graph = fat_tree();
    let all: Vec<Seat> = (0..graph.ends.len()).map(|end| seat(&graph, end)).collect();
    let wanted: Vec<Wanted> = (0xc000..0xc010).map(|mlid| Wanted { mlid, seats: all.clone() }).collect();
    let forest = grown(&graph, &wanted, &Forest::default());
    check(&graph, &forest, &wanted);
    let mut roots: BTreeMap<u32, u32> = BTreeMap::new();
    forest.trees.values().for_each(|tree| *roots.entry(tree.root).or_default() += 1);
    // Sixteen core switches between the leaves, sixteen groups.
    assert_eq!((roots.len(), roots.values().max()), (16, Some(&1)));
    let mut loads: BTreeMap<(u32, u8), u32> = BTreeMap::new();
    for tree in forest.trees.values() {
        for (at, mask) in &tree.masks {
            let links = graph.switches[*at as usize].links().filter(|(port, _, _)| has(mask, *port));
            links.for_each(|(port, _, _)| *loads.entry((*at, port)).or_default() += 1);
        }
    }
    assert!(loads.values().max() <= Some(&7), "{:?}", loads.values().max());
}

#[test]
fn a_tree_stays_but_for_who_comes_and_goes() {
    let graph = fat_tree();
    let mut wanted = vec![Wanted { mlid: 0xc000, seats: (0..64).step_by(4).map(|end| seat(&graph, end)).collect() }];
    let before = grown(&graph, &wanted, &Forest::default());
    wanted[0].seats.push(seat(&graph, 1));
    let after = grown(&graph, &wanted, &before);
    check(&graph, &after, &wanted);
    let differing = |a: &Forest, b: &Forest| {
        let (a, b) = (&a.trees[&0xc000].masks, &b.trees[&0xc000].masks);
        a.iter().filter(|(at, mask)| b.get(at) != Some(mask)).count()
    };
    assert_eq!(differing(&after, &before), 1, "only the switch of the new member");
    wanted[0].seats.push(seat(&graph, 100));
    let grafted = grown(&graph, &wanted, &after);
    check(&graph, &grafted, &wanted);
    let seats = wanted[0].seats.len() - 2;
    wanted[0].seats.truncate(seats);
    let back = grown(&graph, &wanted, &grafted);
    check(&graph, &back, &wanted);
    assert_eq!(back.trees[&0xc000].masks, before.trees[&0xc000].masks);
    wanted[0].seats.clear();
    assert!(grown(&graph, &wanted, &back).trees.is_empty());
}

#[test]
fn a_tree_grows_anew_when_a_link_or_a_switch_of_it_is_gone() {
    let mut graph = fat_tree();
    let wanted = [Wanted { mlid: 0xc000, seats: (0..128).step_by(3).map(|end| seat(&graph, end)).collect() }];
    let before = grown(&graph, &wanted, &Forest::default());
    let leaf = wanted[0].seats[0].switch;
    let cut =
        graph.switches[leaf as usize].links().find(|(port, _, _)| has(&before.trees[&0xc000].masks[&leaf], *port));
    let (port, other, back) = cut.expect("a link");
    graph.switches[leaf as usize].ports[usize::from(port)].peer = Peer::None;
    graph.switches[other as usize].ports[usize::from(back)].peer = Peer::None;
    let after = grown(&graph, &wanted, &before);
    check(&graph, &after, &wanted);
    let without_mft = [after.trees[&0xc000].root];
    let forest = trees(&Request { graph: &graph, wanted: &wanted, without_mft: &without_mft, previous: &after });
    check(&graph, &forest, &wanted);
    assert!(!forest.trees[&0xc000].masks.contains_key(&without_mft[0]));
}

#[test]
fn pieces_of_a_fabric_have_a_tree_each() {
    let mut graph = fat_tree();
    let wanted = [Wanted { mlid: 0xc000, seats: vec![seat(&graph, 0), seat(&graph, 1), seat(&graph, 127)] }];
    for port in &mut graph.switches[wanted[0].seats[0].switch as usize].ports {
        if matches!(port.peer, Peer::Switch { .. }) {
            port.peer = Peer::None;
        }
    }
    for previous in [Forest::default(), grown(&fat_tree(), &wanted, &Forest::default())] {
        let forest = grown(&graph, &wanted, &previous);
        let tree = &forest.trees[&0xc000];
        assert_eq!(tree.masks.len(), 2);
        let first = wanted[0].seats[0];
        assert_eq!(reached(&graph, tree, first), BTreeSet::from([(first.switch, wanted[0].seats[1].port)]));
    }
}

#[test]
fn a_tree_moves_with_its_switches() {
    let graph = fat_tree();
    let wanted = [Wanted { mlid: 0xc000, seats: vec![seat(&graph, 0), seat(&graph, 127)] }];
    let mut before = grown(&graph, &wanted, &Forest::default());
    let plain = before.clone();
    // As if a switch that has since left had come first.
    before.guids.insert(0, 1);
    let tree = before.trees.get_mut(&0xc000).expect("a tree");
    tree.masks = tree.masks.iter().map(|(at, mask)| (at + 1, *mask)).collect();
    tree.root += 1;
    tree.seats.iter_mut().for_each(|seat| seat.switch += 1);
    assert_eq!(grown(&graph, &wanted, &before), plain);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn whoever_comes_and_goes_all_are_reached(steps in prop::collection::vec((0_usize..3, 0_usize..128, any::<bool>()), 1..40)) {
        let graph = fat_tree();
        let mut members: [BTreeMap<usize, bool>; 3] = Default::default();
        let mut forest = Forest::default();
        for (group, end, receives) in steps {
            if members[group].remove(&end).is_none() {
                members[group].insert(end, receives);
            }
            let wanted: Vec<Wanted> = members.iter().zip(0xc000..).map(|(members, mlid)| {
                let seats = members.iter().map(|(end, receives)| Seat { receives: *receives, ..seat(&graph, *end) });
                Wanted { mlid, seats: seats.collect() }
            }).collect();
            forest = grown(&graph, &wanted, &forest);
            check(&graph, &forest, &wanted);
        }
    }
}
